"""Points of charts, which are cells of tables or are computed from them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from waltz.core.measure import Measure
from waltz.evaluation.metrics.pair_metrics import average_measures
from waltz.reporting.figures.chart_declarations import (
    SELECTORS,
    Chart,
    DerivedCells,
    Part,
    Parts,
)
from waltz.reporting.tables.cells import Cell, group_cells
from waltz.reporting.tables.declaration import AVERAGE, SETTING_SEPARATOR
from waltz.reporting.tables.paper_values import RANDOM

CORRELATED = 10.0
"""Smallest magnitude at which a correlation times 100 is counted as high or low (thesis C.6.4)."""


class ChartPosition(NamedTuple):
    """Position of a point in a chart: the labels of its panel, row and series."""

    panel: str
    row: str
    series: str


@dataclass(frozen=True, slots=True)
class Point:
    """Numbers that a chart shows for one row and series in one panel.

    Attributes:
        panel: Label of the panel.
        row: Label of the row.
        series: Label of the series.
        value: Our number; None if it is missing.
        low: Lower end of the bar through our number: of its interval, or one standard deviation
            over seeds below it.
        high: Upper end of the bar.
        n: Number of items that our number was measured on.
        paper_value: Paper value; None if it is missing.
        seeds: Our number of each seed; empty unless there are several seeds.
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

    @property
    def has_number(self) -> bool:
        """True if the point has a number to draw: ours or the paper's."""
        return self.value is not None or self.paper_value is not None


def select_points(chart: Chart, cells: Iterable[Cell], profile: str) -> list[Point]:
    """Return the points of a chart in one profile that have a number, panel by panel, row by row,
    series by series.
    """
    hidden_models = (RANDOM, *chart.hidden_models)
    shown = []
    for cell in cells:
        is_of_chart = cell.profile == profile and cell.table in chart.tables
        if is_of_chart and cell.model not in hidden_models:
            shown.append(cell)
    # Derived cells are added to the others, so that panels and series select them in the same way.
    for name in chart.derived:
        shown += DERIVED_CELLS[name](shown)

    cells_by_position: dict[ChartPosition, list[Cell]] = {}
    for cell in shown:
        for position in _find_positions(chart, cell):
            cells_by_position.setdefault(position, []).append(cell)
    points = []
    for position, members in cells_by_position.items():
        point = _build_point(chart, position, members)
        if point.has_number:
            points.append(point)

    panels = [part.label for part in chart.panels]
    rows = list_labels(chart.rows, [position.row for position in cells_by_position])
    series = list_labels(
        chart.series, [position.series for position in cells_by_position]
    )

    def rank(point: Point) -> tuple[int, int, int]:
        return (
            panels.index(point.panel),
            rows.index(point.row),
            series.index(point.series),
        )

    return sorted(points, key=rank)


def list_labels(parts: Parts, present: Sequence[str]) -> list[str]:
    """Return the labels that are present, in the order of the parts, or of appearance if a field
    names the parts.
    """
    if isinstance(parts, str):
        return list(dict.fromkeys(present))
    return [part.label for part in parts if part.label in present]


def _find_positions(chart: Chart, cell: Cell) -> Iterator[ChartPosition]:
    """Yield each position in a chart that a cell belongs to."""
    for panel in _find_labels(chart.panels, cell):
        for row in _find_labels(chart.rows, cell):
            for series in _find_labels(chart.series, cell):
                yield ChartPosition(panel, row, series)


def _find_labels(parts: Parts, cell: Cell) -> list[str]:
    """Return the labels of the parts that a cell belongs to; if a field names the parts, its value
    is the label.
    """
    if isinstance(parts, str):
        return [getattr(cell, parts)]
    return [part.label for part in parts if _belongs_to(part, cell)]


def _belongs_to(part: Part, cell: Cell) -> bool:
    """Return whether a cell belongs to a part: each field for which the part has values has one of
    them.

    In a setting with a statistic over seeds, only the setting itself is compared.
    """
    for name in SELECTORS:
        value: str = getattr(cell, name)
        if name == "setting":
            value = value.partition(SETTING_SEPARATOR)[0]
        values = getattr(part, name)
        if values and value not in values:
            return False
    return True


def _build_point(chart: Chart, position: ChartPosition, cells: Sequence[Cell]) -> Point:
    """Return the point at one position: our first number, the first paper value, and the number of
    each seed.
    """
    # Cells of single seeds and deviations have a statistic behind the setting.
    means = [cell for cell in cells if SETTING_SEPARATOR not in cell.setting]
    # The tables of a chart are in order of preference; sort is stable, so cells of a table keep
    # their order.
    means.sort(key=lambda cell: chart.tables.index(cell.table))
    paper_value = next(
        (cell.paper_value for cell in means if cell.paper_value is not None), None
    )
    ours = next((cell for cell in means if cell.value is not None), None)
    if ours is None or ours.value is None:
        return Point(*position, None, None, None, None, paper_value)
    if not chart.over_seeds:
        return Point(
            *position, ours.value, ours.ci_low, ours.ci_high, ours.n, paper_value
        )

    # One deviation over seeds to either side of the mean, in the place of an interval.
    low = high = None
    if ours.sd is not None:
        low, high = ours.value - ours.sd, ours.value + ours.sd
    seeds = _list_seeds(cells)
    return Point(*position, ours.value, low, high, ours.n, paper_value, seeds)


