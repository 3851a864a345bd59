"""Charts of table cells: our numbers with their intervals, paper values as hollow markers.

A chart shows only what is in a table's CSV. Series differ in shape and colour, so that no colours are needed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from waltz.reporting.figures.chart_declarations import Chart
from waltz.reporting.figures.figure_files import STYLE
from waltz.reporting.tables.cells import Cell
from waltz.reporting.tables.declaration import SETTING_SEPARATOR, STYLES

MARKERS = "osD^vP*Xh<>8"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#999999")
"""Okabe and Ito's palette, darkest contrasts first."""
PANEL_WIDTH, LINE, HEAD = 3.1, 0.15, 1.1
"""Inches: width of a panel, height of one series' marker, height of headings and axis."""
COLUMNS = 4
"""Largest number of panels in a row."""
SINGLE_COLOUR = "#222222"
"""Colour of the dots of single seeds."""
SEVERAL_SEEDS = "Dots: single seeds. Bars: one standard deviation over seeds to either side of the mean."
ONE_SEED = "One seed was run, so there is no deviation."
CHANCE_MODEL = "random"
"""Model name of the papers' rows with the chance level."""


def select_cells(chart: Chart, cells: Sequence[Cell], profile: str) -> list[Cell]:
    """Return the cells of one profile that a chart shows, in its order: those with a number or a paper value."""
    selected = [
        cell
        for cell in cells
        if cell.profile == profile
        and cell.table in chart.tables
        and cell.model != CHANCE_MODEL
        and (cell.value is not None or cell.paper_value is not None)
        and all(getattr(cell, name) in values for name, values in chart.selection.items())
    ]
    orders = [
        (name, {value: position for position, value in enumerate(values)}) for name, values in chart.selection.items()
    ]
    return sorted(selected, key=lambda cell: [order[getattr(cell, name)] for name, order in orders])


