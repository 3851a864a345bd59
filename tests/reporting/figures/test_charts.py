"""Charts of table cells and of word frequencies."""

import math
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
import yaml
from matplotlib.colors import to_hex, to_rgba

from waltz.core.errors import UserError
from waltz.core.files.resources import RESOURCES
from waltz.reporting.figures.chart_cells import Point, select_points
from waltz.reporting.figures.chart_declarations import (
    CHARTS,
    PERCENT,
    Chart,
    ChartPart,
    build_chart,
)
from waltz.reporting.figures.charts import (
    COLORS,
    MARKERS,
    NUDGE,
    WORDS,
    draw_chart,
    draw_frequencies,
    fit_trend,
)
from waltz.reporting.figures.figure_files import save_figure
from waltz.reporting.plan import FREQUENCY_FIGURES
from waltz.reporting.tables.build_table import build_cells, read_paper_cells
from waltz.reporting.tables.cells import Cell
from waltz.reporting.tables.declarations import TABLES
from waltz.reporting.tables.numbers import StudyFacts
from waltz.reporting.tables.paper_values import RANDOM

PUBLISHED = RESOURCES / "published"
DOCS = Path(__file__).parents[3] / "docs/reference/figures.md"


def select(label, unit=PERCENT, **fields):
    return ChartPart(label, unit, **{name: (value,) for name, value in fields.items()})


CHART = Chart(
    "f",
    "F",
    ("t",),
    panels=(select("B", metric="b", setting=""), select("A", metric="a", setting="")),
    rows="dataset",
    series="model",
)


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
        n=30,
        ci_low=low,
        ci_high=high,
        paper_value=paper_value,
        difference=None,
        verdict="",
        reason="",
    )


def places(points):
    return [(point.panel, point.row, point.series) for point in points]


def list_panels(figure):
    return {axes.get_title(loc="left"): axes for axes in figure.axes if axes.axison}


def list_markers(panel):
    """Return x, y and whether it is hollow, of each marker of a series."""
    return sorted(
        (float(x), float(y), line.get_markerfacecolor() == "none")
        for line in panel.lines
        if line.get_marker() in MARKERS
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    )


def build_paper_cells(*tables):
    """Return the cells of a study that ran nothing: paper values alone."""
    cells = []
    for table in tables:
        paper_values = read_paper_cells(
            TABLES[table],
            [PUBLISHED / f"{name}.csv" for name in TABLES[table].paper_tables],
        )
        if paper_values:
            cells += build_cells(
                TABLES[table],
                "published",
                {},
                paper_values,
                StudyFacts({}, True, 0.95, {}),
            )
    return cells


def test_a_chart_shows_its_own_cells_in_its_own_order():
    shown = [
        cell("a", "m", "x", 1.0),
        cell("b", "m", "x", None, 2.0),
        cell("b", "m", "y", 3.0),
    ]
    others = [
        cell("a", "m", "x", 5.0, table="u"),
        cell("a", "m", "x", 5.0, profile="equations"),
        cell("a", "m", "x", 5.0, setting="cot"),
        cell("c", "m", "x", 5.0),
        cell("a", RANDOM, "x", 5.0),
        cell("a", "hidden", "x", 5.0),
        cell("a", "m", "z", None),
    ]
    points = select_points(
        replace(CHART, hidden_models=("hidden",)), [*shown, *others], "published"
    )
    assert points == [
        Point("B", "x", "m", None, None, None, None, 2.0),
        Point("B", "y", "m", 3.0, 2.0, 5.0, 30, None),
        Point("A", "x", "m", 1.0, 0.0, 3.0, 30, None),
    ]


def test_our_number_is_of_the_first_table_that_has_it_and_the_paper_value_of_any():
    chart = replace(CHART, tables=("seeds", "t"))
    cells = [
        cell("a", "m", "x", 1.0, 4.0),
        cell("a", "m", "x", 2.0, table="seeds"),
        cell("a", "n", "x", 3.0, 5.0),
    ]
    points = select_points(chart, cells, "published")
    assert [(point.series, point.value, point.paper_value) for point in points] == [
        ("m", 2.0, 4.0),
        ("n", 3.0, 5.0),
    ]


