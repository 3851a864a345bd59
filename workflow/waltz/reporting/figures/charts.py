"""Charts of table cells: our numbers with their intervals, paper values as hollow markers or bars.

A chart shows only numbers that are in the CSVs of tables. Series differ in shape as well as in
color, so that a reader needs no colors.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from waltz.reporting.figures.chart_cells import (
    Point,
    explain_empty,
    list_labels,
    select_points,
)
from waltz.reporting.figures.chart_declarations import POINTS, Chart, ChartPart
from waltz.reporting.figures.figure_files import use_style
from waltz.reporting.tables.cells import (
    FEWEST_IMAGES,
    SMALL_MARK,
    SMALLEST_N,
    Cell,
)
from waltz.reporting.tables.titles import name_data_sets_in_title

MARKERS = "osD^vP*Xh<>8"
COLORS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#e69f00",
    "#000000",
    "#999999",
)
"""Colors of the series: the palette of Okabe and Ito, colors with the strongest contrast first."""
PANEL_WIDTH, LINE, HEAD = 3.1, 0.15, 1.1
"""Width of a panel, height of the marker of one series, and height of headings and axis, in inches.
"""
TREND_HEIGHT = 2.4
"""Height of a panel over model sizes, in inches."""
NUDGE = 0.12
"""Distance by which the points of each series are to the right of the previous series, so that all
can be seen, in distances of two models.
"""
FEW_SIZES = 5
"""Number of different sizes below which a figure says on how many its regressions rest."""
COLUMNS = 4
"""Largest number of panels in a row."""
SINGLE_COLOR = "#222222"
"""Color of the dots of single seeds."""
GRAY = "#444444"
"""Color of the entry of paper values in the legend."""
HOLLOW = "hollow: paper value"
SEVERAL_SEEDS = "Dots: single seeds. Bars: one standard deviation over seeds to either side of the mean."
ONE_SEED = "One run each (one seed, or no sampling), so there is no deviation."
MEANING_OF_BARS = {
    (True, True): SEVERAL_SEEDS,
    (True, False): ONE_SEED,
    (False, True): "Bars: confidence intervals.",
    (False, False): "",
}
"""Sentence about bars, by whether the chart is over seeds and whether it has bars."""
MEANING_OF_MARK = (
    f"{SMALL_MARK}: fewer than {SMALLEST_N} items or {FEWEST_IMAGES} images."
)
NOTE_LENGTH = 110
"""Number of characters in a line of the note."""
TREND_LINES = (
    "Lines: linear regression on the logarithm of the size, read off at each model, dashed for paper"
    " values."
)


def draw_chart(
    chart: Chart,
    cells: Sequence[Cell],
    profile: str,
    sizes: Mapping[str, int] | None = None,
) -> Figure:
    """Return the figure of a chart; without any point, the figure says why it is empty.

    Args:
        chart: The chart.
        cells: Cells of tables; only cells of the chart's tables are used.
        profile: Fidelity profile of the cells that are shown.
        sizes: Number of parameters of each model, for trends over sizes; a model without a size is
            not drawn in trends.
    """
    content = _select_content(chart, cells, profile, sizes or {})
    # As few rows of panels as fit, filled evenly.
    n_panels = len(content.panels)
    panel_rows = max(1, math.ceil(n_panels / COLUMNS))
    columns = max(1, math.ceil(n_panels / panel_rows))
    height = HEAD + _compute_panel_height(chart, content)
    with use_style():
        figure = Figure(
            figsize=(1.6 + PANEL_WIDTH * columns, 0.9 + height * panel_rows),
            layout="constrained",
        )
        chart_cells = [cell for cell in cells if cell.table in chart.tables]
        data_title = name_data_sets_in_title(chart.title, chart_cells)
        title = f"{data_title} ({chart.figures}, profile {profile})"
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        axes = list(figure.subplots(panel_rows, columns, squeeze=False).flat)
        for axis, part in zip(axes, content.panels, strict=False):
            _draw_panel(axis, chart, part, content)
        # The last row of panels may be shorter; its empty axes are hidden.
        for axis in axes[n_panels:]:
            axis.set_axis_off()
        _share_axes(axes[:n_panels], content.panels, columns, chart)
        if content.points:
            _draw_legend(
                figure,
                _build_legend(chart, content),
                _format_note(chart, content, explain_empty(chart, cells, profile)),
            )
        else:
            reason = explain_empty(chart, cells, profile)
            figure.text(0.5, 0.4, reason, ha="center", fontsize=8, wrap=True)
    return figure


@dataclass(frozen=True, slots=True)
class _ChartContent:
    """Points of a chart, with the labels that have any point.

    Attributes:
        points: The points that are drawn.
        panels: Panels that have a point.
        rows: Labels of the rows.
        series: Labels of the series.
        billions: Size of each model in billions of parameters, for trends.
        unsized: Models that are not drawn because their size is unknown.
    """

    points: Sequence[Point]
    panels: Sequence[ChartPart]
    rows: Sequence[str]
    series: Sequence[str]
    billions: Mapping[str, float]
    unsized: Sequence[str]


def _select_content(
    chart: Chart, cells: Sequence[Cell], profile: str, sizes: Mapping[str, int]
) -> _ChartContent:
    """Return the points of a chart with their labels; arguments are as in `draw_chart`."""
    points = select_points(chart, cells, profile)
    unsized: list[str] = []
    # Models of unknown size have 0.
    billions = {name: size / 1e9 for name, size in sizes.items() if size}
    if chart.kind == "trends":
        unsized = sorted({point.row for point in points} - set(billions))
        points = [point for point in points if point.row in billions]
    present_panels = {point.panel for point in points}
    rows = list_labels(chart.rows, [point.row for point in points])
    if chart.kind == "trends":
        # From the smallest model to the largest, as on the paper's axis.
        rows.sort(key=lambda row: (billions[row], row))
    return _ChartContent(
        points=points,
        panels=[part for part in chart.panels if part.label in present_panels],
        rows=rows,
        series=list_labels(chart.series, [point.series for point in points]),
        billions=billions,
        unsized=unsized,
    )


def _compute_panel_height(chart: Chart, content: _ChartContent) -> float:
    """Return the height of a panel in inches, without headings and axis."""
    if chart.kind == "trends":
        return TREND_HEIGHT
    # Each row has a line for each series and one of space; a panel is at least four lines high.
    n_lines = len(content.rows) * (len(content.series) + 1)
    return LINE * max(4, n_lines)


def _draw_panel(
    axis: Axes, chart: Chart, part: ChartPart, content: _ChartContent
) -> None:
    """Draw the points of one panel with the unit at the axis of the numbers."""
    points = [point for point in content.points if point.panel == part.label]
    axis.set_title(part.label)
    if chart.kind == "trends":
        _draw_trends(axis, points, content)
        axis.set_ylabel(part.unit)
    elif chart.kind == "shares":
        _draw_shares(axis, points, content)
        axis.set_xlabel(part.unit)
    else:
        _draw_points(axis, points, content)
        if part.unit == POINTS:  # differences, which may have either sign
            axis.axvline(0, color="#999999", linewidth=0.8, zorder=1)
        axis.set_xlabel(part.unit)


def _draw_legend(figure: Figure, handles: Sequence[Artist], note: str) -> None:
    """Draw the legend below all panels, with a note above it."""
    figure.legend(
        handles=list(handles),
        title=note or None,
        title_fontsize=8,
        loc="outside lower left",
        ncols=min(4, len(handles)),
        alignment="left",
    )


def _share_axes(
    axes: Sequence[Axes], panels: Sequence[ChartPart], columns: int, chart: Chart
) -> None:
    """Give all panels of one unit the same scale, and write the names of rows only at the left of
    the figure.

    Args:
        axes: Axes of each panel, row by row.
        panels: The panels.
        columns: Number of panels in a row.
        chart: The chart. The numbers of trends are at the y axis; elsewhere they are at the x axis,
            and the names of rows at the y axis.
    """
    first_by_unit: dict[str, Axes] = {}
    for position, (axis, part) in enumerate(zip(axes, panels, strict=True)):
        first = first_by_unit.setdefault(part.unit, axis)
        is_trend = chart.kind == "trends"
        # All panels of a unit share the scale of the first one, which is then fitted to all their
        # numbers.
        if axis is not first and is_trend:
            axis.sharey(first)
            first.autoscale(enable=True, axis="y")
        elif axis is not first:
            axis.sharex(first)
            first.autoscale(enable=True, axis="x")
        is_at_left = position % columns == 0
        if not is_trend and not is_at_left:
            axis.tick_params(labelleft=False)


def _format_note(chart: Chart, content: _ChartContent, missing: str) -> str:
    """Return the lines above the legend: number of items, meaning of bars and lines, remarks.

    Args:
        chart: The chart.
        content: Its points.
        missing: Reason why it has no number of ours, which is given if it has none.
    """
    notes = []
    measured = [point for point in content.points if point.value is not None]
    if measured:
        unit = "items per number"
        if chart.kind == "shares":
            unit = "correlations per test"
        has_bars = any(point.low is not None for point in measured)
        notes = [_format_n(measured, unit), MEANING_OF_BARS[chart.over_seeds, has_bars]]
        if _has_small_points(chart, measured):
            notes.append(MEANING_OF_MARK)
    else:
        notes.append(f"Paper values alone: {' '.join(missing.split())}.")
    if chart.kind == "trends":
        notes += [TREND_LINES, _format_sizes(content)]
    text = " ".join(filter(None, notes))
    lines = textwrap.wrap(text, NOTE_LENGTH) + textwrap.wrap(chart.note, NOTE_LENGTH)
    single_runs = _list_single_runs(chart, measured)
    if single_runs:
        lines.append(f"One run, without deviation: {', '.join(single_runs)}.")
    if content.unsized:
        lines.append(f"Without a known size: {', '.join(content.unsized)}.")
    return "\n".join(filter(None, lines))


def _list_single_runs(chart: Chart, measured: Sequence[Point]) -> list[str]:
    """Return the models without a deviation in a chart over seeds, next to models that have one."""
    with_bars: set[str] = set()
    models: dict[str, None] = {}
    for point in measured:
        model = point.row
        if chart.series == "model":
            model = point.series
        models[model] = None
        if point.low is not None:
            with_bars.add(model)
    if not chart.over_seeds or not with_bars:
        return []
    return [model for model in models if model not in with_bars]


def _has_small_points(chart: Chart, points: Sequence[Point]) -> bool:
    """Return whether a number of items or images of a chart is too small to say something.

    Shares of correlations have the number of correlations at each bar instead.
    """
    return chart.kind != "shares" and any(point.is_small for point in points)


def _format_sizes(content: _ChartContent) -> str:
    """Return the sentence about regressions that rest on few sizes; an empty text for many sizes."""
    # Models of nearly the same size, such as 7.0 and 7.2 billion, are one position of a regression.
    sizes = {f"{content.billions[row]:.1g}" for row in content.rows}
    if len(sizes) >= FEW_SIZES:
        return ""
    return f"They rest on {len(sizes)} different sizes of {len(content.rows)} models."


def _format_n(points: Sequence[Point], unit: str) -> str:
    """Return how many items our numbers are measured on, as a number or a range; an empty text
    without items.

    Args:
        points: Points with a number of ours.
        unit: What is counted.
    """
    numbers = [point.n for point in points if point.n]
    if not numbers:
        return ""
    low, high = min(numbers), max(numbers)
    n = f"n = {low:,}"
    if low < high:
        n += f" to {high:,}"
    return f"{n} {unit}."


def _draw_rows(axis: Axes, rows: Sequence[str]) -> None:
    """Write the names of the rows of a panel, the first row on top, and draw a line between rows."""
    for row in range(1, len(rows)):
        axis.axhline(row - 0.5, color="#dddddd", linewidth=0.6, zorder=0)
    axis.set_yticks(range(len(rows)), rows)
    # Rows count from the top, so the axis is turned round.
    axis.set_ylim(len(rows) - 0.5, -0.5)


def _draw_points(axis: Axes, points: Sequence[Point], content: _ChartContent) -> None:
    """Draw a point for each row and series; in a row, each series is a little below the previous
    one.
    """
    # A row is one unit high; its series share 0.8 of it.
    step = 0.8 / (len(content.series) + 1)
    for point in points:
        number = content.series.index(point.series)
        marker, color = _select_marker(number)
        y = content.rows.index(point.row) - 0.4 + step * (number + 1)
        axis.plot(
            point.seeds,
            [y] * len(point.seeds),
            ".",
            color=SINGLE_COLOR,
            markersize=3,
            zorder=4,
        )
        if point.value is not None:
            if point.low is not None and point.high is not None:
                axis.plot(
                    [point.low, point.high],
                    [y, y],
                    color=color,
                    linewidth=1.2,
                    zorder=2,
                )
            axis.plot([point.value], [y], marker, color=color, markersize=5, zorder=3)
            _mark_small(axis, point, point.value, y)
        if point.paper_value is not None:
            axis.plot(
                [point.paper_value],
                [y],
                marker,
                color=color,
                markersize=6,
                markerfacecolor="none",
                clip_on=False,
                zorder=4,
            )
    _draw_rows(axis, content.rows)


def _mark_small(axis: Axes, point: Point, x: float, y: float) -> None:
    """Write `SMALL_MARK` next to our number if it is from too few items or images."""
    if point.is_small:
        axis.annotate(
            SMALL_MARK, (x, y), (3, 2), textcoords="offset points", fontsize=7
        )


def _draw_trends(axis: Axes, points: Sequence[Point], content: _ChartContent) -> None:
    """Draw points over the names of models, from the smallest model to the largest, with a
    regression line on their sizes for each series.
    """
    present = {point.series for point in points}
    series = [name for name in content.series if name in present]
    for number, name in enumerate(series):
        # The series of a panel are centered around the models.
        shift = NUDGE * (number - (len(series) - 1) / 2)
        marker, color = _select_marker(content.series.index(name))
        ours: dict[str, float] = {}
        papers: dict[str, float] = {}
        for point in points:
            if point.series != name:
                continue
            x = content.rows.index(point.row) + shift
            if point.value is not None:
                ours[point.row] = point.value
                _mark_small(axis, point, x, point.value)
            if point.paper_value is not None:
                papers[point.row] = point.paper_value
            if point.low is not None and point.high is not None:
                interval = (point.low, point.high)
                axis.plot([x, x], interval, color=color, linewidth=0.8, zorder=1)
        # Ours are filled with a solid line, paper values hollow with a dashed one.
        _draw_trend(axis, ours, content, shift, (marker, color, color, "-"))
        _draw_trend(axis, papers, content, shift, (marker, color, "none", "--"))
    # Names of models stand below the middle of their series.
    names = [f"{row}\n{content.billions[row]:.3g} B" for row in content.rows]
    axis.set_xticks(
        range(len(names)),
        names,
        rotation=40,
        ha="right",
        rotation_mode="anchor",
        fontsize=7,
    )
    axis.set_xlim(-0.5, len(names) - 0.5)


def _draw_trend(
    axis: Axes,
    values: Mapping[str, float],
    content: _ChartContent,
    shift: float,
    style: tuple[str, str, str, str],
) -> None:
    """Draw the numbers of one series, and their regression line.

    Args:
        axis: Axes of the panel.
        values: Number by model.
        content: The chart's points, with the order and sizes of models.
        shift: Distance of the series from the models.
        style: Marker, color, color of the marker's face, and kind of line.
    """
    marker, color, face, line = style
    positions: list[float] = []
    sizes: list[float] = []
    numbers: list[float] = []
    for position, row in enumerate(content.rows):
        if row in values:
            positions.append(position + shift)
            sizes.append(content.billions[row])
            numbers.append(values[row])
    axis.plot(
        positions, numbers, marker, color=color, markerfacecolor=face, markersize=5
    )
    # Without two sizes there is no line.
    trend = fit_trend(sizes, numbers)
    axis.plot(
        positions[: len(trend)],
        trend,
        line,
        color=color,
        linewidth=1,
        alpha=0.6,
        zorder=1,
    )


def fit_trend(sizes: Sequence[float], numbers: Sequence[float]) -> list[float]:
    """Return the numbers on the line of a linear regression on the logarithm of the size.

    Args:
        sizes: Size of each model.
        numbers: Number of each model.
    Returns:
        The number on the line at each size; an empty list if there are fewer than two sizes.
    """
    if len(set(sizes)) < 2:
        return []
    # number = slope * log(size) + intercept, by least squares
    slope, intercept = np.polyfit(np.log(sizes), numbers, 1)
    fitted: list[float] = (intercept + slope * np.log(sizes)).tolist()
    return fitted


def _draw_shares(axis: Axes, points: Sequence[Point], content: _ChartContent) -> None:
    """Draw bars with their numbers: a filled bar for our share, and below it an outline for the
    paper's.
    """
    # Each series has two bars in a row: ours and the paper's.
    height = 0.8 / (2 * len(content.series))
    for point in points:
        number = content.series.index(point.series)
        color = COLORS[number]
        top = content.rows.index(point.row) - 0.4 + 2 * height * number
        for value, n, face, bar_top in (
            (point.value, point.n, color, top),
            (point.paper_value, point.paper_n, "none", top + height),
        ):
            if value is None or n is None:
                continue
            middle = bar_top + height / 2
            axis.barh(middle, value, height * 0.85, facecolor=face, edgecolor=color)
            count = round(value * n / 100)
            axis.text(value, middle, f" {count} of {n}", va="center", fontsize=7)
    _draw_rows(axis, content.rows)


def _build_legend(chart: Chart, content: _ChartContent) -> list[Artist]:
    """Return the entries of the legend: one for each series, and one for paper values if there are
    any.
    """
    # Bars have patches as entries, points have markers.
    draws_bars = chart.kind == "shares"
    handles: list[Artist] = []
    for number, name in enumerate(content.series):
        marker, color = _select_marker(number)
        if draws_bars:
            handles.append(Patch(color=color, label=name))
        else:
            handles.append(_make_marker(marker, color=color, label=name))
    has_paper_values = any(point.paper_value is not None for point in content.points)
    if has_paper_values and draws_bars:
        handles.append(Patch(facecolor="none", edgecolor=GRAY, label=HOLLOW))
    elif has_paper_values:
        handles.append(
            _make_marker("o", color=GRAY, markerfacecolor="none", label=HOLLOW)
        )
    return handles


def _make_marker(marker: str, **options: str) -> Line2D:
    """Return a marker as an entry of a legend."""
    return Line2D([], [], marker=marker, linestyle="", **options)  # type: ignore[arg-type]


def _select_marker(number: int) -> tuple[str, str]:
    """Return the marker and color of a series by its number; they are repeated if there are too
    many series.
    """
    return MARKERS[number % len(MARKERS)], COLORS[number % len(COLORS)]


# Word frequencies

ROLES = ("caption", "foil")
CAPTION, FOIL = "#0072b2", "#e69f00"
"""Colors of captions and foils: blue and orange, which color-blind readers can distinguish; they
differ in gray too.
"""
WORDS = 20
"""Largest number of words in a figure of word frequencies."""


def draw_frequencies(counts: pd.DataFrame, title: str) -> Figure:
    """Return the figure of the shares of words in captions and in foils, before and after
    validation.

    Args:
        counts: Rows of a `FrequencyRecord` of one data set and one kind.
        title: Title of the figure.
    Returns:
        Two panels of horizontal bars: all items, and valid items. The bars of captions in a panel
        sum to 100 % over all words, and so do the bars of foils. The words are the most frequent
        words of all items.
    """
    # Rows are words; columns are (all or valid items) x (captions or foils).
    table = counts.pivot_table(
        index="word",
        columns=["items", "side"],
        values="count",
        aggfunc="sum",
        fill_value=0,
    )
    columns = pd.MultiIndex.from_product([["all", "valid"], ROLES])
    table = table.reindex(columns=columns, fill_value=0)
    # The most frequent words of captions and foils together; ties in alphabetical order.
    order = sorted(
        table.index, key=lambda word: (-int(table.loc[word, "all"].sum()), word)
    )
    words = order[:WORDS]
    with use_style():
        figure = Figure(figsize=(8, 0.9 + 0.24 * max(len(words), 3)))
        axes = figure.subplots(1, 2, sharey=True, sharex=True)
        for panel, items, heading in zip(
            axes,
            ("all", "valid"),
            ("before validation", "after validation"),
            strict=True,
        ):
            # Shares are of all words, not only of the words that are drawn.
            totals = {role: int(table[items, role].sum()) for role in ROLES}
            _draw_bars(panel, table.loc[words, items], totals, heading)
        axes[0].set_yticks(range(len(words)), words)
        axes[0].invert_yaxis()
        handles, names = axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="upper right", ncols=2)
        if len(words) < len(order):
            title += f" ({len(words)} of {len(order)} words)"
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        figure.tight_layout()
    return figure


def _draw_bars(
    panel: Axes, counts: pd.DataFrame, totals: Mapping[str, int], heading: str
) -> None:
    """Draw the share of each word in the words of captions and in the words of foils, as bars in
    percent.

    Args:
        panel: Axes of the panel.
        counts: Number of each word in captions and in foils.
        totals: Number of all words in captions and in foils.
        heading: Heading of the panel.
    """
    # Bars of captions above those of foils, as the axis of words is inverted.
    for offset, role, color in ((-0.2, "caption", CAPTION), (0.2, "foil", FOIL)):
        panel.barh(
            np.arange(len(counts)) + offset,
            100 * counts[role] / max(totals[role], 1),
            height=0.4,
            color=color,
            label=f"{role}s",
        )
    panel.set_title(
        f"{heading} (n = {totals['caption']:,} in captions, {totals['foil']:,} in foils)",
        fontsize=9,
    )
    panel.set_xlabel("percent of words")
