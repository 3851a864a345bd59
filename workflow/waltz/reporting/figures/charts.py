"""Charts of table cells: ours with their intervals, what is printed beside them as hollow markers.

A chart shows nothing that is not in a table's CSV. Series are told apart by shape and colour, so that print without
colours and colour-blind readers keep them apart.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from waltz.reporting.figures.chart_declarations import Chart
from waltz.reporting.figures.frequencies import STYLE
from waltz.reporting.tables.cells import Cell
from waltz.reporting.tables.declaration import SETTING_SEPARATOR

MARKS = "osD^vP*Xh<>8"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#999999")
"""Okabe and Ito's palette, darkest contrasts first."""
PANEL_WIDTH, LINE, HEAD = 3.1, 0.15, 1.1
"""Inches: width of a panel, height of one series' mark, height of headings and axis."""
COLUMNS = 4
"""Most panels side by side."""
SINGLE_COLOUR = "#222222"
"""Dots of single seeds."""
SEVERAL_SEEDS = "Dots: single seeds. Bars: one standard deviation over seeds to either side of the mean."
ONE_SEED = "One seed was run, so there is no deviation."
CHANCE_MODEL = "random"
"""Printed rows that name chance, which is no system."""


def select_cells(chart: Chart, cells: Sequence[Cell], profile: str) -> list[Cell]:
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
        and cell.model != CHANCE_MODEL
        and (cell.value is not None or cell.published is not None)
        and all(getattr(cell, name) in values for name, values in chart.keep.items())
    ]
    orders = [(name, {value: place for place, value in enumerate(values)}) for name, values in chart.keep.items()]
    return sorted(chosen, key=lambda cell: [order[getattr(cell, name)] for name, order in orders])