def test_our_values_are_filled_with_intervals_and_paper_values_hollow():
    cells = [
        cell("a", "m", "x", 50.0, 55.0),
        cell("a", "n", "x", None, 60.0),
        cell("a", "n", "y", 40.0),
    ]
    figure = draw_chart(CHART, cells, "published")
    panel = list_panels(figure)["A"]
    assert [label.get_text() for label in panel.get_yticklabels()] == ["x", "y"]
    marks = list_markers(panel)
    assert [(x, hollow) for x, _, hollow in marks] == [
        (40.0, False),
        (50.0, False),
        (55.0, True),
        (60.0, True),
    ]
    # Series below each other in their row.
    assert marks[1][1] == marks[2][1] < marks[3][1] < 0.5 < marks[0][1]
    assert {
        tuple(line.get_xdata())
        for line in panel.lines
        if len(set(line.get_xdata())) == 2
    } >= {(49.0, 52.0)}
    looks = [
        (line.get_marker(), to_hex(line.get_color()))
        for line in panel.lines
        if list(line.get_xdata()) in ([50.0], [55.0])
    ]
    assert looks == [(MARKERS[0], COLORS[0])] * 2
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "m",
        "n",
        "hollow: paper value",
    ]
    assert (
        legend.get_title().get_text()
        == "n = 30 items per number. Bars: confidence intervals."
    )


def test_panels_of_one_unit_share_their_scale_and_fill_the_grid_evenly():
    panels = tuple(
        select(name.upper(), "other unit" if name in "de" else PERCENT, metric=name)
        for name in "abcde"
    )
    cells = [
        cell(name, "m", "x", 10.0 * number) for number, name in enumerate("abcde", 1)
    ]
    figure = draw_chart(replace(CHART, panels=panels), cells, "published")
    shown = list_panels(figure)
    limits = {name: panel.get_xlim() for name, panel in shown.items()}
    assert limits["A"] == limits["B"] == limits["C"] != limits["D"] == limits["E"]
    assert limits["A"][0] < 9.0
    assert limits["A"][1] > 32.0
    assert [panel.get_xlabel() for panel in shown.values()] == [PERCENT] * 3 + [
        "other unit"
    ] * 2
    assert len(figure.axes) == 6  # two rows of three
    named = [
        name
        for name, panel in shown.items()
        if panel.yaxis.get_tick_params().get("labelleft", True)
    ]
    assert named == ["A", "D"]  # the first of each row


def test_the_same_cells_give_the_same_bytes(tmp_path):
    cells = [
        cell("a", f"m{place}", f"d{place % 3}", float(place)) for place in range(12)
    ]
    for name in ("one", "other"):
        save_figure(draw_chart(CHART, cells, "published"), [tmp_path / f"{name}.svg"])
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "other.svg").read_bytes()


def test_a_chart_without_points_says_why():
    def explain(*cells):
        return [
            text.get_text() for text in draw_chart(CHART, cells, "published").texts
        ][-1]

    assert explain() == "no cell of its tables has a number"
    assert explain(replace(cell("a", "m", "x", None), reason="too few items")).endswith(
        ":\ntoo few items"
    )
    assert (
        explain(cell("c", "m", "x", 1.0))
        == "the study has no number that this figure shows"
    )


