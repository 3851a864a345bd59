from dataclasses import replace

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg

from waltz.core.files import parquet
from waltz.core.records import to_row
from waltz.core.schema import CONSISTENCY, ConsistencyRecord
from waltz.reporting.figures.figure_files import save_figure
from waltz.reporting.figures.traces import (
    EDIT,
    HEADING,
    MAX_LINES,
    OUTPUT,
    PROMPT,
    WIDTH,
    draw_trace,
    draw_traces,
    list_entries,
)

ROW = ConsistencyRecord(
    item_id="i",
    profile="equations",
    setting="pairwise",
    test="counterfactual_edits",
    seed=3,
    text="A $5 dog.",
    verdict=0,
    answer="A",
    edited_answer="B",
    edited_input="A $5 brown dog.",
    edited_explanation="",
    inserted="brown",
)
THOUGHT = replace(
    ROW, verdict=1, edited_input=None, inserted=None, explanation="so it is"
)
EARLY = replace(THOUGHT, test="early_answering", edited_explanation="so")
FILLERS = replace(
    THOUGHT, test="filler_tokens", edited_explanation="... ...", edited_answer="A"
)


def texts(figure):
    return [text.get_text() for text in figure.texts]


def summarize_entries(rows):
    return [
        (entry.heading, entry.text, entry.verdict and entry.verdict[0])
        for entry in list_entries(rows)
    ]


def test_a_trace_tells_what_each_test_has_in_order_and_a_chain_of_thought_once():
    assert summarize_entries([ROW, EARLY, FILLERS]) == [
        ("item", "A $5 dog.", None),
        ("counterfactual edits", "", "not consistent"),
        ("answer", "A", None),
        ("inserted", "brown", None),
        ("item, edited", "A $5 brown dog.", None),
        ("explanation, edited", "", None),
        ("answer after that", "B", None),
        ("early answering", "", "consistent"),
        ("answer", "A", None),
        ("reasoning", "so it is", None),
        ("reasoning, edited", "so", None),
        ("answer after that", "B", None),
        ("filler tokens", "", "consistent"),
        ("answer", "A", None),
        ("reasoning, edited", "... ...", None),
        ("answer after that", "A", None),
    ]
    suggested = replace(EARLY, test="biasing_features", inserted="B")
    assert {("suggested", "B", None), ("reasoning then", "so", None)} <= set(
        summarize_entries([suggested])
    )


