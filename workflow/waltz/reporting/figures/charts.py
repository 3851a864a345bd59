"""Charts of table cells: our numbers with their intervals, paper values as hollow markers or bars.

A chart shows only what is in tables' CSVs. Series differ in shape and colour, so that no colours are needed.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, StrMethodFormatter

from waltz.reporting.figures.chart_cells import Point, explain_empty, select_points
from waltz.reporting.figures.chart_declarations import Chart, Part
from waltz.reporting.figures.figure_files import use_style
from waltz.reporting.tables.cells import Cell

MARKERS = "osD^vP*Xh<>8"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#999999")
"""Okabe and Ito's palette, darkest contrasts first."""
PANEL_WIDTH, LINE, HEAD = 3.1, 0.15, 1.1
"""Inches: width of a panel, height of one series' marker, height of headings and axis."""
TREND_HEIGHT = 2.4
"""Inches: height of a panel over model sizes."""
NUDGE = 1.03
"""Factor that moves the points of each series over sizes to the right of the previous one, so that they can be seen."""
COLUMNS = 4
"""Largest number of panels in a row."""
SINGLE_COLOUR = "#222222"
"""Colour of the dots of single seeds."""
SEVERAL_SEEDS = "Dots: single seeds. Bars: one standard deviation over seeds to either side of the mean."
ONE_SEED = "One seed was run, so there is no deviation."
INTERVALS = "Bars: confidence intervals."
TREND_LINES = "Lines: linear regression on the logarithm of the size, dashed for paper values."