def test_numbers_over_seeds_are_drawn_with_their_deviation_and_each_seed():
    chart = Chart(
        "thesis-X.1", "F", ("t",), (select("A", metric="a"), select("B", metric="b")), "dataset", "model",
        over_seeds=True, further_figures=("decoders-paper-figure-7",),
    )  # fmt: skip
    cells = [
        replace(cell("a", "m", "x", 50.0, setting="cot"), sd=4.0),
        cell("a", "m", "x", 4.0, setting="cot, deviation"),
        *(
            cell("a", "m", "x", value, setting=f"cot, seed {seed}")
            for seed, value in ((1, 46.0), (2, 54.0))
        ),
        cell("b", "m", "x", 0.5, setting="cot"),
        cell("b", "m", "x", 0.5, setting="cot, seed 1"),
    ]
    first, second = select_points(chart, cells, "published")
    assert first == Point("A", "x", "m", 50.0, 46.0, 54.0, 30, None, (46.0, 54.0))
    # One seed has no deviation.
    assert second == Point("B", "x", "m", 0.5, None, None, 30, None)
    figure = draw_chart(chart, cells, "published")
    panels = list_panels(figure)
    dots = [
        tuple(line.get_xdata())
        for line in panels["A"].lines
        if line.get_marker() == "."
    ]
    assert dots == [(46.0, 54.0)]
    assert (46.0, 54.0) in {
        tuple(line.get_xdata())
        for line in panels["A"].lines
        if line.get_marker() == "None"
    }
    assert {len(set(line.get_xdata())) for line in panels["B"].lines} <= {0, 1}
    assert "thesis X.1, decoders paper figure 7" in figure.get_suptitle()
    assert "one standard deviation" in figure.legends[0].get_title().get_text()
    alone = draw_chart(chart, cells[-2:], "published")
    assert "no deviation" in alone.legends[0].get_title().get_text()
    # A model that does not sample has one run next to models with several.
    mixed = [*cells[:4], cell("a", "greedy", "x", 60.0, setting="cot")]
    note = draw_chart(chart, mixed, "published").legends[0].get_title().get_text()
    assert "One run, without deviation: greedy." in note


TREND = Chart(
    "f", "F", ("t",), (select("A", metric="a"),), "model", "dataset", kind="trends"
)


def test_trends_are_regressions_on_the_logarithm_of_the_size():
    # by hand: x = 0, 1, 2 (log10)
    assert fit_trend([1.0, 10.0, 100.0], [10.0, 20.0, 30.0]) == pytest.approx(
        [10.0, 20.0, 30.0]
    )
    # by hand: x = 0, 0, 1 (log10), y = 0, 2, 4; slope 3, start 1
    assert fit_trend([1.0, 1.0, 10.0], [0.0, 2.0, 4.0]) == pytest.approx(
        [1.0, 1.0, 4.0]
    )
    assert fit_trend([7.0, 7.0], [1.0, 2.0]) == fit_trend([], []) == []


def test_trends_name_each_model_from_the_smallest_to_the_largest_with_lines_for_ours_and_the_papers():
    cells = [
        cell("a", "large", "x", 30.0, 10.0),
        cell("a", "small", "x", 10.0, 20.0),
        cell("a", "unknown", "x", 99.0),
    ]
    figure = draw_chart(
        TREND,
        cells,
        "published",
        {"small": 1_000_000_000, "large": 10_000_000_000, "unknown": 0},
    )
    panel = list_panels(figure)["A"]
    assert list_markers(panel) == [
        (position, value, hollow)
        for position, value, hollow in (
            (0, 10, False),
            (0, 20, True),
            (1, 10, True),
            (1, 30, False),
        )
    ]
    assert [label.get_text() for label in panel.get_xticklabels()] == [
        "small\n1 B",
        "large\n10 B",
    ]
    lines = {
        line.get_linestyle(): list(line.get_ydata())
        for line in panel.lines
        if line.get_alpha() == 0.6
    }
    assert lines == {"-": pytest.approx([10, 30]), "--": pytest.approx([20, 10])}
    note = figure.legends[0].get_title().get_text()
    assert "They rest on 2 different sizes of 2 models." in note.replace("\n", " ")
    assert note.endswith("Without a known size: unknown.")


def test_models_of_nearly_the_same_size_are_one_size_of_a_regression():
    sizes = {"a": 6.7e9, "b": 7.2e9, "c": 13e9, "d": 40e9, "e": 1e9, "f": 0.1e9}
    for models, count in (("abcd", 3), ("abcde", 4), ("abcdef", None)):
        cells = [cell("a", model, "x", 1.0) for model in models]
        figure = draw_chart(TREND, cells, "published", sizes)
        note = figure.legends[0].get_title().get_text().replace("\n", " ")
        sentence = f"rest on {count} different sizes of {len(models)} models"
        assert (sentence in note) is (count is not None)


