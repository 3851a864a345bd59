"""Pages of docs/explanation that state findings: their numbers from the files of studies, and
their figures.

A number stands between `<!-- name -->` and `<!-- end -->`. `n:name` is the number of items of a
finding, and `intervals` the number of intervals of the page's findings.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from matplotlib.figure import Figure

from tools.renew_findings import calibration, cc_shap, t_shap
from tools.renew_findings.charts import save_charts
from tools.renew_findings.findings import CONSISTENCY, Finding, collect_findings
from tools.renew_findings.page_charts import PAGE_CHARTS
from waltz.core.files.atomic import write_text
from waltz.core.records import read_records
from waltz.core.schema import MeasurementRecord, MetricRecord

MARK = re.compile(r"<!-- ([^>]+) -->([^<]*)<!-- end -->")
"""A number of the page, between its name and the end."""
PAGES = {
    "measures": t_shap.FINDINGS,
    "calibration": calibration.FINDINGS,
    "cc-shap": cc_shap.FINDINGS,
}
"""Numbers of each page by name."""
SUMMARY = "findings"
"""Page that states numbers of the other pages."""


def renew_pages(docs: Path, *results: Path) -> None:
    """Write the findings of studies, and the pages and figures that show them.

    Args:
        docs: Folder of the documentation.
        results: Folders of the measurements, and files of the metrics of stage consistency.
    """
    rows = read_measurements(results)
    all_texts: dict[str, str] = {}
    for name, sources in PAGES.items():
        findings = collect_findings(rows, sources)
        numbers = {key: asdict(finding) for key, finding in findings.items()}
        write_text(
            docs / "explanation" / f"{name}.json", json.dumps(numbers, indent=1) + "\n"
        )
        texts = list_texts(findings)
        all_texts |= texts
        _renew_page(docs / "explanation" / f"{name}.md", texts)
        save_charts(PAGE_CHARTS[name], findings, docs / "images")
    _renew_page(docs / "explanation" / f"{SUMMARY}.md", all_texts)
    draw_bias(rows, docs / "images" / "measures-bias.png")


def list_texts(findings: Mapping[str, Finding]) -> dict[str, str]:
    """Return the text of each mark of a page: of its findings, of their numbers of items, and the
    number of their intervals.
    """
    texts = {name: finding.text for name, finding in findings.items()}
    texts |= {f"n:{name}": f"{finding.n:,}" for name, finding in findings.items()}
    intervals = [
        name for name, finding in findings.items() if finding.ci_low is not None
    ]
    texts["intervals"] = str(len(intervals))
    return texts


def _renew_page(page: Path, texts: Mapping[str, str]) -> None:
    """Write new numbers into a page."""
    write_text(page, update_page(page.read_text(encoding="utf-8"), texts))


def read_measurements(results: Iterable[Path]) -> list[MeasurementRecord]:
    """Return the rows of all measurements in folders, and of files of metrics."""
    rows: list[MeasurementRecord] = []
    for path in results:
        if path.is_file():
            rows += _read_metrics(path)
        for file in sorted(path.glob("*.parquet")):
            rows += read_records(file, MeasurementRecord)
    return rows


def _read_metrics(file: Path) -> list[MeasurementRecord]:
    """Return the metrics of stage consistency as rows of a measurement."""
    rows = []
    for record in read_records(file, MetricRecord):
        row = MeasurementRecord(
            measurement=CONSISTENCY,
            model=record.model,
            dataset=record.dataset,
            quantity=record.metric,
            measure=record.measure,
        )
        rows.append(row)
    return rows


def update_page(page: str, texts: Mapping[str, str]) -> str:
    """Return a page with new numbers between the marks `<!-- name -->` and `<!-- end -->`."""

    def renew(mark: re.Match[str]) -> str:
        name, old_text = mark[1], mark[2]
        return f"<!-- {name} -->{texts.get(name, old_text)}<!-- end -->"

    return MARK.sub(renew, page)


def draw_bias(rows: Sequence[MeasurementRecord], file: Path) -> None:
    """Draw bias and error of raw and corrected T-SHAP of each model by number of permutations, with
    intervals, as PNG.
    """
    figure = Figure(figsize=(8, 3.4), layout="constrained")
    titles = {
        "bias_towards_players": "bias towards the share of players",
        "error": "error of an item",
    }
    for axes, (quantity, title) in zip(
        figure.subplots(1, 2), titles.items(), strict=True
    ):
        for number, model in enumerate(t_shap.BIAS_MODELS):
            for suffix, label, line in (
                ("", model, "-"),
                ("_corrected", f"{model}, corrected", "--"),
            ):
                key = ("bias", "permutations", quantity + suffix, model)
                points = [
                    row
                    for row in rows
                    if (row.measurement, row.factor, row.quantity, row.model) == key
                ]
                counts = [int(row.level) for row in points]
                values = [row.measure.value for row in points]
                lows = [row.measure.ci_low for row in points]
                highs = [row.measure.ci_high for row in points]
                color = f"C{number}"
                axes.plot(
                    counts, values, line, color=color, marker="o", ms=3, label=label
                )
                if not suffix:
                    axes.fill_between(counts, lows, highs, color=color, alpha=0.15)
        axes.set_xscale("log")
        axes.set_xlabel("permutations")
        axes.set_ylabel("points of T-SHAP")
        axes.set_title(title, fontsize="medium")
        axes.axhline(0, color="0.6", linewidth=0.8)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=7)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120, metadata={"Software": None})
