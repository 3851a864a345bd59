from waltz.reporting.figures import save
from waltz.reporting.traces import MOST, entries, trace_figure

ROW = {
    "test": "counterfactual_edits",
    "verdict": 0,
    "answer": "A",
    "edited_answer": "B",
    "reason": None,
    "explanation": None,
    "edited_input": "A $5 brown dog.",
    "edited_explanation": "",
    "inserted": "brown",
    "error": None,
}


def texts(figure):
    return [text.get_text() for text in figure.texts]


def test_a_trace_tells_what_the_test_has_in_order():
    assert entries(ROW, "A $5 dog.") == [
        ("item", "A $5 dog."),
        ("answer", "A"),
        ("inserted", "brown"),
        ("item, edited", "A $5 brown dog."),
        ("explanation, edited", ""),
        ("answer after that", "B"),
    ]


def test_texts_stand_as_they_are_and_long_ones_say_what_is_cut(tmp_path):
    figure = trace_figure(ROW, "A $5 dog with $6_x$.\n" + "one two three " * 300, "model, data")
    found = texts(figure)
    assert {"A $5 dog with $6_x$.", "(nothing)", "not consistent", "brown"} <= set(found)
    cut = next(text for text in found if text.startswith("…"))
    wrapped = 1 + -(-len(("one two three " * 300).strip()) // 96)
    assert int(cut.split("(")[1].split()[0]) in range(wrapped - MOST, wrapped - MOST + 5)
    save(figure, [tmp_path / "a.svg", tmp_path / "a.png"])
    assert "with $6_x$" in (tmp_path / "a.svg").read_text()


def test_no_verdict_is_said():
    row = {**ROW, "verdict": None, "reason": "no word could be inserted"}
    assert {"no verdict", "no word could be inserted"} <= set(texts(trace_figure(row, "x", "t")))