def test_the_series_of_a_panel_stand_around_each_model():
    cells = [cell("a", "m", dataset, 10.0) for dataset in ("x", "y", "z")]
    cells.append(cell("b", "m", "x", 10.0))
    chart = replace(TREND, panels=(select("A", metric="a"), select("B", metric="b")))
    panels = list_panels(draw_chart(chart, cells, "published", {"m": 2_000_000_000}))
    positions = [x for x, _, _ in list_markers(panels["A"])]
    assert positions == pytest.approx([-NUDGE, 0, NUDGE])
    assert [x for x, _, _ in list_markers(panels["B"])] == [0]


SHARES = Chart(
    "f", "F", ("t",), (ChartPart("all", "percent"),), (select("test a", metric="a"), select("test b", metric="b")),
    (select("high", setting="high"), select("low", setting="low")), kind="shares",
    derived=("shares of correlations",),
)  # fmt: skip


def test_shares_are_bars_with_their_numbers_the_papers_of_our_models_and_tasks():
    cells = [
        cell("a", "m", "x", 10.0, -10.0),
        cell("a", "m", "y", 9.99, 12.0),
        cell("a", "n", "x", -35.0),
        # No number of ours: the paper's is not counted.
        cell("a", "n", "y", None, 99.0),
        cell("b", "m", "x", -10.0, 30.0),
        cell("b", "m", "y", None, 5.0),
    ]
    points = select_points(SHARES, cells, "published")
    assert places(points) == [("all", "test a", name) for name in ("high", "low")] + [
        ("all", "test b", name) for name in ("high", "low")
    ]
    shares = [
        (point.value, point.n, point.paper_value, point.paper_n) for point in points
    ]
    assert shares == [
        (pytest.approx(100 / 3), 3, 50, 2),
        (pytest.approx(100 / 3), 3, 50, 2),
        (0, 1, 50, 2),
        (100, 1, 0, 2),
    ]
    panel = list_panels(draw_chart(SHARES, cells, "published"))["all"]
    high, low = (to_rgba(color) for color in COLORS[:2])
    bars = [
        (bar.get_facecolor() == (0, 0, 0, 0), bar.get_edgecolor())
        for bar in panel.patches
    ]
    assert bars == 2 * [(False, high), (True, high), (False, low), (True, low)]
    assert [text.get_text().strip() for text in panel.texts] == [
        *("1 of 3", "1 of 2", "1 of 3", "1 of 2"),
        *("0 of 1", "1 of 2", "1 of 1", "0 of 2"),
    ]


def test_shares_without_a_model_of_the_paper_stand_next_to_all_of_the_papers():
    cells = [
        cell("a", "own", "x", 10.0),
        cell("a", "m", "x", None, 30.0),
        cell("a", "n", "x", None, 5.0),
    ]
    high, low = select_points(SHARES, cells, "published")
    assert (high.value, high.n, high.paper_value, high.paper_n) == (100, 1, 50, 2)
    assert (low.value, low.paper_value) == (0, 0)


def test_numbers_of_few_items_or_images_are_marked():
    chart = Chart("f", "F", ("t",), (select("A", metric="a"),), "model", "dataset")
    few = replace(cell("a", "m", "x", 1.0), n=29)
    many = replace(few, model="n", n=30)
    few_images = replace(many, model="o", images=7)
    paper_alone = cell("a", "p", "x", None, 4.0)
    for cells, count in (
        ([few, many, few_images, paper_alone], 2),
        ([many, paper_alone], 0),
    ):
        for kind in ("points", "trends"):
            sizes = dict.fromkeys("mnop", 2_000_000_000)
            figure = draw_chart(replace(chart, kind=kind), cells, "published", sizes)
            panel = list_panels(figure)["A"]
            assert [text.get_text() for text in panel.texts] == count * ["†"]
            note = figure.legends[0].get_title().get_text().replace("\n", " ")
            assert ("†: fewer than 30 items or 8 images." in note) is (count > 0)


def test_a_figure_of_paper_values_alone_says_why_it_has_no_number_of_ours():
    chart = Chart("f", "F", ("t",), (select("A", metric="a"),), "model", "dataset")
    cells = [
        replace(cell("a", "m", "x", None, 1.0), reason="not run in this study"),
        replace(cell("a", "n", "x", None, 2.0), reason="not run in this study"),
        replace(cell("a", "o", "x", None, 3.0), reason="no value for e-snli"),
    ]
    note = draw_chart(chart, cells, "published").legends[0].get_title().get_text()
    assert note.startswith("Paper values alone: no cell of its tables has a number:")
    assert note.endswith("no value for e-snli.")


