"""All charts of the report, read from `waltz/resources/charts.yaml`: each shows cells of some
tables, arranged as in the paper's figure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Tag,
    TypeAdapter,
    with_config,
)

from waltz.core.errors import UserError, suggest_name, suggest_or_list
from waltz.core.files.bounded_yaml import read_yaml
from waltz.core.files.resources import RESOURCES
from waltz.reporting.tables.declarations import STYLES, TABLES
from waltz.reporting.tables.entries import Entries, fill_entry, validate_entry

CHARTS_FILE = RESOURCES / "charts.yaml"
"""File with the charts, in the order of the report."""
MANUAL = "docs/how-to/add-a-chart.md"
"""Page of the documentation that describes the entries."""
PERCENT = "percent"
POINTS = "points"
"""Unit of differences of percentages; their panels have a line at 0."""
SELECTORS = ("table", "metric", "model", "dataset", "setting")
"""Fields of a `Cell` by which a part of a chart selects its cells."""
Selector = Literal["table", "metric", "model", "dataset", "setting"]
DerivedCells = Literal["acc", "accuracy over tasks", "shares of correlations"]
"""Names of the cells that are computed from other cells, see `chart_cells.DERIVED_CELLS`."""


def _wrap_single_value(value: object) -> object:
    """Return a single text as a tuple, and anything else unchanged."""
    if isinstance(value, str):
        return (value,)
    return value


Values = Annotated[tuple[str, ...], BeforeValidator(_wrap_single_value)]
"""Values of a field that are alternatives; an entry may give one value as a text."""


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class ChartPart:
    """Part of a chart: the cells of one panel, row or series.

    A cell belongs to the part if each field has one of the part's values; a field without values
    selects nothing.

    Attributes:
        label: Name of the panel, row or series in the chart.
        unit: Unit of the numbers, which is written at the axis of a panel.
        table: Ids of tables.
        metric: Metrics.
        model: Models.
        dataset: Data sets.
        setting: Settings, without the statistic over seeds.
    """

    label: str
    unit: str = PERCENT
    table: Values = ()
    metric: Values = ()
    model: Values = ()
    dataset: Values = ()
    setting: Values = ()


def _tag_parts(parts: object) -> str:
    """Return which of both forms parts have: a field whose values name them, or a list."""
    if isinstance(parts, str):
        return "field"
    return "list"


ChartParts = Annotated[
    Annotated[tuple[ChartPart, ...], Tag("list")] | Annotated[Selector, Tag("field")],
    Discriminator(_tag_parts),
]
"""Rows or series of a chart, or the field whose values name them."""


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class Chart:
    """Declaration of one chart, which shows the cells that belong to one of its panels, rows and
    series.

    Attributes:
        id: Id of the chart, equal to the id of the paper's figure if there is one.
        title: One line that says what the chart shows.
        tables: Ids of the tables whose cells it shows, in order of preference. Our number of a
            point comes from the first table that has it. A study without the first table has no
            such chart.
        panels: Panels in their order; a panel without cells is not drawn.
        rows: Rows of each panel, or the field whose values name them.
        series: Series, each with a marker and a color, or the field whose values name them.
        kind: `points`, with a row for each model or data set; `trends` over the sizes of models,
            with lines of a linear regression; or `shares` of correlations, drawn as bars with
            their numbers.
        derived: Cells that are computed from other cells first.
        hidden_models: Models of the papers that the figure does not show.
        over_seeds: Whether numbers are shown with their standard deviation over seeds instead of an
            interval, and with the number of each seed.
        further_figures: Ids of further paper figures that it corresponds to.
        note: Remark that a reader needs.
    """

    id: str
    title: str
    tables: tuple[str, ...]
    panels: tuple[ChartPart, ...]
    rows: ChartParts
    series: ChartParts
    kind: Literal["points", "trends", "shares"] = "points"
    derived: tuple[DerivedCells, ...] = ()
    hidden_models: tuple[str, ...] = ()
    over_seeds: bool = False
    further_figures: tuple[str, ...] = ()
    note: str = ""

    @property
    def figures(self) -> str:
        """Names of all paper figures that the chart corresponds to."""
        ids = ", ".join((self.id, *self.further_figures))
        return ids.replace("-", " ")


_CHART = TypeAdapter(Chart)


def build_chart(chart_id: str, entries: Entries) -> Chart:
    """Build the declaration of a chart from its entry.

    Args:
        chart_id: Id of the chart.
        entries: Entries of all charts by id, as plain values; an entry that extends a chart takes
            missing fields from that chart.
    Raises:
        UserError: A field is unknown, missing or of another type; the extended chart or one of the
            tables or metrics does not exist.
    """
    location = f"{CHARTS_FILE}: charts.{chart_id}"
    fields = {"id": chart_id, **fill_entry(chart_id, entries, location)}
    chart = validate_entry(_CHART, fields, location, manual=MANUAL)
    for table in (*chart.tables, *_list_selected(chart, "table")):
        if table not in TABLES:
            raise UserError(
                f"{location}: no table {table!r}{suggest_or_list(table, TABLES)}"
            )
    metrics = _list_metrics()
    for metric in _list_selected(chart, "metric"):
        if metric not in metrics:
            raise UserError(
                f"{location}: no table has a metric {metric!r}{suggest_name(metric, metrics)}; see {MANUAL}"
            )
    return chart


def _list_selected(chart: Chart, field: Selector) -> list[str]:
    """Return the values of a field by which the parts of a chart select cells."""
    selected: list[str] = []
    for parts in (chart.panels, chart.rows, chart.series):
        if not isinstance(parts, str):
            for part in parts:
                selected += getattr(part, field)
    return selected


@cache
def _list_metrics() -> list[str]:
    """Return the metrics of all tables: those with a style, and further ones of tables."""
    metrics = dict.fromkeys(STYLES)
    for declaration in TABLES.values():
        metrics |= dict.fromkeys(declaration.sources)
    return list(metrics)


def _read_charts() -> dict[str, Chart]:
    """Return the charts of `CHARTS_FILE` by id."""
    entries = read_yaml(CHARTS_FILE)["charts"]
    return {chart_id: build_chart(chart_id, entries) for chart_id in entries}


# Read once, when the module is imported: a fault in the file ends a command before any job starts.
CHARTS: Mapping[str, Chart] = _read_charts()
"""Charts by id, in the order of the report: the thesis, then the decoders paper."""