def draw_chart(chart: Chart, cells: Sequence[Cell], profile: str) -> Figure:
    """Draw a chart; without any cell, the figure says why it is empty."""
    selected = select_cells(chart, cells, profile)
    averages, single = _split_by_seed(selected) if chart.over_seeds else (selected, [])
    panels = list(dict.fromkeys(_name_panel(chart, cell) for cell in [*averages, *single]))
    rows = list(dict.fromkeys(getattr(cell, chart.rows) for cell in [*averages, *single]))
    series = list(dict.fromkeys(getattr(cell, chart.series) for cell in [*averages, *single]))
    columns = min(max(1, len(panels)), COLUMNS)
    panel_rows = -(-max(1, len(panels)) // COLUMNS)
    height = HEAD + LINE * max(4, len(rows) * (len(series) + 1))
    with style.context(STYLE):
        figure = Figure(figsize=(1.6 + PANEL_WIDTH * columns, 0.5 + height * panel_rows), layout="constrained")
        title = f"{chart.title} ({chart.figures}, profile {profile})"
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        axes = list(figure.subplots(panel_rows, columns, sharex=not chart.units, sharey=True, squeeze=False).flat)
        first_by_unit: dict[str, Any] = {}
        for panel, name in zip(axes, panels, strict=False):
            in_panel, dots = (
                [cell for cell in part if _name_panel(chart, cell) == name] for part in (averages, single)
            )
            _draw_panel(panel, in_panel, dots, chart, rows, series)
            values = dict(zip(chart.panels, name, strict=True))
            panel.set_title(", ".join(map(_get_label, name)))
            unit = chart.units.get(values.get("metric", ""), chart.unit)
            panel.set_xlabel(unit)
            if panel is not first_by_unit.setdefault(unit, panel) and chart.units:
                panel.sharex(first_by_unit[unit])
            panel.set_yticks(range(len(rows)), list(map(_get_label, rows)))
            panel.set_ylim(len(rows) - 0.5, -0.5)
        for position in range(len(panels), len(axes)):
            axes[position].set_axis_off()
            axes[position - columns].tick_params(labelbottom=True)
        if not panels:
            figure.text(0.5, 0.4, _explain_empty(chart, cells, profile), ha="center", fontsize=8, wrap=True)
        elif handles := _draw_legend(averages, chart, series):
            look: dict[str, Any] = {"loc": "outside lower left", "ncols": min(4, len(handles)), "alignment": "left"}
            figure.legend(handles=handles, title=_format_note(chart, averages) or None, title_fontsize=8, **look)
    return figure


def _get_label(value: str) -> str:
    """Return the text that stands for a value of a field."""
    return STYLES[value].heading if value in STYLES else value.replace("_", " ")


def _split_by_seed(cells: Sequence[Cell]) -> tuple[list[Cell], list[Cell]]:
    """Return means over seeds, and the numbers of single seeds, if several, with the settings of their means."""
    single = [cell for cell in cells if f"{SETTING_SEPARATOR}seed " in cell.setting]
    several = len({cell.setting.partition(SETTING_SEPARATOR)[2] for cell in single}) > 1
    dots = [replace(cell, setting=cell.setting.partition(SETTING_SEPARATOR)[0]) for cell in single if several]
    return [cell for cell in cells if SETTING_SEPARATOR not in cell.setting], dots


def _name_panel(chart: Chart, cell: Cell) -> tuple[str, ...]:
    """Return the values that name the panel of a cell."""
    return tuple(getattr(cell, field) for field in chart.panels)


def _explain_empty(chart: Chart, cells: Sequence[Cell], profile: str) -> str:
    """Return the reason why there is nothing to draw."""
    missing = [cell for cell in cells if cell.profile == profile and cell.table in chart.tables and cell.value is None]
    reasons = Counter(cell.reason for cell in missing if cell.reason)
    suffix = f":\n{reasons.most_common(1)[0][0]}" if reasons else ""
    return f"no cell of its tables has a number{suffix}"


def _format_note(chart: Chart, cells: Sequence[Cell]) -> str:
    """Return the remark that a reader needs; for numbers over seeds, the meaning of the bars."""
    if not chart.over_seeds:
        return chart.note
    several = any(cell.sd is not None for cell in cells)
    return SEVERAL_SEEDS if several else ONE_SEED


def _draw_panel(
    panel: Any,
    cells: Sequence[Cell],
    single: Sequence[Cell],
    chart: Chart,
    rows: Sequence[str],
    series: Sequence[str],
) -> None:
    """Draw the cells of one panel, each series a little below the previous one, numbers of single seeds as dots."""
    step = 0.8 / (len(series) + 1)

    def get_position(cell: Cell) -> tuple[float, str, str]:
        number = series.index(getattr(cell, chart.series))
        return rows.index(getattr(cell, chart.rows)) - 0.4 + step * (number + 1), *_select_marker(number)

    for row in range(1, len(rows)):
        panel.axhline(row - 0.5, color="#dddddd", linewidth=0.6, zorder=0)
    for cell in single:
        panel.plot([cell.value], [get_position(cell)[0]], ".", color=SINGLE_COLOUR, markersize=3, zorder=4)
    for cell in cells:
        y, marker, colour = get_position(cell)
        if cell.value is not None:
            low, high = _compute_error_bar(cell, chart)
            if low is not None and high is not None:
                panel.plot([low, high], [y, y], color=colour, linewidth=1.2, zorder=2)
            panel.plot([cell.value], [y], marker, color=colour, markersize=5, zorder=3)
        if cell.paper_value is not None:
            panel.plot(
                [cell.paper_value],
                [y],
                marker,
                color=colour,
                markersize=6,
                markerfacecolor="none",
                zorder=4,
                clip_on=False,
            )


def _compute_error_bar(cell: Cell, chart: Chart) -> tuple[float | None, float | None]:
    """Return the ends of the bar through a number: its interval, or one deviation over seeds to either side."""
    if not chart.over_seeds:
        return cell.ci_low, cell.ci_high
    if cell.value is None or cell.sd is None:
        return None, None
    return cell.value - cell.sd, cell.value + cell.sd


def _draw_legend(cells: Sequence[Cell], chart: Chart, series: Sequence[str]) -> list[Line2D]:
    """Return the legend's entries: one for each series, and one for paper values."""
    handles = []
    for number, name in enumerate(() if chart.series in chart.panels else series):
        marker, colour = _select_marker(number)
        handles.append(Line2D([], [], marker=marker, color=colour, linestyle="", label=_get_label(name)))
    if any(cell.paper_value is not None for cell in cells):
        handles.append(
            Line2D(
                [], [], marker="o", color="#444444", markerfacecolor="none", linestyle="", label="hollow: paper value"
            )
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
    """Draw how often each word occurs in captions and in foils, before and after validation.

    Args:
        counts: Rows of the frequencies layout, of one data set and one kind.
    Returns:
        Two panels of horizontal bars: all items, valid items. Words are those most frequent in all items.
    """
    frame = pd.DataFrame(list(counts), columns=["items", "side", "word", "count"])
    table = frame.pivot_table(index="word", columns=["items", "side"], values="count", aggfunc="sum", fill_value=0)
    columns = pd.MultiIndex.from_product([["all", "valid"], ["caption", "foil"]])
    table = table.reindex(columns=columns, fill_value=0)
    order = sorted(table.index, key=lambda word: (-int(table.loc[word, "all"].sum()), word))
    words = order[:WORDS]
    with style.context(STYLE):
        figure = Figure(figsize=(8, 0.9 + 0.24 * max(len(words), 3)))
        axes = figure.subplots(1, 2, sharey=True, sharex=True)
        for panel, items, heading in zip(
            axes, ("all", "valid"), ("before validation", "after validation"), strict=True
        ):
            _draw_bars(panel, table.loc[words].xs(items, axis="columns"), heading)
        axes[0].set_yticks(range(len(words)), words)
        axes[0].invert_yaxis()
        handles, names = axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="upper right", ncols=2)
        rest = f" ({len(words)} of {len(order)} words)" if len(order) > len(words) else ""
        figure.suptitle(f"{title}{rest}", x=0.01, ha="left", fontsize=11)
        figure.tight_layout()
    return figure


def _draw_bars(panel: Any, counts: Any, heading: str) -> None:
    """Draw the counts of captions and foils as horizontal bars."""
    for offset, side, colour in ((-0.2, "caption", CAPTION), (0.2, "foil", FOIL)):
        positions = [row + offset for row in range(len(counts))]
        panel.barh(positions, counts[side], height=0.4, color=colour, label=f"{side}s")
    panel.set_title(heading)
    panel.set_xlabel("count")