def test_acc_is_the_mean_of_p_c_and_p_f_where_a_table_lacks_it():
    chart = Chart(
        "f",
        "F",
        ("t",),
        (select("acc", metric="acc"),),
        "dataset",
        "model",
        derived=("acc",),
    )
    cells = [
        *(cell("p_c", "m", "x", 80.0, 71.0), cell("p_f", "m", "x", 41.0, 43.0)),
        *(
            cell("p_c", "n", "x", 80.0),
            cell("p_f", "n", "x", 41.0),
            cell("acc", "n", "x", 60.0),
        ),
        *(cell("p_c", "o", "x", 80.0), cell("p_f", "o", "x", None, 10.0)),
    ]
    points = select_points(chart, cells, "published")
    assert [
        (point.series, point.value, point.paper_value, point.low, point.n)
        for point in points
    ] == [
        ("n", 60.0, None, 59.0, 30),
        ("m", 60.5, 57.0, None, 30),
    ]


def test_accuracy_over_tasks_is_an_average_over_the_tasks_that_the_models_share():
    chart = Chart(
        "f", "F", ("t",), (select("A", metric="accuracy", dataset="average"),), "model", "metric",
        derived=("accuracy over tasks",),
    )  # fmt: skip
    cells = [
        *(
            cell("accuracy", "m", "x", 10.0, 30.0),
            cell("accuracy", "m", "y", 20.0, 50.0),
        ),
        cell("accuracy", "n", "x", 10.0),
    ]
    (point,) = select_points(chart, cells, "published")
    below, above = math.hypot(1, 1) / 2, math.hypot(2, 2) / 2
    assert point == Point(
        "A", "m", "accuracy", 15.0, 15.0 - below, pytest.approx(15.0 + above), 60, 40.0
    )


def test_accuracy_over_tasks_takes_no_model_with_two_cells_of_a_task():
    chart = Chart(
        "f", "F", ("t",), (select("A", metric="accuracy", dataset="average"),), "model", "metric",
        derived=("accuracy over tasks",),
    )  # fmt: skip
    cells = [
        cell("accuracy", "m", "x", 10.0),
        cell("accuracy", "m", "x", 20.0, setting="post-hoc, seed 0"),
    ]
    assert select_points(chart, cells, "published") == []


# Declarations

ENTRY = {
    "title": "Mine",
    "tables": ["thesis-3.4"],
    "panels": [{"label": "AUROC", "metric": "auroc"}],
    "rows": "model",
    "series": [{"label": "pieces", "dataset": ["existence", "plurality"]}],
}


def test_an_entry_takes_the_fields_that_it_lacks_from_the_chart_that_it_extends():
    chart = build_chart(
        "mine", {"base": ENTRY, "mine": {"extends": "base", "rows": "dataset"}}
    )
    assert (chart.id, chart.title, chart.rows) == ("mine", "Mine", "dataset")
    assert chart.panels == (ChartPart("AUROC", metric=("auroc",)),)
    assert chart.series == (ChartPart("pieces", dataset=("existence", "plurality")),)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"row": "model"}, r"charts\.mine\.row: Unexpected"),
        ({"rows": "modl"}, r"charts\.mine\.rows\.field: .*'model'"),
        ({"panels": [{"metric": "auroc"}]}, r"charts\.mine\.panels\.0\.label: "),
        (
            {"series": [{"label": "a", "metrik": "a"}]},
            r"charts\.mine\.series\.list\.0\.metrik: Unexpected",
        ),
        ({"tables": ["thesis-3.44"]}, r"no table 'thesis-3.44' .*'thesis-3.4'"),
        (
            {"series": [{"label": "a", "table": "thesis-3.44"}]},
            r"no table 'thesis-3.44' .*'thesis-3.4'",
        ),
        (
            {"panels": [{"label": "a", "metric": ["acc_r", "aurok"]}]},
            r"charts\.mine: no table has a metric 'aurok' .*'auroc'",
        ),
        ({"kind": "bars"}, r"charts\.mine\.kind: .*'shares'"),
        ({"derived": ["ac"]}, r"charts\.mine\.derived\.0: "),
        ({"extends": "bas"}, r"charts\.mine\.extends: .*did you mean 'base'"),
    ],
)
def test_a_faulty_entry_names_its_field(changes, fault):
    with pytest.raises(UserError, match=fault):
        build_chart("mine", {"base": ENTRY, "mine": {**ENTRY, **changes}})


