"""Figures of the pages about measures: the numbers of a finding as points with their intervals."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from matplotlib import style
from matplotlib.figure import Figure

from tools.renew_findings.findings import Finding
from waltz.core.files.resources import locate_in_package

HEIGHT = 0.15
"""Inches of a point with its interval."""
MARKERS = "os^Dv"
"""Markers of the series, in order."""


@dataclass(frozen=True)
class Chart:
    """Describe a chart that shows numbers of a page next to each other.

    Attributes:
        label: What the numbers are, with their unit.
        rows: Names of the rows, top first, as keys that `series` may use.
        series: For each color, the name of the number with `{}` instead of a row's key.
        reference: Value of a line, such as that of chance; None for no line.
    """

    label: str
    rows: Mapping[str, str]
    series: Mapping[str, str]
    reference: float | None = None


def draw_chart(chart: Chart, findings: Mapping[str, Finding]) -> Figure:
    """Draw the numbers of a page as points with intervals, row by row; a number that the page lacks
    leaves a gap.

    Args:
        chart: The chart.
        findings: Numbers of the page by name.
    """
    count = len(chart.series)
    with style.context(locate_in_package("reporting/figures/waltz.mplstyle")):
        figure = Figure(
            figsize=(6.5, HEIGHT * (count + 1) * len(chart.rows) + 0.8),
            layout="constrained",
        )
        axes = figure.subplots()
        if chart.reference is not None:
            axes.axvline(chart.reference, color="0.6", linewidth=0.8)
        for index, (label, pattern) in enumerate(chart.series.items()):
            # The series of one row lie around its center, one below the other.
            offset = (index - (count - 1) / 2) / (count + 1)
            heights = []
            shown = []
            values = []
            for row, key in enumerate(chart.rows.values()):
                finding = findings.get(pattern.format(key))
                if finding is not None and finding.value is not None:
                    heights.append(row + offset)
                    shown.append(finding)
                    values.append(finding.value)
            (points,) = axes.plot(
                values,
                heights,
                marker=MARKERS[index],
                markersize=4,
                linestyle="",
                label=label,
            )
            for height, finding in zip(heights, shown, strict=True):
                if finding.ci_low is not None and finding.ci_high is not None:
                    axes.plot(
                        [finding.ci_low, finding.ci_high],
                        [height, height],
                        color=points.get_color(),
                    )
        axes.set_yticks(range(len(chart.rows)), list(chart.rows))
        axes.set_ylim(len(chart.rows) - 0.5, -0.5)
        axes.set_xlabel(chart.label)
        if count > 1:
            figure.legend(loc="outside upper center", ncols=min(count, 4))
    return figure


def save_charts(
    charts: Mapping[str, Chart], findings: Mapping[str, Finding], folder: Path
) -> None:
    """Write the charts of a page as PNG, named after them."""
    for name, chart in charts.items():
        draw_chart(chart, findings).savefig(
            folder / f"{name}.png", dpi=120, metadata={"Software": None}
        )