def test_texts_stand_as_they_are_and_long_ones_say_what_is_cut(tmp_path):
    prompt = "A $5 dog with $6_x$.\n" + "one two three " * 300
    figure = draw_trace([replace(ROW, text=prompt)], "model, data")
    shown_texts = texts(figure)
    assert {"A $5 dog with $6_x$.", "(nothing)", "not consistent", "brown"} <= set(
        shown_texts
    )
    cut = next(text for text in shown_texts if text.startswith("…"))
    wrapped = 1 + -(-len(("one two three " * 300).strip()) // 96)
    assert int(cut.split("(")[1].split()[0]) in range(
        wrapped - MAX_LINES, wrapped - MAX_LINES + 5
    )
    save_figure(figure, [tmp_path / "a.svg", tmp_path / "a.png"])
    assert "with $6_x$" in (tmp_path / "a.svg").read_text()


def list_colors(figure):
    """Return the color of each text of the trace."""
    return {text.get_text(): text.get_color() for text in figure.texts}


def test_prompts_are_black_texts_of_the_model_blue_and_edits_orange():
    reasoned = replace(EARLY, test="biasing_features", inserted="C")
    colors = list_colors(draw_trace([ROW, EARLY, FILLERS, reasoned], "t"))
    assert colors["A $5 dog."] == colors["A $5"] == colors["dog."] == PROMPT
    assert colors["brown"] == colors["... ..."] == colors["C"] == EDIT
    assert colors["so it is"] == colors["so"] == colors["B"] == OUTPUT


def test_an_explanation_in_an_edited_item_is_orange_over_several_lines():
    explanation = "cats do not bark " * 12
    row = replace(
        ROW,
        test="input_from_explanation",
        inserted=None,
        explanation=explanation.strip(),
        edited_input=f'Which? (A) "Dogs bark." (B) "{explanation.strip()}" Say it.',
    )
    figure = draw_trace([row], "t")
    edits = [text for text in figure.texts if text.get_color() == EDIT]
    assert " ".join(text.get_text() for text in edits).count("cats do not bark") == 12
    assert len({text.get_position()[1] for text in edits}) > 1
    colors = list_colors(figure)
    assert colors['Which? (A) "Dogs bark." (B)'] == colors["Say it."] == PROMPT


def test_the_parts_of_a_line_do_not_overlap():
    figure = draw_trace([ROW], "t")
    renderer = FigureCanvasAgg(figure).get_renderer()
    parts = {text.get_text(): text.get_window_extent(renderer) for text in figure.texts}
    before, after = parts["A $5"], parts["dog."]
    # The word in the line is the second text "brown".
    words = [text for text in figure.texts if text.get_text() == "brown"]
    middle = words[-1].get_window_extent(renderer)
    assert before.x1 < middle.x0 < middle.x1 < after.x0
    assert before.y0 <= middle.y1


def test_headings_end_before_the_texts_begin():
    figure = draw_trace([ROW, EARLY, replace(EARLY, test="biasing_features")], "t")
    canvas = FigureCanvasAgg(figure)
    begin = HEADING / WIDTH * figure.bbox.width
    headings = [
        text
        for text in figure.texts
        if text.get_weight() == "bold" and text.get_ha() == "left"
    ]
    assert len(headings) > 12
    assert all(
        text.get_window_extent(canvas.get_renderer()).x1 < begin for text in headings
    )


def test_no_verdict_is_shown():
    row = replace(ROW, verdict=None, reason="no word could be inserted")
    assert {"no verdict", "no word could be inserted"} <= set(
        texts(draw_trace([row], "t"))
    )


def test_an_image_stands_above_all_and_covers_no_text():
    pixels = np.zeros((30, 90, 3), dtype=np.uint8)
    figure = draw_trace([ROW], "t", pixels)
    (panel,) = figure.axes
    assert panel.images[0].get_array().shape == pixels.shape
    bottom, top = panel.get_position().y0, panel.get_position().y1
    places = {text.get_text(): text.get_position()[1] for text in figure.texts}
    assert places["item"] < bottom < top < places["t"]
    assert min(places.values()) > 0


def test_figures_of_a_table_take_one_seed_and_the_order_of_print():
    rows = [replace(FILLERS, seed=seed) for seed in (3, 4)] + [
        replace(ROW, seed=seed) for seed in (3, 4)
    ]
    failed = [
        replace(ROW, item_id="j", error="too long"),
        replace(ROW, item_id="j", test="paraphrasing"),
    ]
    pictured = [replace(ROW, item_id="k", image="k.png", profile="published")]
    loaded = []

    def load(dataset, name):
        loaded.append((dataset, name))
        return np.zeros((4, 4, 3), dtype=np.uint8)

    records = [*rows, *failed, *pictured]
    tables = {"d": parquet.build_table(list(map(to_row, records)), CONSISTENCY)}
    ((name, title, figure),) = draw_traces(tables, "m", ["equations"], 5, 0, load)
    assert (name, title) == (
        "d-equations-1",
        "m, d, equations: i, tests of self-consistency",
    )
    shown_texts = texts(figure)
    assert (
        shown_texts.count("counterfactual edits")
        == shown_texts.count("filler tokens")
        == 1
    )
    assert shown_texts.index("counterfactual edits") < shown_texts.index(
        "filler tokens"
    )
    assert loaded == []
    assert len(list(draw_traces(tables, "m", ["published"], 5, 0, load))) == 1
    assert loaded == [("d", "k.png")]
