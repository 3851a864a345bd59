"""Points of charts, selected from the cells of tables or computed from them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from waltz.core.intervals import Measure, compute_interval_of_mean
from waltz.reporting.figures.chart_declarations import Chart, Part
from waltz.reporting.tables.cells import Cell, group_cells
from waltz.reporting.tables.declaration import AVERAGE, SETTING_SEPARATOR
from waltz.reporting.tables.paper_values import RANDOM

CORRELATED = 10.0
"""Least magnitude of a correlation times 100 that is counted (thesis C.6.4)."""


@dataclass(frozen=True)
class Point:
    """What a chart shows of one row and series in one panel.

    Attributes:
        panel: Label of the panel.
        row: Label of the row.
        series: Label of the series.
        value: Our number; None where there is none.
        low: Lower end of the bar through it: of its interval, or one deviation over seeds below it.
        high: Upper end.
        n: Items that it was measured on.
        paper_value: The paper value; None where there is none.
        seeds: Our number of each seed, where there are several.
    """

    panel: str
    row: str
    series: str
    value: float | None
    low: float | None
    high: float | None
    n: int | None
    paper_value: float | None
    seeds: tuple[float, ...] = ()


def select_points(chart: Chart, cells: Iterable[Cell], profile: str) -> list[Point]:
    """Return the points of a chart in one profile, panel by panel, row by row; without points that have no number."""
    shown = [
        cell
        for cell in cells
        if cell.profile == profile and cell.table in chart.tables and cell.model not in (RANDOM, *chart.hidden_models)
    ]
    for name in chart.derived:
        shown += DERIVED_CELLS[name](shown)
    by_place: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in shown:
        for place in _find_places(chart, cell):
            by_place.setdefault(place, []).append(cell)
    points = [_build_point(chart, place, members) for place, members in by_place.items()]
    rows = _list_labels(chart.rows, [point.row for point in points])
    series = _list_labels(chart.series, [point.series for point in points])
    panels = [part.label for part in chart.panels]
    return sorted(
        (point for point in points if point.value is not None or point.paper_value is not None),
        key=lambda point: (panels.index(point.panel), rows.index(point.row), series.index(point.series)),
    )


def _list_labels(parts: Sequence[Part] | str, present: Iterable[str]) -> list[str]:
    """Return the labels of rows or series in their order."""
    return list(dict.fromkeys(present)) if isinstance(parts, str) else [part.label for part in parts]


def _find_places(chart: Chart, cell: Cell) -> Iterator[tuple[str, str, str]]:
    """Yield labels of panel, row and series that a cell belongs to."""
    for panel in _find_labels(chart.panels, cell):
        for row in _find_labels(chart.rows, cell):
            for series in _find_labels(chart.series, cell):
                yield panel, row, series


def _find_labels(parts: Sequence[Part] | str, cell: Cell) -> list[str]:
    """Return the labels of the parts that a cell belongs to."""
    if isinstance(parts, str):
        return [getattr(cell, parts)]
    return [
        part.label for part in parts if all(_get_value(cell, name) in values for name, values in part.where.items())
    ]


def _get_value(cell: Cell, name: str) -> str:
    """Return the value of a field; of a setting with a statistic over seeds, the setting."""
    value: str = getattr(cell, name)
    return value.partition(SETTING_SEPARATOR)[0] if name == "setting" else value


def _build_point(chart: Chart, place: tuple[str, str, str], cells: Sequence[Cell]) -> Point:
    """Build a point: the first number of ours, the first paper value, and the numbers of single seeds."""
    means = sorted(
        (cell for cell in cells if SETTING_SEPARATOR not in cell.setting),
        key=lambda cell: chart.tables.index(cell.table),
    )
    ours = next((cell for cell in means if cell.value is not None), None)
    paper_value = next((cell.paper_value for cell in means if cell.paper_value is not None), None)
    if ours is None or ours.value is None:
        return Point(*place, None, None, None, None, paper_value)
    low, high = ours.ci_low, ours.ci_high
    seeds: list[float] = []
    if chart.over_seeds:
        low, high = (None, None) if ours.sd is None else (ours.value - ours.sd, ours.value + ours.sd)
        single = [cell.value for cell in cells if f"{SETTING_SEPARATOR}seed " in cell.setting]
        seeds = [value for value in single if value is not None]
    return Point(*place, ours.value, low, high, ours.n, paper_value, tuple(seeds) if len(seeds) > 1 else ())


# Cells that are computed from others, because no table has them


def _average_single_texts(cells: Sequence[Cell]) -> list[Cell]:
    """Return acc, the mean of p_c and p_f, for tables without it.

    It has no interval, because p_c and p_f are of the same images.
    """
    by_place = {(cell.table, cell.model, cell.dataset, cell.setting, cell.metric): cell for cell in cells}
    averages = []
    for (table, model, dataset, setting, metric), p_c in by_place.items():
        p_f = by_place.get((table, model, dataset, setting, "p_f"))
        if metric == "p_c" and p_f is not None and (table, model, dataset, setting, "acc") not in by_place:
            average = _average([p_c, p_f], 2, "acc", dataset)
            averages.append(replace(average, n=p_c.n, ci_low=None, ci_high=None))
    return averages


def _average_tasks(cells: Sequence[Cell]) -> list[Cell]:
    """Return the accuracies of each model averaged over data sets; none where it lacks one that another model has."""
    averages = []
    for metric in ("accuracy", "accuracy_cot"):
        by_model = group_cells((cell for cell in cells if cell.metric == metric), "model")
        expected = max((len({cell.dataset for cell in members}) for members in by_model.values()), default=0)
        averages += [_average(members, expected, metric, AVERAGE) for members in by_model.values()]
    return averages


def _average(cells: Sequence[Cell], expected: int, metric: str, dataset: str) -> Cell:
    """Return a cell with the means of our numbers and of the paper values; its other fields are the first cell's.

    Args:
        expected: Number of cells that a mean is over; where fewer have a number, there is no mean.
    """
    measures = [Measure(cell.value, cell.n or 0, cell.ci_low, cell.ci_high) for cell in cells if cell.value is not None]
    printed = [cell.paper_value for cell in cells if cell.paper_value is not None]
    average = _clear(replace(cells[0], metric=metric, dataset=dataset))
    if len(printed) == expected:
        average = replace(average, paper_value=float(np.mean(printed)))
    if len(measures) == expected:
        value = float(np.mean([measure.value for measure in measures]))
        low, high = compute_interval_of_mean(measures)
        average = replace(average, value=value, n=sum(part.n for part in measures), ci_low=low, ci_high=high)
    return average


def _clear(cell: Cell) -> Cell:
    """Return a cell without its numbers."""
    return replace(cell, value=None, n=None, ci_low=None, ci_high=None, paper_value=None, sd=None)


def _count_correlations(cells: Sequence[Cell]) -> list[Cell]:
    """Return the numbers of correlations of each test with CC-SHAP that are high (setting `high`) and low (`low`).

    n is the number of correlations that are defined.
    """
    counts = []
    for members in group_cells(cells, "metric").values():
        ours = [cell.value for cell in members if cell.value is not None]
        papers = [cell.paper_value for cell in members if cell.paper_value is not None]
        for setting, sign in (("high", 1.0), ("low", -1.0)):
            own, printed = (
                float(sum(sign * value >= CORRELATED for value in values)) if values else None
                for values in (ours, papers)
            )
            cleared = _clear(replace(members[0], model="", dataset="", setting=setting))
            counts.append(replace(cleared, value=own, n=len(ours) if ours else None, paper_value=printed))
    return counts


DERIVED_CELLS: dict[str, Callable[[Sequence[Cell]], list[Cell]]] = {
    "acc": _average_single_texts,
    "accuracy over tasks": _average_tasks,
    "counts of correlations": _count_correlations,
}
"""Functions by the names that charts use; each gets the chart's cells of one profile."""


def explain_empty(chart: Chart, cells: Iterable[Cell], profile: str) -> str:
    """Return the reason why a chart has no points."""
    of_tables = [cell for cell in cells if cell.profile == profile and cell.table in chart.tables]
    if any(cell.value is not None for cell in of_tables):
        return "the study has no number that this figure shows"
    reasons = Counter(cell.reason for cell in of_tables if cell.reason)
    suffix = f":\n{reasons.most_common(1)[0][0]}" if reasons else ""
    return f"no cell of its tables has a number{suffix}"