def draw_chart(chart: Chart, cells: Sequence[Cell], profile: str, sizes: Mapping[str, int] | None = None) -> Figure:
    """Draw a chart; without any point, the figure says why it is empty.

    Args:
        cells: Cells of tables; those of the chart's tables are used.
        sizes: Number of parameters by model, for trends over sizes; models without a size are not drawn there.
    """
    points = select_points(chart, cells, profile)
    unsized: list[str] = []
    if chart.kind == "trends":
        known = {name: size / 1e9 for name, size in (sizes or {}).items() if size}
        unsized = sorted({point.row for point in points} - set(known))
        points = [point for point in points if point.row in known]
    panels = [part for part in chart.panels if any(point.panel == part.label for point in points)]
    rows = _list_labels(chart.rows, [point.row for point in points])
    series = _list_labels(chart.series, [point.series for point in points])
    panel_rows = max(1, -(-len(panels) // COLUMNS))
    columns = max(1, -(-len(panels) // panel_rows))
    height = HEAD + (TREND_HEIGHT if chart.kind == "trends" else LINE * max(4, len(rows) * (len(series) + 1)))
    with use_style():
        figure = Figure(figsize=(1.6 + PANEL_WIDTH * columns, 0.9 + height * panel_rows), layout="constrained")
        title = f"{chart.title} ({chart.figures}, profile {profile})"
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        axes = list(figure.subplots(panel_rows, columns, squeeze=False).flat)
        for axis, part in zip(axes, panels, strict=False):
            in_panel = [point for point in points if point.panel == part.label]
            axis.set_title(part.label)
            if chart.kind == "trends":
                _draw_trends(axis, in_panel, known, series)
                axis.set_ylabel(part.unit)
            else:
                draw = _draw_counts if chart.kind == "counts" else _draw_points
                draw(axis, in_panel, rows, series)
                axis.set_xlabel(part.unit)
        for axis in axes[len(panels) :]:
            axis.set_axis_off()
        _share_axes(axes, panels, columns, "y" if chart.kind == "trends" else "x")
        if not points:
            figure.text(0.5, 0.4, explain_empty(chart, cells, profile), ha="center", fontsize=8, wrap=True)
        else:
            handles = _build_legend(points, chart, series)
            look: dict[str, Any] = {"loc": "outside lower left", "ncols": min(4, len(handles)), "alignment": "left"}
            note = _format_note(chart, points, unsized)
            figure.legend(handles=handles, title=note or None, title_fontsize=8, **look)
    return figure


def _list_labels(parts: Sequence[Part] | str, present: Sequence[str]) -> list[str]:
    """Return the labels that are present, in the order of the parts, else of their appearance."""
    names = list(dict.fromkeys(present))
    return names if isinstance(parts, str) else [part.label for part in parts if part.label in names]


def _share_axes(axes: Sequence[Any], panels: Sequence[Part], columns: int, numbers: str) -> None:
    """Give all panels of one unit the same scale; with rows, name them at the left of the figure alone.

    Args:
        numbers: The axis of the numbers, `x` or `y`.
    """
    first_by_unit: dict[str, Any] = {}
    for position, (axis, part) in enumerate(zip(axes, panels, strict=False)):
        first = first_by_unit.setdefault(part.unit, axis)
        if axis is not first:
            (axis.sharex if numbers == "x" else axis.sharey)(first)
            first.autoscale(enable=True, axis=numbers)
        if numbers == "x" and position % columns:
            axis.tick_params(labelleft=False)


def _format_n(points: Sequence[Point]) -> str:
    """Return the number of items behind each number of ours, as a range; empty where there are none."""
    numbers = [point.n for point in points if point.value is not None and point.n]
    if not numbers:
        return ""
    low, high = min(numbers), max(numbers)
    return f"n = {low:,}" if low == high else f"n = {low:,} to {high:,}"


def _format_note(chart: Chart, points: Sequence[Point], unsized: Sequence[str]) -> str:
    """Return the lines above the legend: number of items, meaning of bars and lines, remarks."""
    n = _format_n(points)
    notes = [n and f"{n} {'correlations per test' if chart.kind == 'counts' else 'items per number'}."]
    if chart.over_seeds:
        if any(point.value is not None for point in points):
            notes.append(SEVERAL_SEEDS if any(point.low is not None for point in points) else ONE_SEED)
    elif any(point.low is not None for point in points):
        notes.append(INTERVALS)
    if chart.kind == "trends":
        notes.append(TREND_LINES)
    lines = [" ".join(filter(None, notes)), chart.note]
    if unsized:
        lines.append(f"Without a known size: {', '.join(unsized)}.")
    return "\n".join(filter(None, lines))


def _draw_rows(axis: Any, rows: Sequence[str]) -> None:
    """Name the rows of a panel, first on top, with a line between two."""
    for row in range(1, len(rows)):
        axis.axhline(row - 0.5, color="#dddddd", linewidth=0.6, zorder=0)
    axis.set_yticks(range(len(rows)), rows)
    axis.set_ylim(len(rows) - 0.5, -0.5)


def _draw_points(axis: Any, points: Sequence[Point], rows: Sequence[str], series: Sequence[str]) -> None:
    """Draw a point for each row and series, each series a little below the previous one."""
    step = 0.8 / (len(series) + 1)
    for point in points:
        number = series.index(point.series)
        marker, colour = _select_marker(number)
        y = rows.index(point.row) - 0.4 + step * (number + 1)
        axis.plot(point.seeds, [y] * len(point.seeds), ".", color=SINGLE_COLOUR, markersize=3, zorder=4)
        if point.value is not None:
            if point.low is not None and point.high is not None:
                axis.plot([point.low, point.high], [y, y], color=colour, linewidth=1.2, zorder=2)
            axis.plot([point.value], [y], marker, color=colour, markersize=5, zorder=3)
        if point.paper_value is not None:
            hollow: dict[str, Any] = {"markerfacecolor": "none", "clip_on": False, "zorder": 4}
            axis.plot([point.paper_value], [y], marker, color=colour, markersize=6, **hollow)
    _draw_rows(axis, rows)


def _draw_trends(axis: Any, points: Sequence[Point], sizes: Mapping[str, float], series: Sequence[str]) -> None:
    """Draw points over the models' sizes in billions of parameters, and a line of regression for each series."""
    for number, name in enumerate(series):
        marker, colour = _select_marker(number)
        of_series = [point for point in points if point.series == name]
        sizes = {row: size * NUDGE for row, size in sizes.items()}
        ours = [(sizes[point.row], point.value) for point in of_series if point.value is not None]
        papers = [(sizes[point.row], point.paper_value) for point in of_series if point.paper_value is not None]
        for values, face, line in ((ours, colour, "-"), (papers, "none", "--")):
            look = {"color": colour, "markerfacecolor": face, "markersize": 5}
            axis.plot([x for x, _ in values], [y for _, y in values], marker, **look)
            axis.plot(*fit_trend(values), line, color=colour, linewidth=1, alpha=0.6, zorder=1)
        for point in of_series:
            if point.value is not None and point.low is not None and point.high is not None:
                axis.plot([sizes[point.row]] * 2, [point.low, point.high], color=colour, linewidth=0.8, zorder=1)
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.minorticks_off()
    axis.margins(x=0.1)
    axis.set_xlabel("billions of parameters")


def fit_trend(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Return the ends of the line of a linear regression on the logarithm of the size; empty below two sizes.

    Args:
        points: Size and number of each model.
    Returns:
        Two sizes, the smallest and the largest, and the line's two numbers there.
    """
    ends = [min((x for x, _ in points), default=0.0), max((x for x, _ in points), default=0.0)]
    if ends[0] == ends[1]:
        return [], []
    slope, start = np.polyfit([math.log(x) for x, _ in points], [y for _, y in points], 1)
    return ends, [float(start + slope * math.log(x)) for x in ends]


def _draw_counts(axis: Any, points: Sequence[Point], rows: Sequence[str], series: Sequence[str]) -> None:
    """Draw bars with their numbers: ours filled, with that of the paper as an outline below it."""
    height = 0.8 / (2 * len(series))
    for point in points:
        number = series.index(point.series)
        colour = COLOURS[number]
        top = rows.index(point.row) - 0.4 + 2 * height * number
        for value, face, place in ((point.value, colour, top), (point.paper_value, "none", top + height)):
            if value is not None:
                axis.barh(place + height / 2, value, height * 0.85, facecolor=face, edgecolor=colour)
                axis.text(value, place + height / 2, f" {value:g}", va="center", fontsize=7)
    _draw_rows(axis, rows)


def _build_legend(points: Sequence[Point], chart: Chart, series: Sequence[str]) -> list[Any]:
    """Return the legend's entries: one for each series, and one for paper values."""
    handles: list[Any] = []
    for number, name in enumerate(series):
        marker, colour = _select_marker(number)
        if chart.kind == "counts":
            handles.append(Patch(color=colour, label=name))
        else:
            handles.append(Line2D([], [], marker=marker, color=colour, linestyle="", label=name))
    if any(point.paper_value is not None for point in points):
        label = "hollow: paper value"
        if chart.kind == "counts":
            handles.append(Patch(facecolor="none", edgecolor="#444444", label=label))
        else:
            handles.append(
                Line2D([], [], marker="o", color="#444444", markerfacecolor="none", linestyle="", label=label)
            )
    return handles


def _select_marker(number: int) -> tuple[str, str]:
    """Return the marker and colour of a series."""
    return MARKERS[number % len(MARKERS)], COLOURS[number % len(COLOURS)]


# Word frequencies

CAPTION, FOIL = "#0072b2", "#e69f00"
"""Blue and orange that colour-blind readers can distinguish; they differ in grey, too."""
WORDS = 20
"""Largest number of words in one figure."""


def draw_frequencies(counts: Iterable[Mapping[str, Any]], title: str) -> Figure:
    """Draw each word's share of the words of captions and of foils, before and after validation.

    Args:
        counts: Rows of the frequencies layout, of one data set and one kind.
    Returns:
        Two panels of horizontal bars: all items, valid items; each side of a panel sums to 100 % over all words. Words
        are those most frequent in all items.
    """
    frame = pd.DataFrame(list(counts), columns=["items", "side", "word", "count"])
    table = frame.pivot_table(index="word", columns=["items", "side"], values="count", aggfunc="sum", fill_value=0)
    columns = pd.MultiIndex.from_product([["all", "valid"], ["caption", "foil"]])
    table = table.reindex(columns=columns, fill_value=0)
    order = sorted(table.index, key=lambda word: (-int(table.loc[word, "all"].sum()), word))
    words = order[:WORDS]
    with use_style():
        figure = Figure(figsize=(8, 0.9 + 0.24 * max(len(words), 3)))
        axes = figure.subplots(1, 2, sharey=True, sharex=True)
        for panel, items, heading in zip(
            axes, ("all", "valid"), ("before validation", "after validation"), strict=True
        ):
            totals = {side: int(table[items, side].sum()) for side in ("caption", "foil")}
            _draw_bars(panel, table.loc[words].xs(items, axis="columns"), totals, heading)
        axes[0].set_yticks(range(len(words)), words)
        axes[0].invert_yaxis()
        handles, names = axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="upper right", ncols=2)
        rest = f" ({len(words)} of {len(order)} words)" if len(order) > len(words) else ""
        figure.suptitle(f"{title}{rest}", x=0.01, ha="left", fontsize=11)
        figure.tight_layout()
    return figure


def _draw_bars(panel: Any, counts: Any, totals: Mapping[str, int], heading: str) -> None:
    """Draw the shares of words in all words of captions and of foils as horizontal bars, in percent."""
    for offset, side, colour in ((-0.2, "caption", CAPTION), (0.2, "foil", FOIL)):
        positions = [row + offset for row in range(len(counts))]
        panel.barh(positions, 100 * counts[side] / max(totals[side], 1), height=0.4, color=colour, label=f"{side}s")
    panel.set_title(f"{heading} (n = {totals['caption']:,} in captions, {totals['foil']:,} in foils)", fontsize=9)
    panel.set_xlabel("percent of words")
