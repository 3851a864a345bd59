from PIL import Image

from stand_ins import tiny_clip
from waltz.attribution.encoder_rows import compute_text_rows
from waltz.attribution.settings import AttributionSettings
from waltz.core.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder
from waltz.reporting.figures.encoder_examples import draw_encoder_example, select_example_items
from waltz.sources.images import open_images

ITEMS = [
    {"item_id": name, "instrument": "existence", "image": "a.png", "caption": caption, "foil": "there is no dog"}
    for name, caption in (("one", "there is a man"), ("two", "a cat on the box"))
]


def test_a_figure_shows_the_rows_values(tmp_path):
    encoder = load_encoder(
        ModelSpec("tiny", kind="clip", weights=str(tiny_clip.save_clip(tmp_path / "clip"))), Device("cpu", 1, "test")
    )
    Image.new("RGB", (50, 40), (200, 30, 90)).save(tmp_path / "a.png")
    with open_images(tmp_path) as source:
        rows = compute_text_rows(
            encoder, ITEMS, source, AttributionSettings("equations", "auto", 40, 0), tmp_path / "s", lambda n: None
        )
    of = [row for row in rows if row["item_id"] == "two"]
    with Image.open(tmp_path / "a.png") as opened:
        figure = draw_encoder_example(encoder, of, opened.convert("RGB"), "tiny, two")
    written = " ".join(text.get_text() for axes in figure.axes for text in axes.texts)
    written += " ".join(axes.get_title(loc=loc) for axes in figure.axes for loc in ("left", "center"))
    for row in of:
        assert f"{100 * row['t_shap']:.1f}" in written
        assert f" {row['phi'][1][0]:+.1f} " in written.replace("−", "-")


def test_items_with_errors_are_not_drawn_and_the_sample_does_not_hang_on_others():
    rows = [{"item_id": f"i{number}", "error": None} for number in range(20) for _ in range(2)]
    few = select_example_items(rows, 3, 0)
    assert len(set(few)) == 3
    assert set(few) <= set(select_example_items(rows, 5, 0))
    failed = [{**row, "error": "too long"} if row["item_id"] == few[0] else row for row in rows]
    assert few[0] not in select_example_items(failed, 20, 0)
    assert select_example_items([], 3, 0) == []
