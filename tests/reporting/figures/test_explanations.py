"""Figures of explained items."""

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from matplotlib import pyplot
from PIL import Image

from stand_ins.models import tiny_clip, tiny_decoders
from stand_ins.records import build_items
from waltz.attribution.encoder_rows import attribute_texts_of_items
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.attribution.t_shap import (
    compute_contribution_ratios,
    find_contributing_outputs,
)
from waltz.consistency.cc_shap.rows import (
    CCShapSettings,
    build_setup,
    compute_cc_shap_records,
    compute_edit_records,
)
from waltz.core.files import parquet
from waltz.core.jobs.devices import Device
from waltz.core.records import convert_to_records, to_row
from waltz.core.schema import (
    ATTRIBUTION,
    CC_SHAP,
    EDITED,
    AttributionRecord,
    ConsistencyRecord,
)
from waltz.evaluation.prompting.prompt_files import read_prompt_file
from waltz.evaluation.prompting.prompts import build_equations_template
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import EQUATIONS
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder
from waltz.reporting.figures.explanations import (
    MAX_LINES,
    ExplainedText,
    ExplanationTables,
    draw_answer_and_explanation,
    draw_edited_explanations,
    draw_encoder_example,
    draw_explanations,
    make_image_renderer,
)
from waltz.reporting.figures.figure_files import list_drawable_items, save_figure
from waltz.sources.images import open_images

ITEMS = build_items(
    {
        "item_id": name,
        "instrument": "existence",
        "image": "a.png",
        "caption": caption,
        "foil": "there is no dog",
    }
    for name, caption in (("one", "there is a man"), ("two", "a cat on the box"))
)


def test_a_figure_shows_the_rows_values(tmp_path):
    encoder = load_encoder(
        ModelSpec(
            "tiny", kind="clip", weights=str(tiny_clip.save_clip(tmp_path / "clip"))
        ),
        Device("cpu", 1, "test"),
    )
    Image.new("RGB", (50, 40), (200, 30, 90)).save(tmp_path / "a.png")
    with open_images(tmp_path) as source:
        records = attribute_texts_of_items(
            encoder,
            tmp_path / "s",
            "own",
            AttributionSettings(EQUATIONS, "auto", 40, 0),
            ITEMS,
            source,
            lambda n: None,
        )
    of = [record for record in records if record.item_id == "two"]
    with Image.open(tmp_path / "a.png") as opened:
        figure = draw_encoder_example(encoder, of, opened.convert("RGB"), "tiny, two")
    written = " ".join(text.get_text() for axes in figure.axes for text in axes.texts)
    written += " ".join(
        axes.get_title(loc=loc) for axes in figure.axes for loc in ("left", "center")
    )
    for row in of:
        assert f"{100 * row.t_shap:.1f}" in written
        assert f" {row.phi[1][0]:+.1f} " in written.replace("−", "-")


def test_items_with_an_error_in_any_row_are_not_drawn():
    rows = [
        ("b", "equations", None),
        ("b", "equations", None),
        ("a", "equations", None),
        ("c", "equations", None),
        ("c", "equations", "too long"),
        ("d", "published", None),
    ]
    columns = dict(
        zip(("item_id", "profile", "error"), zip(*rows, strict=True), strict=True)
    )
    table = pa.table({**columns, "phi": [None] * len(rows)})
    assert list_drawable_items(table, "equations") == ["a", "b"]
    assert list_drawable_items(table.slice(0, 0), "equations") == []


SHORT = """
forms:
  comve: {text: "A {first} B {second} ?"}
  pairwise: {text: "A: {first} B: {second} ?"}
turns:
  choice:
    answer: [{user: "{input} answer ("}]
    post-hoc: [{user: "{input} answer ( {answer} ) because"}]
    cot: [{user: "{input} what is this ?"}]
"""
TEXT = Question(
    "own:1",
    "own",
    "comve",
    None,
    {"first": "a dog", "second": "two cars"},
    ("A", "B"),
    ("A",),
    "B",
)
PAIR = Question(
    "own:2",
    "own",
    "pairwise",
    "0.png",
    {"first": "a man", "second": "a cat"},
    ("A", "B"),
    ("A",),
    "B",
)
WORDS = {TEXT.form: "A a red dog B two cars ?", PAIR.form: "A: a red man B: a cat ?"}


def photo(*_):
    return Image.fromarray(
        np.random.default_rng(3).integers(0, 256, (40, 61, 3), dtype=np.uint8)
    )