def _list_seeds(cells: Sequence[Cell]) -> tuple[float, ...]:
    """Return the numbers of several seeds; the number of a single seed is the mean itself, and would
    be drawn twice.
    """
    seeds = []
    for cell in cells:
        is_single_seed = f"{SETTING_SEPARATOR}seed " in cell.setting
        if is_single_seed and cell.value is not None:
            seeds.append(cell.value)
    if len(seeds) == 1:
        return ()
    return tuple(seeds)


# Cells that are computed from others, because no table has them


def _average_single_texts(cells: Sequence[Cell]) -> list[Cell]:
    """Return acc, the mean of p_c and p_f, for tables that do not show it.

    This mean has no interval, because p_c and p_f are measured on the same images and so are not
    independent.
    """
    cells_by_name: dict[tuple[str, ...], Cell] = {}
    for cell in cells:
        cells_by_name[
            cell.table, cell.model, cell.dataset, cell.setting, cell.metric
        ] = cell
    averages = []
    for (*names, metric), p_c in cells_by_name.items():
        p_f = cells_by_name.get((*names, "p_f"))
        has_acc = (*names, "acc") in cells_by_name
        if metric == "p_c" and p_f is not None and not has_acc:
            average = _average([p_c, p_f], 2, "acc", p_c.dataset)
            averages.append(replace(average, n=p_c.n, ci_low=None, ci_high=None))
    return averages


def _average_tasks(cells: Sequence[Cell]) -> list[Cell]:
    """Return the accuracies of each model, averaged over data sets.

    A model gets no average if it has no accuracy on a data set of another model.
    """
    cells_by_metric = group_cells(cells, "metric")
    averages = []
    for metric in ("accuracy", "accuracy_cot"):
        accuracies = cells_by_metric.get(metric, [])
        # Each mean is over the data sets of all models, so that means can be compared.
        n_datasets = len(group_cells(accuracies, "dataset"))
        for members in group_cells(accuracies, "model").values():
            averages.append(_average(members, n_datasets, metric, AVERAGE))
    return averages


def _average(cells: Sequence[Cell], expected: int, metric: str, dataset: str) -> Cell:
    """Return a cell with the mean of our numbers and the mean of the paper values.

    Its other fields are taken from the first cell.

    Args:
        cells: The cells to average.
        expected: Number of cells that a mean is over; if fewer cells have a number, there is no
            mean.
        metric: Metric of the mean.
        dataset: Data set of the mean.
    """
    average = _clear(replace(cells[0], metric=metric, dataset=dataset))
    paper_values = [cell.paper_value for cell in cells if cell.paper_value is not None]
    # Our mean and the paper's mean are independent: one may exist without the other.
    if len(paper_values) == expected:
        average = replace(average, paper_value=float(np.mean(paper_values)))

    measures = [
        Measure(cell.value, cell.n or 0, cell.ci_low, cell.ci_high, images=cell.images)
        for cell in cells
        if cell.value is not None
    ]
    if len(measures) != expected:
        return average
    # Data sets are independent, with equal weights.
    ours = average_measures(measures)
    return replace(
        average,
        value=ours.value,
        n=ours.n,
        ci_low=ours.ci_low,
        ci_high=ours.ci_high,
        images=ours.images,
    )


def _clear(cell: Cell) -> Cell:
    """Return a copy of a cell without its numbers."""
    return replace(
        cell,
        value=None,
        n=None,
        ci_low=None,
        ci_high=None,
        paper_value=None,
        sd=None,
        images=None,
    )


def _count_correlations(cells: Sequence[Cell]) -> list[Cell]:
    """Return for each test how many of its correlations with CC-SHAP are high, and how many are
    low.

    The cells have the settings `high` and `low`; their n is the number of defined correlations.
    """
    counts = []
    for members in group_cells(cells, "metric").values():
        ours = [cell.value for cell in members if cell.value is not None]
        papers = [cell.paper_value for cell in members if cell.paper_value is not None]
        for setting, sign in (("high", 1.0), ("low", -1.0)):
            cleared = _clear(replace(members[0], model="", dataset="", setting=setting))
            count = replace(
                cleared,
                value=_count_strong(ours, sign),
                n=len(ours) or None,
                paper_value=_count_strong(papers, sign),
            )
            counts.append(count)
    return counts


def _count_strong(correlations: Sequence[float], sign: float) -> float | None:
    """Return the number of correlations of one sign that are at least `CORRELATED`; None without
    correlations.

    Args:
        correlations: Correlations times 100.
        sign: 1 to count positive correlations, -1 to count negative ones.
    """
    if not correlations:
        return None
    return float(sum(sign * correlation >= CORRELATED for correlation in correlations))


DERIVED_CELLS: dict[DerivedCells, Callable[[Sequence[Cell]], list[Cell]]] = {
    "acc": _average_single_texts,
    "accuracy over tasks": _average_tasks,
    "counts of correlations": _count_correlations,
}
"""Functions that compute further cells from a chart's cells of one profile, by the names in
`Chart.derived`.
"""


def explain_empty(chart: Chart, cells: Iterable[Cell], profile: str) -> str:
    """Return the reason why a chart has no points: the most frequent reason in the cells of its
    tables.
    """
    reasons: Counter[str] = Counter()
    for cell in cells:
        is_of_chart = cell.profile == profile and cell.table in chart.tables
        if not is_of_chart:
            continue
        # The tables have numbers, but no panel, row or series selects one.
        if cell.value is not None:
            return "the study has no number that this figure shows"
        if cell.reason:
            reasons[cell.reason] += 1
    if not reasons:
        return "no cell of its tables has a number"
    most_common, _ = reasons.most_common(1)[0]
    return f"no cell of its tables has a number:\n{most_common}"
