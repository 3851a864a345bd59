"""Charts of table cells: ours with their intervals, what is printed beside them as hollow markers.

A chart shows nothing that is not in a table's CSV. Series are told apart by shape and colour, so that print without
colours and colour-blind readers keep them apart.
"""

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from waltz.reporting.chart_declarations import Chart
from waltz.reporting.figures import STYLE
from waltz.reporting.tables import Cell

MARKS = "osD^vP*Xh<>8"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#999999")
"""Okabe and Ito's palette, darkest contrasts first."""
PANEL_WIDTH, LINE, HEAD = 3.1, 0.15, 1.1
"""Inches: width of a panel, height of one series' mark, height of headings and axis."""
COLUMNS = 4
"""Most panels side by side."""
BARE = "random"
"""Printed rows that name chance, which is no system."""


def shown(chart: Chart, cells: Sequence[Cell], profile: str) -> list[Cell]:
    """The cells of one profile that a chart shows, in its own order: those with a value of ours or of print.

    Args:
        chart: The chart.
        cells: Cells of its tables.
        profile: A fidelity profile.
    """
    chosen = [
        cell
        for cell in cells
        if cell.profile == profile
        and cell.table in chart.tables
        and cell.model != BARE
        and (cell.value is not None or cell.published is not None)
        and all(getattr(cell, name) in values for name, values in chart.keep.items())
    ]
    orders = [(name, {value: place for place, value in enumerate(values)}) for name, values in chart.keep.items()]
    return sorted(chosen, key=lambda cell: [order[getattr(cell, name)] for name, order in orders])


def draw(chart: Chart, cells: Sequence[Cell], profile: str, label: Callable[[str, str], str]) -> Figure:
    """Draw a chart; without any cell, a figure that says so.

    Args:
        chart: The chart.
        cells: Cells of its tables.
        profile: The fidelity profile that is drawn.
        label: From a field and its value to what is written.
    Returns:
        A figure that no window manager knows of; it can be saved with `figures.save`.
    """
    found = shown(chart, cells, profile)
    panels = list(dict.fromkeys(getattr(cell, chart.panels) for cell in found))
    lines = list(dict.fromkeys(getattr(cell, chart.along) for cell in found))
    series = list(dict.fromkeys(getattr(cell, chart.series) for cell in found))
    wide = min(max(1, len(panels)), COLUMNS)
    high = -(-max(1, len(panels)) // COLUMNS)
    tall = HEAD + LINE * max(4, len(lines) * (len(series) + 1))
    with style.context(STYLE):
        figure = Figure(figsize=(1.6 + PANEL_WIDTH * wide, 0.5 + tall * high), layout="constrained")
        figure.suptitle(f"{chart.title} ({chart.id}, profile {profile})", x=0.01, ha="left", fontsize=11)
        axes = figure.subplots(high, wide, sharex=True, sharey=True, squeeze=False).flat
        for panel, name in zip(axes, panels, strict=False):
            of = [cell for cell in found if getattr(cell, chart.panels) == name]
            _panel(panel, of, chart, lines, series)
            panel.set_title(label(chart.panels, name))
            panel.set_xlabel(chart.unit)
            panel.set_yticks(range(len(lines)), [label(chart.along, line) for line in lines])
            panel.set_ylim(len(lines) - 0.5, -0.5)
        for panel in list(axes)[len(panels) :]:
            panel.set_axis_off()
        if not found:
            figure.text(0.5, 0.4, "no cell of its tables has a number", ha="center")
        elif handles := _legend(found, chart, series, label):
            figure.legend(handles=handles, loc="outside lower left", ncols=min(4, len(handles)))
    return figure


def _panel(panel: Any, cells: Sequence[Cell], chart: Chart, lines: Sequence[str], series: Sequence[str]) -> None:
    """Draw the cells of one panel, each series a little below the one before."""
    step = 0.8 / (len(series) + 1)
    for line in range(1, len(lines)):
        panel.axhline(line - 0.5, color="#dddddd", linewidth=0.6, zorder=0)
    for cell in cells:
        turn = series.index(getattr(cell, chart.series))
        place = lines.index(getattr(cell, chart.along)) - 0.4 + step * (turn + 1)
        mark, colour = _look(turn)
        if cell.value is not None:
            if cell.ci_low is not None and cell.ci_high is not None:
                panel.plot([cell.ci_low, cell.ci_high], [place, place], color=colour, linewidth=1.2, zorder=2)
            panel.plot([cell.value], [place], mark, color=colour, markersize=5, zorder=3)
        if cell.published is not None:
            panel.plot(
                [cell.published],
                [place],
                mark,
                color=colour,
                markersize=6,
                markerfacecolor="none",
                zorder=4,
                clip_on=False,
            )


def _legend(
    cells: Sequence[Cell], chart: Chart, series: Sequence[str], label: Callable[[str, str], str]
) -> list[Line2D]:
    handles = []
    for turn, name in enumerate(series):
        mark, colour = _look(turn)
        handles.append(Line2D([], [], marker=mark, color=colour, linestyle="", label=label(chart.series, name)))
    if any(cell.published is not None for cell in cells):
        handles.append(
            Line2D([], [], marker="o", color="#444444", markerfacecolor="none", linestyle="", label="hollow: printed")
        )
    return handles


def _look(turn: int) -> tuple[str, str]:
    return MARKS[turn % len(MARKS)], COLOURS[turn % len(COLOURS)]
