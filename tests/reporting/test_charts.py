"""Charts of table cells and of word frequencies."""

from dataclasses import replace
from xml.etree import ElementTree

from matplotlib.colors import to_hex

from waltz.core.files.resources import RESOURCES
from waltz.reporting.figures.chart_declarations import CHARTS, Chart
from waltz.reporting.figures.charts import CHANCE_MODEL, MARKERS, WORDS, draw_chart, draw_frequencies, select_cells
from waltz.reporting.figures.figure_files import save_figure
from waltz.reporting.tables.cells import Cell
from waltz.reporting.tables.declarations import TABLES
from waltz.reporting.tables.paper_values import read_paper_values

PUBLISHED = RESOURCES / "published"

CHART = Chart("f", "F", ("t",), ("metric",), "dataset", "model", selection={"metric": ("b", "a"), "setting": ("",)})


def cell(metric, model, dataset, value, paper_value=None, **other):
    low, high = (None, None) if value is None else (value - 1, value + 2)
    fields = {"table": "t", "profile": "published", "setting": "", **other}
    return Cell(
        **{key: fields[key] for key in ("table", "profile")},
        metric=metric,
        model=model,
        dataset=dataset,
        setting=fields["setting"],
        value=value,
        n=10,
        ci_low=low,
        ci_high=high,
        paper_value=paper_value,
        difference=None,
        verdict="",
        reason="",
    )


def test_a_chart_shows_its_own_cells_in_its_own_order():
    expected = [cell("a", "m", "x", 1.0), cell("b", "m", "x", None, 2.0), cell("b", "m", "y", 3.0)]
    others = [
        cell("a", "m", "x", 1.0, table="u"),
        cell("a", "m", "x", 1.0, profile="equations"),
        cell("a", "m", "x", 1.0, setting="cot"),
        cell("c", "m", "x", 1.0),
        cell("a", CHANCE_MODEL, "x", 1.0),
        cell("a", "m", "z", None),
    ]
    selected = select_cells(CHART, [*expected, *others], "published")
    assert selected == [expected[1], expected[2], expected[0]]


def test_our_values_are_filled_with_intervals_and_paper_values_hollow():
    cells = [cell("a", "m", "x", 50.0, 55.0), cell("a", "n", "x", None, 60.0), cell("a", "n", "y", 40.0)]
    figure = draw_chart(CHART, cells, "published")
    (panel,) = [axes for axes in figure.axes if axes.axison]
    assert panel.get_title(loc="left") == "a"
    assert [label.get_text() for label in panel.get_yticklabels()] == ["x", "y"]
    marks = [line for line in panel.lines if line.get_marker() in MARKERS]
    filled = {line.get_xdata()[0] for line in marks if line.get_markerfacecolor() != "none"}
    hollow = {line.get_xdata()[0] for line in marks if line.get_markerfacecolor() == "none"}
    assert (filled, hollow) == ({50.0, 40.0}, {55.0, 60.0})
    assert {tuple(line.get_xdata()) for line in panel.lines if len(set(line.get_xdata())) == 2} >= {(49.0, 52.0)}
    same_model = [line for line in marks if line.get_xdata()[0] in (50.0, 55.0)]
    assert len({(line.get_marker(), to_hex(line.get_color()), line.get_ydata()[0]) for line in same_model}) == 1
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["m", "n", "hollow: paper value"]


def test_every_column_of_panels_has_numbers_under_it():
    metrics = tuple("abcdef")
    chart = replace(CHART, selection={"metric": metrics, "setting": ("",)})
    figure = draw_chart(chart, [cell(name, "m", "x", 1.0) for name in metrics], "published")
    figure.canvas.draw()
    numbered = [panel.xaxis.get_tick_params()["labelbottom"] for panel in figure.axes]
    assert numbered[:6] == [False, False, True, True, True, True]  # four columns, of which two hold two panels


def test_the_same_cells_give_the_same_bytes_and_no_cells_a_figure(tmp_path):
    cells = [cell("a", f"m{place}", f"d{place % 3}", float(place)) for place in range(12)]
    for name in ("one", "other"):
        save_figure(draw_chart(CHART, cells, "published"), [tmp_path / f"{name}.svg"])
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "other.svg").read_bytes()
    empty = draw_chart(CHART, [], "published")
    assert any("no cell" in text.get_text() for text in empty.texts)
    absent = replace(cell("a", "m", "x", None), reason="too few items")
    figure = draw_chart(CHART, [absent], "published")
    assert any(text.get_text().endswith(":\ntoo few items") for text in figure.texts)


def test_numbers_over_seeds_are_drawn_with_their_deviation_and_each_seed():
    chart = Chart(
        "thesis-X.1", "F", ("t",), ("metric",), "dataset", "model", units={"b": "other unit"}, over_seeds=True,
        further_figures=("decoders-paper-figure-7",),
    )  # fmt: skip
    cells = [
        replace(cell("a", "m", "x", 50.0, setting="cot"), sd=4.0),
        cell("a", "m", "x", 4.0, setting="cot, deviation"),
        *(cell("a", "m", "x", value, setting=f"cot, seed {seed}") for seed, value in ((1, 46.0), (2, 54.0))),
        cell("b", "m", "x", 0.5, setting="cot"),
    ]
    figure = draw_chart(chart, cells, "published")
    first, second = (axes for axes in figure.axes if axes.axison)
    assert (first.get_xlabel(), second.get_xlabel()) == ("percent", "other unit")
    assert first.get_xlim()[1] > 50 > 2 > second.get_xlim()[1]
    drawn = {(line.get_marker(), *line.get_xdata()) for line in first.lines}
    assert {(".", 46.0), (".", 54.0), ("o", 50.0), ("None", 46.0, 54.0)} <= drawn
    assert not any(4.0 in points[1:] for points in drawn)
    assert {len(line.get_xdata()) for line in second.lines} == {1}  # one seed has no bar
    assert "thesis X.1, decoders paper figure 7" in figure.get_suptitle()
    assert "one standard deviation" in figure.legends[0].get_title().get_text()
    alone = draw_chart(chart, [cells[-1]], "published")
    assert "no deviation" in alone.legends[0].get_title().get_text()


def test_every_chart_has_paper_numbers_to_show():
    for chart in CHARTS:
        assert set(chart.tables) <= set(TABLES), chart.id
        known = {name for table in chart.tables for name in TABLES[table].metrics}
        assert len(known & set(chart.selection.get("metric", known))) > 0, chart.id
        if not all((PUBLISHED / f"{table}.csv").is_file() for table in chart.tables):
            continue  # print shows these without numbers
        paper_cells = [
            Cell(table, "published", *key, None, 0, None, None, float(one.value), None, "", "")
            for table in chart.tables
            for key, one in read_paper_values(PUBLISHED / f"{table}.csv").items()
            if one.value.replace(".", "").replace("-", "").isdigit()
        ]
        selected = select_cells(chart, paper_cells, "published")
        expected = {name: {getattr(cell, name) for cell in selected} for name in chart.selection}
        assert {cell.table for cell in selected} == set(chart.tables), chart.id
        assert all(len(expected[name]) > 1 or len(values) == 1 for name, values in chart.selection.items()), chart.id


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
