"""Findings about the measures: the numbers that docs/explanation/measures.md states, from the files of a study.

Run `python -m waltz.measures.findings results/measures/measures docs` after a new run: it writes
`explanation/measures.json`, the numbers of the page, and its figure.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.atomic import write_text
from waltz.core.schema import MEASURES

Row = Mapping[str, Any]
MARK = re.compile(r"<!-- ([^>]+) -->([^<]*)<!-- end -->")
"""A number of the page, between its name and the end."""


@dataclass(frozen=True)
class Place:
    """Place of a number among the measurements.

    Attributes:
        measurement: Name of its file, without the ending.
        quantity: As in the layout `MEASURES`, like the fields after it but the last.
        decimals: Decimals in the text.
    """

    measurement: str
    quantity: str
    model: str = ""
    factor: str = ""
    level: str = ""
    dataset: str = ""
    decimals: int = 1


CLIP, MATCHER, LLAVA = "scenes-clip", "scenes-matcher", "scenes-llava"
ESTIMATOR = "estimator, 10 permutations"
FINDINGS: dict[str, Place] = {
    **{
        f"bias_{quantity}_{level}": Place("bias", quantity, CLIP, "permutations", level)
        for level in ("2", "10", "100")
        for quantity in ("bias_towards_players", "bias_corrected", "error", "error_corrected", "covered")
    },
    "bias_evaluations": Place("bias", "evaluations_for_1_point", CLIP, decimals=0),
    **{
        f"estimator_{quantity}_{level}": Place("bias", quantity, CLIP, ESTIMATOR, level)
        for level in ("permutation", "KernelSHAP", "UnbiasedKernelSHAP", "SVARM")
        for quantity in ("bias_towards_players", "error")
    },
    **{
        f"ruler_{model}_{level}": Place("ground_truth", "absolute_error", model, "estimator", level)
        for model in ("ruler-0", "ruler-50", "ruler-100")
        for level in ("permutation", "KernelSHAP", "UnbiasedKernelSHAP", "SVARM")
    },
    **{
        f"ordered_{level}": Place("ground_truth", "ordered", "", "estimator", level, decimals=0)
        for level in ("permutation", "KernelSHAP", "UnbiasedKernelSHAP", "SVARM")
    },
    **{
        f"game_{name}": Place("ground_truth", "t_shap", name, "players", "4 tokens, 8 patches")
        for name in ("additive", "cancelling", "saturated text", "parity of text", "conjunction", "disjunction")
    },
    **{
        f"control_{model}_{level}": Place("controls", "t_shap", model, "control", level)
        for model in (CLIP, MATCHER)
        for level in ("none", "other image", "random weights", "share of players")
    },
    **{
        f"control_difference_{model}": Place("controls", "t_shap_difference", model, "control", "other image")
        for model in (CLIP, MATCHER)
    },
    **{
        f"floor_{kind}_{level}": Place("controls", "cc_shap", LLAVA, f"control, {kind}", level, decimals=2)
        for kind in ("post-hoc", "cot")
        for level in ("none", "other explanation", "shuffled players")
    },
    **{
        f"choice_{model}_{level}": Place("multiverse", "t_shap_difference", model, factor, level)
        for model in (CLIP, MATCHER)
        for factor, level in (
            ("masked patch", "black"),
            ("masked token", "id 0"),
            ("grid", "2 x 2"),
            ("grid", "6 x 6"),
            ("players", "special tokens"),
            ("players", "words"),
            ("profile", "published"),
            ("estimator", "SVARM"),
        )
    },
    **{
        f"order_{model or 'models'}_{factor}": Place("multiverse", "kendall_tau", model, factor, "all", decimals=2)
        for model in ("", CLIP, MATCHER)
        for factor in ("one at a time", "cross")
    },
    **{
        f"fault_{quantity}_{level}": Place(
            "released_faults", quantity, LLAVA, "fault", level, decimals=2 if quantity.startswith("cc_shap") else 1
        )
        for level in ("first step only", "suffix by count", "end token explained", "special tokens play")
        for quantity in ("cc_shap_absolute_difference", "t_shap_answer_difference", "t_shap_answer_absolute_difference")
    },
}
"""Numbers of the page by name."""


def collect_findings(rows: Iterable[Row], places: Mapping[str, Place] = FINDINGS) -> dict[str, dict[str, Any]]:
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
            raise UserError(f"{place.measurement}: no number for {name!r} ({place}); run the study measures as a whole")
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


def read_measurements(folder: Path) -> list[Row]:
    """Return the rows of all measurements in a folder."""
    return [row for file in sorted(folder.glob("*.parquet")) for row in parquet.read_rows(file, MEASURES)]


def update_page(page: str, texts: Mapping[str, str]) -> str:
    """Return a page with new numbers between the marks `<!-- name -->` and `<!-- end -->`."""
    return MARK.sub(lambda found: f"<!-- {found[1]} -->{texts.get(found[1], found[2])}<!-- end -->", page)


def draw_bias(rows: Iterable[Row], file: Path) -> None:
    """Draw bias and error of raw and corrected T-SHAP by number of permutations, with intervals, as PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 2.8), layout="constrained")
    drawn = [row for row in rows if (row["measurement"], row["factor"]) == ("bias", "permutations")]
    for axes, quantity in zip(figure.subplots(1, 2), ("bias", "error"), strict=True):
        for suffix, label in (("", "raw"), ("_corrected", "corrected")):
            points = [row for row in drawn if row["quantity"] == quantity + suffix]
            counts = [int(row["level"]) for row in points]
            axes.plot(counts, [row["value"] for row in points], marker="o", label=label)
            axes.fill_between(counts, [row["ci_low"] for row in points], [row["ci_high"] for row in points], alpha=0.2)
        axes.set_xscale("log")
        axes.set_xlabel("permutations")
        axes.set_ylabel(f"{quantity} of T-SHAP (points)")
        axes.axhline(0, color="0.6", linewidth=0.8)
        axes.legend()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120, metadata={"Software": None})


def main(results: Path, docs: Path) -> None:
    """Write the findings of a study, and the page and figure that show them.

    Args:
        results: Folder of the measurements.
        docs: Folder of the documentation.
    """
    rows = read_measurements(results)
    findings = collect_findings(rows)
    write_text(docs / "explanation" / "measures.json", json.dumps(findings, indent=1) + "\n")
    page = docs / "explanation" / "measures.md"
    texts = {name: finding["text"] for name, finding in findings.items()}
    write_text(page, update_page(page.read_text(encoding="utf-8"), texts))
    draw_bias(rows, docs / "images" / "measures-bias.png")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