def test_a_misspelled_field_is_named_before_the_missing_one():
    misspelled = {**ENTRY, "row": ENTRY["rows"]}
    del misspelled["rows"]
    with pytest.raises(UserError, match=r"charts\.mine\.row: Unexpected keyword"):
        build_chart("mine", {"mine": misspelled})


def test_the_example_of_the_manual_is_a_chart_with_points():
    manual = (DOCS.parents[1] / "how-to/add-a-chart.md").read_text(encoding="utf-8")
    _, block, _ = re.split(r"```yaml\n|```\n", manual, maxsplit=2)
    (name,) = entries = yaml.safe_load(block)
    chart = build_chart(name, entries)
    points = select_points(chart, build_paper_cells(*chart.tables), "published")
    assert {point.panel for point in points} == {part.label for part in chart.panels}
    assert {point.series for point in points} == {part.label for part in chart.series}


# The declared charts, with the paper values alone


def draw_with_paper_values(name):
    chart = CHARTS[name]
    return chart, select_points(chart, build_paper_cells(*chart.tables), "published")


@pytest.mark.parametrize("chart", CHARTS.values(), ids=lambda chart: chart.id)
def test_every_panel_row_and_series_of_a_chart_has_a_paper_value(chart):
    points = select_points(chart, build_paper_cells(*chart.tables), "published")
    for parts, name in (
        (chart.panels, "panel"),
        (chart.rows, "row"),
        (chart.series, "series"),
    ):
        present = {
            getattr(point, name) for point in points if point.paper_value is not None
        }
        assert present >= (
            {part.label for part in parts} if not isinstance(parts, str) else set()
        )
        assert present


def test_figure_5_2_has_accuracy_and_t_shap_of_answers_and_explanations_on_five_data_sets():
    _, points = draw_with_paper_values("thesis-5.2")
    vqa = {
        point.series: point.paper_value
        for point in points
        if (point.panel, point.row) == ("VQA", "bakllava")
    }
    assert vqa == {
        "accuracy": 72,
        "accuracy after a chain of thought": 31,
        "T-SHAP of the answer": 87,
        "T-SHAP of the post-hoc explanation": 63,
        "T-SHAP of the chain of thought": 61,
    }
    assert len(points) == 5 * 3 * 5


def test_figure_5_3_has_cc_shap_and_counterfactual_edits():
    _, points = draw_with_paper_values("thesis-5.3")
    existence = [
        point.paper_value
        for point in points
        if (point.row, point.series) == ("existence", "bakllava")
    ]
    assert existence == [-0.01, 0.0, 54]


def test_figure_c_1_has_the_three_averages_of_the_appendix():
    _, points = draw_with_paper_values("thesis-C.1")
    falcon = [point.paper_value for point in points if point.row == "falcon-7b"]
    assert falcon == [36.3, 31.0, 52.5]
    lowest = {}
    for point in points:
        lowest.setdefault(point.series, []).append((point.paper_value, point.row))
    # "Falcon-7b is least consistent".
    assert min(lowest["tests and CC-SHAP"])[1] == "falcon-7b"


def test_bars_of_figure_c_3_agree_with_the_text_about_them():
    _, points = draw_with_paper_values("thesis-C.3-bars")
    # The text is about numbers of correlations, the figure shows shares of the legible ones.
    high, low = (
        {
            point.row: round(point.paper_value * point.paper_n / 100)
            for point in points
            if sign in point.series
        }
        for sign in ("10 or more", "−10 or less")
    )
    # "the most frequently occurring positive correlations with Counterfactual Edits, followed by
    # Adding Mistakes and Paraphrasing", "the most frequently occurring negative correlations with
    # Adding Mistakes"
    assert sorted(high, key=high.get)[-1] == "counterfactual edits"
    assert high["counterfactual edits"] == 23
    assert set(sorted(high, key=high.get)[-3:]) == {
        "counterfactual edits",
        "adding mistakes",
        "paraphrasing",
    }
    assert low["adding mistakes"] == max(low.values())


