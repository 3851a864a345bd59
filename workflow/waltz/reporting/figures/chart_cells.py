"""Points of charts, which are cells of tables or are computed from them."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pandas as pd

from waltz.core.measure import Measure
from waltz.evaluation.metrics.pair_metrics import average_measures
from waltz.reporting.figures.chart_declarations import (
    SELECTORS,
    Chart,
    ChartPart,
    ChartParts,
    DerivedCells,
)
from waltz.reporting.tables.cells import COLUMNS, NOT_RUN, NUMBERS, Cell, is_small
from waltz.reporting.tables.declaration import AVERAGE, SETTING_SEPARATOR
from waltz.reporting.tables.paper_values import RANDOM

AXES = ["panel", "row", "series"]
"""Columns with the labels of the parts of a chart that a cell belongs to."""
ChartPosition = tuple[str, str, str]
"""Position of a point in a chart: the labels of its panel, row and series."""
NAMES = ["table", "model", "dataset", "setting"]
"""Fields of a `Cell` in which the metrics of one model on one data set are equal."""
NO_INTERVAL = {"ci_low": math.nan, "ci_high": math.nan, "sd": math.nan}
CORRELATED = 10.0
"""Smallest magnitude at which a correlation times 100 is high or low (thesis C.6.4)."""


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
        is_small: Whether our number is from too few items or images to say something.
        paper_n: Number of correlations that the paper's share is over; None for other numbers.
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
    is_small: bool = False
    paper_n: int | None = None


def select_points(chart: Chart, cells: Iterable[Cell], profile: str) -> list[Point]:
    """Return the points of a chart in one profile that have a number, panel by panel, row by row,
    series by series.
    """
    frame = _build_cell_frame(chart, _select_cells(chart, cells, profile))
    # Cells of the model `random` are chance levels.
    frame = frame[~frame.model.isin((RANDOM, *chart.hidden_models))]
    # Derived cells are added to the others, so that panels and series select them in the same way.
    for name in chart.derived:
        frame = pd.concat([frame, DERIVED_CELLS[name](frame)], ignore_index=True)

    axes = {"panel": chart.panels, "row": chart.rows, "series": chart.series}
    for axis, parts in axes.items():
        frame = _label_cells(frame, axis, parts)
    # The index has the order of the cells.
    frame = frame.sort_index(kind="stable")
    for axis, parts in axes.items():
        frame[axis] = pd.Categorical(frame[axis], list_labels(parts, frame[axis]))
    return _build_points(chart, frame)


def _select_cells(chart: Chart, cells: Iterable[Cell], profile: str) -> list[Cell]:
    """Return the cells of a chart's tables in one profile."""
    return [
        cell for cell in cells if cell.profile == profile and cell.table in chart.tables
    ]


def _build_cell_frame(chart: Chart, cells: Sequence[Cell]) -> pd.DataFrame:
    """Return cells as a frame, a column for each field; numbers are floats, missing ones NaN."""
    types = {**dict.fromkeys((*NUMBERS, "n", "images"), float), "setting": str}
    rows = map(attrgetter(*COLUMNS), cells)
    frame = pd.DataFrame(rows, columns=COLUMNS).astype(types)
    # Tables are sorted in the chart's order of preference. Only shares have a number behind the
    # paper value.
    return frame.assign(
        table=pd.Categorical(frame.table, chart.tables), paper_n=math.nan
    )


def list_labels(parts: ChartParts, present: Iterable[str]) -> list[str]:
    """Return the labels that are present, in the order of the parts, or of appearance if a field
    names the parts.
    """
    present_labels = dict.fromkeys(present)
    if isinstance(parts, str):
        return list(present_labels)
    labels = dict.fromkeys(part.label for part in parts)
    return [label for label in labels if label in present_labels]


def _label_cells(cells: pd.DataFrame, axis: str, parts: ChartParts) -> pd.DataFrame:
    """Return the cells of each part, with the part's label in the column `axis`; if a field names
    the parts, its values are the labels.
    """
    if isinstance(parts, str):
        return cells.assign(**{axis: cells[parts]})
    # Parts name settings without a statistic over seeds.
    settings = cells.setting.str.split(SETTING_SEPARATOR, n=1).str[0]
    names = cells[list(SELECTORS)].assign(setting=settings)
    members = []
    for part in parts:
        is_member = _belongs_to(part, names)
        members.append(cells[is_member].assign(**{axis: part.label}))
    return pd.concat(members)


