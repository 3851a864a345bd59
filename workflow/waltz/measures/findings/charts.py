"""Figures of the pages about measures: the numbers of a finding as points with their intervals."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib import style
from matplotlib.figure import Figure

from waltz.core.files.resources import locate_in_package

HEIGHT = 0.15
"""Inches of a point with its interval."""
MARKERS = "os^Dv"
"""Markers of the series, in order."""


@dataclass(frozen=True)
class Chart:
    """Numbers of a page next to each other.

    Attributes:
        label: What the numbers are, with their unit.
        rows: Names of the rows, top first, as keys that `series` may use.
        series: For each colour, the name of the number with `{}` in the place of a row's key.
        reference: Value of a line, such as that of chance; None for no line.
    """

    label: str
    rows: Mapping[str, str]
    series: Mapping[str, str]
    reference: float | None = None


def draw_chart(chart: Chart, findings: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Draw the numbers of a page as points with intervals, row by row; a number that the page lacks leaves a gap.

    Args:
        findings: Numbers of the page by name, as `findings.collect_findings` returns them.
    """
    count = len(chart.series)
    with style.context(locate_in_package("reporting/figures/waltz.mplstyle")):
        figure = Figure(figsize=(6.5, HEIGHT * (count + 1) * len(chart.rows) + 0.8), layout="constrained")
        axes = figure.subplots()
        if chart.reference is not None:
            axes.axvline(chart.reference, color="0.6", linewidth=0.8)
        for place, (name, pattern) in enumerate(chart.series.items()):
            numbered = [
                (row + (place - (count - 1) / 2) / (count + 1), findings[pattern.format(key)])
                for row, key in enumerate(chart.rows.values())
                if pattern.format(key) in findings
            ]
            (points,) = axes.plot(
                [number["value"] for _, number in numbered],
                [height for height, _ in numbered],
                marker=MARKERS[place],
                markersize=4,
                linestyle="",
                label=name,
            )
            for height, number in numbered:
                if number["ci_low"] is not None:
                    axes.plot([number["ci_low"], number["ci_high"]], [height, height], color=points.get_color())
        axes.set_yticks(range(len(chart.rows)), list(chart.rows))
        axes.set_ylim(len(chart.rows) - 0.5, -0.5)
        axes.set_xlabel(chart.label)
        if count > 1:
            figure.legend(loc="outside upper center", ncols=min(count, 4))
    return figure


def save_charts(charts: Mapping[str, Chart], findings: Mapping[str, Mapping[str, Any]], folder: Path) -> None:
    """Write the charts of a page as PNG, named after them."""
    for name, chart in charts.items():
        draw_chart(chart, findings).savefig(folder / f"{name}.png", dpi=120, metadata={"Software": None})