def test_trends_of_figure_c_3_are_over_the_chat_models_that_its_axis_names():
    _, points = draw_with_paper_values("thesis-C.3")
    chat = {
        "falcon-7b-chat",
        "llama2-7b-chat",
        "mistral-7b-chat",
        "llama2-13b-chat",
        "falcon-40b-chat",
    }
    assert {point.row for point in points} == chat
    by_panel = {}
    for point in points:
        by_panel.setdefault(point.panel, set()).add(point.series)
    data_sets = {"e-SNLI", "disambiguation QA", "ComVE"}
    assert by_panel.pop("accuracy, average over all text tasks") == {
        "accuracy",
        "accuracy after a chain of thought",
    }
    assert by_panel.pop("input from explanation") == {"ComVE"}
    assert all(series == data_sets for series in by_panel.values())
    assert len(by_panel) == 8


def test_figures_over_seeds_show_accuracy_and_t_shap_in_c_4_and_the_tests_in_c_5():
    _, points = draw_with_paper_values("thesis-C.4")
    existence = [
        point.paper_value
        for point in points
        if point.row.startswith("existence") and point.series == "bakllava"
    ]
    assert existence == [97, 97, 89, 69, 61]
    _, points = draw_with_paper_values("thesis-C.5")
    vqa = [
        point.paper_value
        for point in points
        if point.row.startswith("VQA") and point.series == "bakllava"
    ]
    assert vqa == [0.22, 0.11, 31, 11, 100, 100, 100, 0]


def test_encoders_stand_next_to_decoders_in_figure_1_of_the_decoders_paper():
    _, points = draw_with_paper_values("decoders-paper-figure-1")
    assert {
        (point.series, point.row): point.paper_value
        for point in points
        if point.panel == "acc_r"
    }.items() >= {
        ("encoders and language models", "clip"): 64.0,
        ("VL decoders", "mplug-owl3"): 88,
    }.items()


# The page that compares each chart with the paper's figure