def _belongs_to(part: ChartPart, names: pd.DataFrame) -> "pd.Series[bool]":
    """Return whether each cell belongs to a part: each field for which the part has values has one
    of them.

    Args:
        part: The part.
        names: The fields `SELECTORS` of each cell.
    """
    is_member = pd.Series(True, index=names.index)
    for field in SELECTORS:
        values = getattr(part, field)
        if values:
            is_member &= names[field].isin(values)
    return is_member


def _build_points(chart: Chart, cells: pd.DataFrame) -> list[Point]:
    """Return a point for each position that has a number: our first number, the first paper value,
    and the number of each seed.

    Args:
        chart: The chart.
        cells: Cells with their labels in the columns `AXES`, as categories in the chart's order.
    """
    # Cells of single seeds and deviations have a statistic behind the setting.
    has_statistic = cells.setting.str.contains(SETTING_SEPARATOR, regex=False)
    means = cells[~has_statistic].sort_values("table", kind="stable")
    # `first` skips missing values: the first table that has a number gives it.
    paper_values = means.groupby(AXES, observed=True).paper_value.first()
    ours = means[means.value.notna()].drop_duplicates(AXES).set_index(AXES)
    low, high = ours.ci_low, ours.ci_high
    if chart.over_seeds:
        # One deviation over seeds to either side of the mean, in the place of an interval.
        low, high = ours.value - ours.sd, ours.value + ours.sd
    numbers = pd.DataFrame(
        {
            "value": ours.value,
            "low": low,
            "high": high,
            "n": ours.n,
            "images": ours.images,
        }
    )
    paper_n = means.groupby(AXES, observed=True).paper_n.first()
    numbers = numbers.reindex(paper_values.index).assign(
        paper_value=paper_values, paper_n=paper_n
    )
    numbers = numbers.dropna(how="all", subset=["value", "paper_value"])
    seeds_by_position = _list_seeds(cells)

    # Whole numbers and None in place of floats and NaN.
    counts = dict.fromkeys(("n", "images", "paper_n"), "Int64")
    typed = numbers.astype(counts).astype(object).where(numbers.notna(), None)
    rows: Any = typed.itertuples()
    points = []
    for row in rows:
        position: ChartPosition = row.Index
        seeds: tuple[float, ...] = ()
        if chart.over_seeds and row.value is not None:
            seeds = seeds_by_position.get(position, ())
        point = Point(
            *position,
            row.value,
            row.low,
            row.high,
            row.n,
            row.paper_value,
            seeds,
            is_small=row.value is not None and is_small(row.n, row.images),
            paper_n=row.paper_n,
        )
        points.append(point)
    return points


def _list_seeds(cells: pd.DataFrame) -> dict[ChartPosition, tuple[float, ...]]:
    """Return the numbers of several seeds by position; the number of a single seed is the mean
    itself, and would be drawn twice.
    """
    is_single_seed = cells.setting.str.contains(
        f"{SETTING_SEPARATOR}seed ", regex=False
    )
    measured = cells[is_single_seed & cells.value.notna()]
    seeds: dict[Any, tuple[float, ...]] = {}
    for position, members in measured.groupby(AXES, observed=True):
        if len(members) > 1:
            seeds[position] = tuple(members.value)
    return seeds


# Cells that are computed from others, because no table has them


def _average_single_texts(cells: pd.DataFrame) -> pd.DataFrame:
    """Return acc, the mean of p_c and p_f, for tables that do not show it.

    This mean has no interval, because p_c and p_f are measured on the same images and so are not
    independent.
    """
    p_c = cells[cells.metric == "p_c"]
    p_f = cells[cells.metric == "p_f"]
    acc = cells.loc[cells.metric == "acc", NAMES]
    # One row for each model, data set and setting that has both; p_f has the suffix.
    both = p_c.merge(
        p_f[[*NAMES, "value", "paper_value"]], on=NAMES, suffixes=("", "_f")
    )
    has_acc = both[NAMES].agg(tuple, axis=1).isin(acc.agg(tuple, axis=1))
    averages = both[~has_acc]
    return averages.assign(
        **NO_INTERVAL,
        metric="acc",
        value=(averages.value + averages.value_f) / 2,
        paper_value=(averages.paper_value + averages.paper_value_f) / 2,
    )[COLUMNS]