def left(folder, decoder, question) -> ExplanationTables:
    """What the stage leaves of one item with an edit, and of one that fails."""
    (folder / "short.yaml").write_text(SHORT)
    template = build_equations_template(
        lambda turns: " ".join(
            ("<image> " if turn.image else "") + turn.text for turn in turns
        ),
        read_prompt_file(EQUATIONS, folder / "short.yaml"),
    )
    how = build_setup(
        decoder,
        template,
        3,
        CCShapSettings(permutations=2),
        {"explanation": 3},
        folder / "store",
    )
    edit = ConsistencyRecord(
        test="counterfactual_edits",
        item_id=question.item_id,
        profile="equations",
        setting=question.form,
        seed=3,
        text="",
        edited_input=WORDS[question.form],
        inserted="red",
        flipped=True,
    )
    rows, contributions = compute_cc_shap_records(
        how, [question], photo, lambda _: None
    )
    moved, after = compute_edit_records(how, [question], photo, lambda _: None, [edit])
    failed = replace(contributions[0], item_id="own:0", phi=None, error="too long")
    tables = (
        ([*contributions, failed], ATTRIBUTION),
        (rows, CC_SHAP),
        (moved, EDITED),
        (after, ATTRIBUTION),
    )
    return ExplanationTables(
        *(
            parquet.build_table(list(map(to_row, part)), layout)
            for part, layout in tables
        )
    )


@pytest.fixture(scope="module")
def pictured(tmp_path_factory):
    decoder = tiny_decoders.llava()
    return decoder, left(tmp_path_factory.mktemp("pair"), decoder, PAIR)


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    return left(tmp_path_factory.mktemp("text"), tiny_decoders.causal("llama"), TEXT)