def read_documented_charts():
    """Return panels, rows, series and tables by file from the first table of the page."""
    lines = re.findall(
        r"^\| `((?:thesis|decoders|differences)-\S+)` \|(.*)\|$",
        DOCS.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    return {
        name: [text.strip() for text in cells.split(" | ")] for name, cells in lines
    }


def format_parts(parts):
    if isinstance(parts, str):
        return parts
    return "; ".join(
        part.label + (f" [{part.unit}]" if part.unit != PERCENT else "")
        for part in parts
    )


def test_every_chart_is_documented_with_its_panels_rows_series_and_tables():
    documented = read_documented_charts()
    assert list(documented) == list(CHARTS)
    for chart in CHARTS.values():
        paper, panels, rows, series, tables, difference = documented[chart.id]
        assert (panels, rows, series) == tuple(
            map(format_parts, (chart.panels, chart.rows, chart.series))
        ), chart.id
        assert tables == "; ".join(chart.tables), chart.id
        assert min(len(paper), len(difference)) > 5, chart.id
        for figure in chart.further_figures:
            assert (
                figure.replace("-", " ").replace(" figure", "").casefold()
                in f"{paper} {difference}".casefold()
            )


def test_every_figure_of_word_frequencies_is_documented_with_its_paper_figures():
    rows = [
        line.split(" | ")
        for line in DOCS.read_text(encoding="utf-8").splitlines()
        if line.startswith("| `lexical-") or line.startswith("| `pronoun-")
    ]
    documented = {
        name: row[1] for row in rows for name in re.findall(r"`([^`]+)`", row[0])
    }
    for (kind, dataset), figures in FREQUENCY_FIGURES.items():
        assert (
            documented.pop(f"{kind}-{dataset}")
            .replace(" and ", ", ")
            .startswith(figures)
        )
    assert all(text.startswith("none") for text in documented.values())


FIGURES_IN_THE_PAPERS = {
    "thesis": [
        *("1.1", "1.2", *(f"2.{number}" for number in range(1, 12)), "3.1", "3.2"),
        *(
            *(f"4.{number}" for number in range(1, 7)),
            "5.1",
            "5.2",
            "5.3",
            "A.1",
            "A.2",
            "A.3",
            "A.4",
        ),
        *(
            *(f"B.{number}" for number in range(1, 11)),
            *(f"C.{number}" for number in range(1, 6)),
        ),
    ],
    "VALSE paper": ["1", "2", "3", "4"],
    "MM-SHAP paper": [str(number) for number in range(1, 12)],
    "decoders paper": [str(number) for number in range(1, 9)],
    "CV-Probes": ["1"],
}


def list_documented_figures(paper):
    """Return the figures of one paper that the page names: `thesis 3.1`, `B.1 to B.8`, `VALSE paper
    3` and files.
    """
    text = DOCS.read_text(encoding="utf-8").replace("\n", " ")
    named = set()
    number = r"(?:[A-C]\.\d+|\d+(?:\.\d+)?)"
    for numbers in re.findall(
        rf"(?i:{paper})(?: figures)? ((?:{number}(?: to |, | and )?)+)", text
    ):
        for first, last in re.findall(rf"({number})(?: to ({number}))?", numbers):
            named.add(first)
            if last:
                prefix, _, begin = first.rpartition(".")
                dot = "." if prefix else ""
                named |= {
                    f"{prefix}{dot}{n}"
                    for n in range(int(begin), int(last.rpartition(".")[2]) + 1)
                }
    for chart in CHARTS.values():
        for name in (chart.id, *chart.further_figures):
            base, _, figure = (
                name.replace("-figure-", "-").removesuffix("-bars").rpartition("-")
            )
            if base.replace("-", " ") == paper:
                named.add(figure)
    return named


@pytest.mark.parametrize("paper", FIGURES_IN_THE_PAPERS)
def test_no_figure_of_a_paper_is_missing_on_the_page(paper):
    assert set(FIGURES_IN_THE_PAPERS[paper]) <= list_documented_figures(paper)


# Word frequencies


def _counts(words):
    rows = [
        {
            "items": items,
            "side": side,
            "word": f"word{place}",
            "count": (place + 1) * (1 + (side == "foil")),
        }
        for place in range(words)
        for items in ("all", "valid")
        for side in ("caption", "foil")
    ]
    return pd.DataFrame(rows, columns=["items", "side", "word", "count"])


def test_bars_show_the_shares_of_the_most_frequent_words():
    figure = draw_frequencies(_counts(30), "relations")
    left, right = figure.axes
    assert [label.get_text() for label in left.get_yticklabels()] == [
        f"word{place}" for place in range(29, 9, -1)
    ]
    # 1 + 2 + ... + 30 = 465.
    shares = [100 * (place + 1) / 465 for place in range(29, 9, -1)]
    # Foils are twice as many words.
    assert [bar.get_width() for bar in right.patches] == pytest.approx(2 * shares)
    assert (
        right.get_title(loc="left")
        == "after validation (n = 465 in captions, 930 in foils)"
    )
    assert f"{WORDS} of 30 words" in figure.get_suptitle()


def test_the_same_counts_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        save_figure(
            draw_frequencies(_counts(5), "x"),
            [tmp_path / f"{name}.svg", tmp_path / f"{name}.png"],
        )
    for form in ("svg", "png"):
        assert (tmp_path / f"a.{form}").read_bytes() == (
            tmp_path / f"b.{form}"
        ).read_bytes()


def test_a_data_set_without_words_still_has_a_figure(tmp_path):
    figure = draw_frequencies(_counts(0), "none")
    titles = [panel.get_title(loc="left").partition(" (")[0] for panel in figure.axes]
    assert titles == ["before validation", "after validation"]
    assert [len(panel.patches) for panel in figure.axes] == [0, 0]
    assert figure.get_suptitle() == "none"
    save_figure(figure, [tmp_path / "none.svg"])
    assert ElementTree.parse(tmp_path / "none.svg").getroot().tag.endswith("svg")