def _average_tasks(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the accuracies of each model, averaged over data sets.

    A model gets no average if it has no accuracy on a data set of another model.
    """
    averages = [cells.iloc[:0]]
    for metric in ("accuracy", "accuracy_cot"):
        accuracies = cells[cells.metric == metric]
        # Each mean is over the data sets of all models, so that means can be compared.
        n_datasets = accuracies.dataset.nunique()
        for _, members in accuracies.groupby("model", sort=False):
            means = _average_datasets(members, n_datasets)
            averages.append(members.iloc[[0]].assign(dataset=AVERAGE, **means))
    return pd.concat(averages)


def _average_datasets(cells: pd.DataFrame, n_datasets: int) -> dict[str, float | None]:
    """Return the mean of our numbers with its interval, and the mean of the paper values; NaN where
    fewer data sets than `n_datasets` have a number.
    """
    means: dict[str, float | None] = {
        **NO_INTERVAL,
        "value": math.nan,
        "n": math.nan,
        "images": math.nan,
        "paper_value": math.nan,
    }
    # Our mean and the paper's mean are independent: one may exist without the other.
    if cells.paper_value.count() == n_datasets:
        means["paper_value"] = cells.paper_value.mean()
    if cells.value.count() == n_datasets:
        # Data sets are independent, with equal weights.
        average = average_measures(_list_measures(cells))
        means |= {"value": average.value, "n": average.n}
        means |= {"ci_low": average.ci_low, "ci_high": average.ci_high}
    return means


def _list_measures(cells: pd.DataFrame) -> list[Measure]:
    """Return the measures of cells that have a number."""
    measured = cells[cells.value.notna()].astype({"n": int})
    rows: Any = measured.astype(object).where(measured.notna(), None).itertuples()
    return [Measure(row.value, row.n, row.ci_low, row.ci_high) for row in rows]


def _compute_correlation_shares(cells: pd.DataFrame) -> pd.DataFrame:
    """Return for each test the percentage of its correlations with CC-SHAP that are high, and the
    percentage that are low.

    The cells have the settings `high` and `low`; n and `paper_n` are the numbers of defined
    correlations.
    """
    # The metric names the test; a test has a correlation for each model and data set.
    ours = cells.set_index("metric").value
    papers = _select_papers_counterparts(cells).set_index("metric").paper_value
    tests = cells.drop_duplicates("metric").set_index("metric", drop=False)
    shares = []
    # A low correlation is a high one of the other sign.
    for setting, sign in (("high", 1), ("low", -1)):
        share = tests.assign(
            **NO_INTERVAL,
            model="",
            dataset="",
            setting=setting,
            value=_compute_strong_share(sign * ours),
            n=ours.groupby(level="metric").count(),
            images=math.nan,
            paper_value=_compute_strong_share(sign * papers),
            paper_n=papers.groupby(level="metric").count(),
        )
        shares.append(share)
    return pd.concat(shares)


def _select_papers_counterparts(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the cells of models and data sets that have a number of ours and a paper value; all
    cells if there are none.
    """
    has_ours = cells[["model", "dataset"]].agg(tuple, axis=1)
    measured = set(has_ours[cells.value.notna()])
    counterparts = cells[has_ours.isin(measured)]
    if counterparts.paper_value.notna().any():
        return counterparts
    return cells


def _compute_strong_share(correlations: "pd.Series[float]") -> "pd.Series[float]":
    """Return the percentage of correlations (times 100) of at least `CORRELATED`, by metric; NaN
    where no correlation is defined.
    """
    by_metric = correlations.dropna().groupby(level="metric")
    # The mean of true and false is a share.
    return 100 * by_metric.agg(lambda values: (values >= CORRELATED).mean())


DERIVED_CELLS: dict[DerivedCells, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "acc": _average_single_texts,
    "accuracy over tasks": _average_tasks,
    "shares of correlations": _compute_correlation_shares,
}
"""Functions that compute further cells from a chart's cells of one profile, by the names in
`Chart.derived`.
"""


def explain_empty(chart: Chart, cells: Iterable[Cell], profile: str) -> str:
    """Return the reason why a chart has no number of ours: the most frequent reason in the cells of
    its tables, of models that the study ran if there are any.
    """
    chart_cells = _select_cells(chart, cells, profile)
    if any(cell.value is not None for cell in chart_cells):
        # The tables have numbers, but no panel, row or series selects one.
        return "the study has no number that this figure shows"
    reasons = Counter(cell.reason for cell in chart_cells if cell.reason)
    if not reasons:
        return "no cell of its tables has a number"
    if len(reasons) > 1:
        reasons.pop(NOT_RUN, None)
    most_common, _ = reasons.most_common(1)[0]
    return f"no cell of its tables has a number:\n{most_common}"
