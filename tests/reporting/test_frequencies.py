from xml.etree import ElementTree

from waltz.reporting.figures.frequencies import WORDS, draw_frequencies, save_figure


def _counts(words):
    return [
        {"items": items, "side": side, "word": f"word{place}", "count": place + 1}
        for place in range(words)
        for items in ("all", "valid")
        for side in ("caption", "foil")
    ]


def test_bars_show_the_counts_of_the_most_frequent_words():
    figure = draw_frequencies(_counts(30), "relations")
    left, right = figure.axes
    assert [label.get_text() for label in left.get_yticklabels()] == [f"word{place}" for place in range(29, 9, -1)]
    assert sorted(bar.get_width() for bar in right.patches) == sorted(2 * [place + 1 for place in range(10, 30)])
    assert f"{WORDS} of 30 words" in figure.get_suptitle()


def test_the_same_counts_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        save_figure(draw_frequencies(_counts(5), "x"), [tmp_path / f"{name}.svg", tmp_path / f"{name}.png"])
    for form in ("svg", "png"):
        assert (tmp_path / f"a.{form}").read_bytes() == (tmp_path / f"b.{form}").read_bytes()


def test_a_data_set_without_words_still_has_a_figure(tmp_path):
    figure = draw_frequencies([], "none")
    assert [panel.get_title(loc="left") for panel in figure.axes] == ["before validation", "after validation"]
    assert [len(panel.patches) for panel in figure.axes] == [0, 0]
    assert figure.get_suptitle() == "none"
    save_figure(figure, [tmp_path / "none.svg"])
    assert ElementTree.parse(tmp_path / "none.svg").getroot().tag.endswith("svg")