def draw_chart(chart: Chart, cells: Sequence[Cell], profile: str, label: Callable[[str, str], str]) -> Figure:
    """Draw a chart; without any cell, a figure that says so.

    Args:
        chart: The chart.
        cells: Cells of its tables.
        profile: The fidelity profile that is drawn.
        label: From a field and its value to what is written.
    Returns:
        A figure that no window manager knows of; it can be saved with `figures.save`.
    """
    found = select_cells(chart, cells, profile)
    found, single = _split_by_seed(found) if chart.over_seeds else (found, [])
    panels = list(dict.fromkeys(_name_panel(chart, cell) for cell in [*found, *single]))
    lines = list(dict.fromkeys(getattr(cell, chart.along) for cell in [*found, *single]))
    series = list(dict.fromkeys(getattr(cell, chart.series) for cell in [*found, *single]))
    wide = min(max(1, len(panels)), COLUMNS)
    high = -(-max(1, len(panels)) // COLUMNS)
    tall = HEAD + LINE * max(4, len(lines) * (len(series) + 1))
    with style.context(STYLE):
        figure = Figure(figsize=(1.6 + PANEL_WIDTH * wide, 0.5 + tall * high), layout="constrained")
        title = f"{chart.title} ({chart.figures}, profile {profile})"
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        axes = list(figure.subplots(high, wide, sharex=not chart.units, sharey=True, squeeze=False).flat)
        first: dict[str, Any] = {}
        for panel, name in zip(axes, panels, strict=False):
            of, beside = ([cell for cell in part if _name_panel(chart, cell) == name] for part in (found, single))
            _draw_panel(panel, of, beside, chart, lines, series)
            named = dict(zip(chart.panels, name, strict=True))
            panel.set_title(", ".join(label(field, value) for field, value in named.items()))
            unit = chart.units.get(named.get("metric", ""), chart.unit)
            panel.set_xlabel(unit)
            if panel is not first.setdefault(unit, panel) and chart.units:
                panel.sharex(first[unit])
            panel.set_yticks(range(len(lines)), [label(chart.along, line) for line in lines])
            panel.set_ylim(len(lines) - 0.5, -0.5)
        for place in range(len(panels), len(axes)):
            axes[place].set_axis_off()
            axes[place - wide].tick_params(labelbottom=True)
        if not panels:
            figure.text(0.5, 0.4, _explain_empty(chart, cells, profile), ha="center", fontsize=8, wrap=True)
        elif handles := _draw_legend(found, chart, series, label):
            look: dict[str, Any] = {"loc": "outside lower left", "ncols": min(4, len(handles)), "alignment": "left"}
            figure.legend(handles=handles, title=_format_note(chart, found) or None, title_fontsize=8, **look)
    return figure


def _split_by_seed(cells: Sequence[Cell]) -> tuple[list[Cell], list[Cell]]:
    """Means over seeds, and the numbers of single seeds, where there are several, under the settings of their means."""
    single = [cell for cell in cells if f"{SETTING_SEPARATOR}seed " in cell.setting]
    several = len({cell.setting.partition(SETTING_SEPARATOR)[2] for cell in single}) > 1
    named = [replace(cell, setting=cell.setting.partition(SETTING_SEPARATOR)[0]) for cell in single if several]
    return [cell for cell in cells if SETTING_SEPARATOR not in cell.setting], named


def _name_panel(chart: Chart, cell: Cell) -> tuple[str, ...]:
    return tuple(getattr(cell, field) for field in chart.panels)


def _explain_empty(chart: Chart, cells: Sequence[Cell], profile: str) -> str:
    """Why there is nothing to draw."""
    of = [cell for cell in cells if cell.profile == profile and cell.table in chart.tables and cell.value is None]
    reasons = Counter(cell.reason for cell in of if cell.reason)
    why = f":\n{reasons.most_common(1)[0][0]}" if reasons else ""
    return f"no cell of its tables has a number{why}"


def _format_note(chart: Chart, cells: Sequence[Cell]) -> str:
    """What a reader must know: of numbers over seeds, what their bars are."""
    if not chart.over_seeds:
        return chart.note
    several = any(cell.sd is not None for cell in cells)
    return SEVERAL_SEEDS if several else ONE_SEED


def _draw_panel(
    panel: Any,
    cells: Sequence[Cell],
    single: Sequence[Cell],
    chart: Chart,
    lines: Sequence[str],
    series: Sequence[str],
) -> None:
    """Draw the cells of one panel, each series a little below the one before, numbers of single seeds as dots."""
    step = 0.8 / (len(series) + 1)

    def where(cell: Cell) -> tuple[float, str, str]:
        turn = series.index(getattr(cell, chart.series))
        return lines.index(getattr(cell, chart.along)) - 0.4 + step * (turn + 1), *_select_marker(turn)

    for line in range(1, len(lines)):
        panel.axhline(line - 0.5, color="#dddddd", linewidth=0.6, zorder=0)
    for cell in single:
        panel.plot([cell.value], [where(cell)[0]], ".", color=SINGLE_COLOUR, markersize=3, zorder=4)
    for cell in cells:
        place, mark, colour = where(cell)
        if cell.value is not None:
            low, high = _compute_error_bar(cell, chart)
            if low is not None and high is not None:
                panel.plot([low, high], [place, place], color=colour, linewidth=1.2, zorder=2)
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


def _compute_error_bar(cell: Cell, chart: Chart) -> tuple[float | None, float | None]:
    """Ends of the bar through a number: its interval, or one deviation over seeds to either side."""
    if not chart.over_seeds:
        return cell.ci_low, cell.ci_high
    if cell.value is None or cell.sd is None:
        return None, None
    return cell.value - cell.sd, cell.value + cell.sd


def _draw_legend(
    cells: Sequence[Cell], chart: Chart, series: Sequence[str], label: Callable[[str, str], str]
) -> list[Line2D]:
    handles = []
    for turn, name in enumerate(() if chart.series in chart.panels else series):
        mark, colour = _select_marker(turn)
        handles.append(Line2D([], [], marker=mark, color=colour, linestyle="", label=label(chart.series, name)))
    if any(cell.published is not None for cell in cells):
        handles.append(
            Line2D([], [], marker="o", color="#444444", markerfacecolor="none", linestyle="", label="hollow: printed")
        )
    return handles


def _select_marker(turn: int) -> tuple[str, str]:
    return MARKS[turn % len(MARKS)], COLOURS[turn % len(COLOURS)]
