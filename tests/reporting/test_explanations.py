"""Figures of answers above explanations, from rows as stage consistency writes them for tiny decoders."""

import re

import numpy as np
import pytest
from PIL import Image

from stand_ins import tiny_decoders
from waltz.attribution.contribution_ratios import compute_contribution_ratios, find_contributing_outputs
from waltz.consistency.cc_shap.items import build_setup
from waltz.consistency.cc_shap.rows import compute_cc_shap_rows, compute_edit_rows
from waltz.core.files import parquet
from waltz.core.schema import ATTRIBUTION, CC_SHAP, EDITED
from waltz.evaluation.prompting.prompt_files import read_prompt_file
from waltz.evaluation.prompting.prompts import build_equations_template
from waltz.evaluation.prompting.questions import Question
from waltz.reporting.figures.explanations import ExplanationTables, draw_edits, draw_explanations, make_image_loader

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
TEXT = Question("own:1", "own", "comve", None, {"first": "a dog", "second": "two cars"}, ("A", "B"), ("A",), "B")
PAIR = Question("own:2", "own", "pairwise", "0.png", {"first": "a man", "second": "a cat"}, ("A", "B"), ("A",), "B")
WORDS = {TEXT.form: "A a red dog B two cars ?", PAIR.form: "A: a red man B: a cat ?"}


def photo(*_):
    return Image.fromarray(np.random.default_rng(3).integers(0, 256, (40, 61, 3), dtype=np.uint8))


def left(folder, decoder, question) -> ExplanationTables:
    """What the stage leaves of one item with an edit, and of one that fails."""
    (folder / "short.yaml").write_text(SHORT)
    template = build_equations_template(
        lambda turns: " ".join(("<image> " if turn.image else "") + turn.text for turn in turns),
        read_prompt_file("equations", folder / "short.yaml"),
    )
    how = build_setup(decoder, template, 3, {"permutations": 2}, {"explanation": 3}, folder / "store")
    edit = {"test": "counterfactual_edits", "item_id": question.item_id, "profile": "equations", "seed": 3}
    edit |= {"error": None, "edited_input": WORDS[question.form], "inserted": "red", "flipped": True, "reason": None}
    rows, beside = compute_cc_shap_rows(how, [question], photo, lambda _: None)
    moved, after = compute_edit_rows(how, [question], [edit], photo, lambda _: None)
    failed = {**beside[0], "item_id": "own:0", "phi": None, "error": "too long"}
    tables = (([*beside, failed], ATTRIBUTION), (rows, CC_SHAP), (moved, EDITED), (after, ATTRIBUTION))
    return ExplanationTables(*(parquet.build_table(part, layout) for part, layout in tables))


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
    return 100 * compute_contribution_ratios(phi[:, find_contributing_outputs(phi)]).mean(axis=1)[words]


def shown(figure):
    """The first line of numbers: those beneath the answer's tokens."""
    return [
        float(word.replace("−", "-"))
        for text in figure.axes[0].texts
        if re.fullmatch(r"[+−]?[\d.]+", word := text.get_text())
    ]


def test_items_are_shown_with_their_numbers_for_either_kind(spoken):
    figures = list(draw_explanations({"own": spoken}, "m", "equations", 5, 0, make_image_loader(None, photo)))
    assert [name for name, *_ in figures] == ["own-equations-1-post-hoc", "own-equations-1-cot"]
    rows = spoken.contributions.to_pylist()
    for (_, title, figure), shap, row in zip(figures, spoken.cc_shap.to_pylist(), rows[::2], strict=False):
        value = f"{shap['value']:.3f}".replace("-", "−")
        assert title.startswith(f"m, own, equations: own:1, {shap['kind']}, CC-SHAP {value}")
        assert title in written(figure)
        assert {"answer", "explanation"} <= set(written(figure))  # no share of text without an image
        words = len(row["tokens"])
        np.testing.assert_allclose(shown(figure)[:words], percents(row, slice(words)), atol=0.51)
        assert len(figure.axes) == 1
    assert list(draw_explanations({"own": spoken}, "m", "published", 5, 0, make_image_loader(None, photo))) == []


def test_an_edit_stands_below_what_it_was_made_from(spoken):
    ((name, title, figure),) = draw_edits({"own": spoken}, "m", "equations", 5, 0, make_image_loader(None, photo))
    (moved,) = spoken.edited.to_pylist()
    assert name == "own-equations-1-edit"
    assert f"moved: answer {moved['answer']:.3f}, explanation {moved['explanation']:.3f}" in title
    assert f"→ {moved['cc_shap']:.3f}".replace("-", "−") in title
    headings = [word for word in written(figure) if word.startswith(("answer", "explanation")) and "(" not in word]
    sides = ["answer", "explanation", "answer with “red”", "explanation with “red”"]
    assert [heading for heading in headings if heading in sides] == sides
    assert written(figure).count("red") >= 4  # once in either column of either side
    unedited = {"own": ExplanationTables(spoken.contributions, spoken.cc_shap)}
    assert list(draw_edits(unedited, "m", "equations", 5, 0, make_image_loader(None, photo))) == []


def test_a_decoder_that_sees_is_shown_with_what_it_saw(pictured):
    decoder, found = pictured
    see = make_image_loader(decoder, photo)
    row = found.contributions.to_pylist()[0]
    image, cells = see("own", row)
    assert image.shape == (24, 24, 3)
    assert sorted(set(cells.ravel())) == list(range(row["grid"] ** 2))
    assert see("own", {**row, "image": None}) is None
    _, _, figure = next(iter(draw_explanations({"own": found}, "m", "equations", 1, 0, see)))
    assert len([axes for axes in figure.axes if axes.images]) == 6
    assert f"answer, T-SHAP {100 * row['t_shap']:.1f}" in " ".join(written(figure))
    patches = percents(row, slice(len(row["tokens"]), None))
    drawn = [float(text.get_text().replace("−", "-")) for text in figure.axes[1].texts]
    np.testing.assert_allclose(drawn, patches, atol=0.51)
    _, _, edited = next(iter(draw_edits({"own": found}, "m", "equations", 1, 0, see)))
    assert len([axes for axes in edited.axes if axes.images]) == 12
