"""Pages of docs/explanation that state findings: their numbers from the files of two studies, and their figures."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.atomic import write_text
from waltz.core.schema import MEASURES
from waltz.measures.findings import calibration, t_shap
from waltz.measures.findings.charts import save_charts
from waltz.measures.findings.page_charts import PAGE_CHARTS
from waltz.measures.findings.place import Place

Row = Mapping[str, Any]
MARK = re.compile(r"<!-- ([^>]+) -->([^<]*)<!-- end -->")
"""A number of the page, between its name and the end."""
PAGES = {"measures": t_shap.FINDINGS, "calibration": calibration.FINDINGS}
"""Numbers of each page by name."""


def collect_findings(rows: Iterable[Row], places: Mapping[str, Place]) -> dict[str, dict[str, Any]]:
    """Return the number at each place, with its interval and as text.

    Raises:
        UserError: A place has no number.
    """
    columns = ("measurement", "quantity", "model", "factor", "level", "dataset")
    by_place = {tuple(row[column] for column in columns): row for row in rows}
    found = {}
    for name, place in places.items():
        row = by_place.get(tuple(getattr(place, column) for column in columns))
        if row is None or row["value"] is None:
            raise UserError(
                f"{place.measurement}: no number for {name!r} ({place}); run the studies measures and valse"
            )
        numbers = {column: row[column] for column in ("value", "ci_low", "ci_high", "n")}
        found[name] = {"text": format_number(row, place.decimals), **numbers}
    return found


def format_number(row: Row, decimals: int) -> str:
    """Return a number with its interval as the page states it, such as `2.4 [2.1, 2.6]`."""
    texts = [
        "" if row[column] is None else f"{round(row[column], decimals) + 0.0:,.{decimals}f}"
        for column in ("value", "ci_low", "ci_high")
    ]
    return f"{texts[0]} [{texts[1]}, {texts[2]}]" if texts[1] else texts[0]


def read_measurements(folders: Iterable[Path]) -> list[Row]:
    """Return the rows of all measurements in folders."""
    files = [file for folder in folders for file in sorted(folder.glob("*.parquet"))]
    return [row for file in files for row in parquet.read_rows(file, MEASURES)]


def update_page(page: str, texts: Mapping[str, str]) -> str:
    """Return a page with new numbers between the marks `<!-- name -->` and `<!-- end -->`."""
    return MARK.sub(lambda found: f"<!-- {found[1]} -->{texts.get(found[1], found[2])}<!-- end -->", page)


def draw_bias(rows: Iterable[Row], file: Path) -> None:
    """Draw bias and error of raw and corrected T-SHAP by number of permutations, with intervals, as PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 2.8), layout="constrained")
    drawn = [row for row in rows if (row["measurement"], row["factor"]) == ("bias", "permutations")]
    titles = {"bias_towards_players": "bias towards the share of players", "error": "error of an item"}
    for axes, (quantity, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        for suffix, label in (("", "raw"), ("_corrected", "corrected")):
            points = [row for row in drawn if row["quantity"] == quantity + suffix]
            counts = [int(row["level"]) for row in points]
            axes.plot(counts, [row["value"] for row in points], marker="o", label=label)
            axes.fill_between(counts, [row["ci_low"] for row in points], [row["ci_high"] for row in points], alpha=0.2)
        axes.set_xscale("log")
        axes.set_xlabel("permutations")
        axes.set_ylabel("points of T-SHAP")
        axes.set_title(title, fontsize="medium")
        axes.axhline(0, color="0.6", linewidth=0.8)
        axes.legend()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120, metadata={"Software": None})


def renew_pages(docs: Path, *results: Path) -> None:
    """Write the findings of studies, and the pages and figures that show them.

    Args:
        docs: Folder of the documentation.
        results: Folders of the measurements.
    """
    rows = read_measurements(results)
    for name, places in PAGES.items():
        findings = collect_findings(rows, places)
        write_text(docs / "explanation" / f"{name}.json", json.dumps(findings, indent=1) + "\n")
        page = docs / "explanation" / f"{name}.md"
        texts = {finding: entry["text"] for finding, entry in findings.items()}
        write_text(page, update_page(page.read_text(encoding="utf-8"), texts))
        save_charts(PAGE_CHARTS[name], findings, docs / "images")
    draw_bias(rows, docs / "images" / "measures-bias.png")