def written(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def percents(row, words):
    """Mean ratios in percent of some players of a row."""
    phi = np.array(row["phi"])
    return (
        100
        * compute_contribution_ratios(phi[:, find_contributing_outputs(phi)]).mean(
            axis=1
        )[words]
    )


def shown(figure):
    """The first line of numbers: those beneath the answer's tokens."""
    return [
        float(word.replace("−", "-"))
        for text in figure.axes[0].texts
        if re.fullmatch(r"[+−]?[\d.]+", word := text.get_text())
    ]


def test_items_are_shown_with_their_numbers_for_either_kind(spoken):
    figures = list(
        draw_explanations(
            {"own": spoken}, "m", ["equations"], 5, 0, make_image_renderer(None, photo)
        )
    )
    assert [name for name, *_ in figures] == [
        "own-equations-1-post-hoc",
        "own-equations-1-cot",
    ]
    rows = spoken.contributions.to_pylist()
    for (_, title, figure), shap, row in zip(
        figures, spoken.cc_shap.to_pylist(), rows[::2], strict=False
    ):
        value = f"{shap['value']:.3f}".replace("-", "−")
        assert title.startswith(
            f"m, own, equations: own:1, {shap['kind']}, CC-SHAP {value}"
        )
        assert title in written(figure)
        # No share of text without an image.
        assert {"answer", "explanation"} <= set(written(figure))
        words = len(row["tokens"])
        np.testing.assert_allclose(
            shown(figure)[:words], percents(row, slice(words)), atol=0.51
        )
        assert len(figure.axes) == 1
    assert (
        list(
            draw_explanations(
                {"own": spoken},
                "m",
                ["published"],
                5,
                0,
                make_image_renderer(None, photo),
            )
        )
        == []
    )


def test_an_edit_is_below_its_original(spoken):
    ((name, title, figure),) = draw_edited_explanations(
        {"own": spoken}, "m", ["equations"], 5, 0, make_image_renderer(None, photo)
    )
    (moved,) = spoken.edited.to_pylist()
    assert name == "own-equations-1-edit"
    assert (
        f"moved: answer {moved['answer']:.3f}, explanation {moved['explanation']:.3f}"
        in title
    )
    assert f"→ {moved['cc_shap']:.3f}".replace("-", "−") in title
    headings = [
        word
        for word in written(figure)
        if word.startswith(("answer", "explanation")) and "(" not in word
    ]
    sides = ["answer", "explanation", "answer with “red”", "explanation with “red”"]
    assert [heading for heading in headings if heading in sides] == sides
    assert written(figure).count("red") >= 4  # once in either column of either side
    unedited = {"own": ExplanationTables(spoken.contributions, spoken.cc_shap)}
    assert (
        list(
            draw_edited_explanations(
                unedited, "m", ["equations"], 5, 0, make_image_renderer(None, photo)
            )
        )
        == []
    )


def test_a_decoder_that_sees_is_shown_with_what_it_saw(pictured):
    decoder, attribution = pictured
    see = make_image_renderer(decoder, photo)
    row = attribution.contributions.to_pylist()[0]
    (record, *_) = convert_to_records(attribution.contributions, AttributionRecord)
    image, cells = see("own", record)
    assert image.shape == (24, 24, 3)
    assert sorted(set(cells.ravel())) == list(range(row["grid"] ** 2))
    assert see("own", replace(record, image=None)) is None
    _, _, figure = next(
        iter(draw_explanations({"own": attribution}, "m", ["equations"], 1, 0, see))
    )
    assert len([axes for axes in figure.axes if axes.images]) == 6
    assert f"answer, T-SHAP {100 * row['t_shap']:.1f}" in " ".join(written(figure))
    patches = percents(row, slice(len(row["tokens"]), None))
    drawn = [float(text.get_text().replace("−", "-")) for text in figure.axes[1].texts]
    np.testing.assert_allclose(drawn, patches, atol=0.51)
    _, _, edited = next(
        iter(
            draw_edited_explanations(
                {"own": attribution}, "m", ["equations"], 1, 0, see
            )
        )
    )
    assert len([axes for axes in edited.axes if axes.images]) == 12


CELLS = np.repeat(np.repeat(np.arange(4).reshape(2, 2), 10, axis=0), 10, axis=1)
IMAGE = np.random.default_rng(0).random((20, 20, 3))


def side(name, prompt, phi, generated_text="so", cells=None, **facts):
    spans = [
        {"start": word.start(), "end": word.end()}
        for word in re.finditer(r"\S+", prompt)
    ]
    return ExplainedText(
        name,
        generated_text,
        prompt,
        ["?"] * len(spans),
        spans,
        np.asarray(phi, dtype=float),
        cells,
        **facts,
    )


def list_texts(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def numbers(figure):
    return [word for word in list_texts(figure) if re.fullmatch(r"[+−]?[\d.]+", word)]


def boxes(figure):
    """The faces of the tokens' boxes: the answer's as they are and renormalized, then the
    explanation's.
    """
    return [
        patch.get_facecolor() for patch in figure.axes[0].patches if patch.get_fill()
    ]


def test_mean_ratios_worked_by_hand():
    # the explanation's ratios: (1/4, -3/4) and (1, 0), their mean (5/8, -3/8)
    answer, explanation = (
        side("answer", "a dog", [[1], [1]]),
        side("explanation", "a dog", [[1, 9], [-3, 0]]),
    )
    figure = draw_answer_and_explanation([answer, explanation], "title")
    assert numbers(figure) == ["+50", "+50", "+50", "+50", "+62", "−38", "+62", "−38"]
    assert list_texts(figure)[0] == "title"
    assert "answer" in list_texts(figure)
    assert len(figure.axes) == 1  # no image


def test_each_modality_is_renormalized():
    # text 1, 1 and image 0, 2, -6, 0
    phi = [[1], [1], [0], [2], [-6], [0]]
    shares = {"t_shap": 0.2, "t_shap_se": 0.013}
    sides = [
        side(name, "a dog", phi, cells=CELLS, **shares)
        for name in ("answer", "explanation")
    ]
    figure = draw_answer_and_explanation(sides, "", IMAGE)
    assert numbers(figure)[:4] == ["+10", "+10", "+50", "+50"]
    patches = [text.get_text() for axes in figure.axes[1:4] for text in axes.texts]
    assert patches == ["0", "+20", "−60", "0", "0", "+25", "−75", "0"]
    assert {"answer, T-SHAP 20.0 ± 1.3 %", "explanation, T-SHAP 20.0 ± 1.3 %"} <= set(
        list_texts(figure)
    )
    # Two ways to colour it and itself, on either side.
    assert len([axes for axes in figure.axes if axes.images]) == 6


def test_sides_share_one_scale_as_they_are():
    prompt = " ".join("abcdefghij")
    spread, one = (
        side("answer", prompt, np.ones((10, 1))),
        side("explanation", "a b", [[1], [0]]),
    )
    faces = boxes(draw_answer_and_explanation([spread, one], ""))
    assert faces[0][0] > faces[20][0] + 0.2  # a tenth is paler than all
    assert faces[10] == faces[22]  # renormalized: the strongest of each side


def test_weak_tokens_are_left_out_and_nothing_is_not_a_number():
    weak = side("explanation", "a dog", [[1, 0], [0, 1e-4]])
    none = side("answer", "a dog", [[0], [0]], generated_text="")
    figure = draw_answer_and_explanation([none, weak], "")
    assert list_texts(figure).count("NaN") == 4
    assert numbers(figure) == ["+100", "0", "+100", "0"]
    assert "(nothing)" in list_texts(figure)


def test_long_explanations_are_cut_and_dollars_stay():
    text = "it costs $5 and $6, " * 100
    figure = draw_answer_and_explanation(
        [
            side("answer", "a", [[1]]),
            side("explanation", "a", [[1]], generated_text=text),
        ],
        "",
    )
    lines = [
        line
        for line in list_texts(figure)
        if line.startswith(("it", "costs", "$", "and"))
    ]
    assert len(lines) == MAX_LINES
    assert lines[-1].endswith("…")


def test_nothing_leaves_the_page_or_stays_open(tmp_path):
    prompt = " ".join(f"word{place}" for place in range(50))
    phi = np.random.default_rng(1).normal(size=(54, 3))
    long = side("answer", prompt, phi, cells=CELLS)
    figure = draw_answer_and_explanation(
        [long, replace(long, name="explanation")], "x", IMAGE
    )
    width, height = figure.get_size_inches()
    assert height < 40
    for patch in figure.axes[0].patches:
        assert 0 <= patch.get_x() <= patch.get_x() + patch.get_width() <= width
        assert 0 <= patch.get_y() <= patch.get_y() + patch.get_height() <= height
    save_figure(figure, [tmp_path / "a.svg"])
    save_figure(
        draw_answer_and_explanation(
            [long, replace(long, name="explanation")], "x", IMAGE
        ),
        [tmp_path / "b.svg"],
    )
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert not pyplot.get_fignums()
