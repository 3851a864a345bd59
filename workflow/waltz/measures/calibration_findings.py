"""Findings about self-consistency tests, CC-SHAP and benchmarks: the numbers of docs/explanation/calibration.md.

Run `python -m waltz.measures.calibration_findings results/measures/measures docs` after a new run.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waltz.consistency.edit_tests.tests import TESTS
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.atomic import write_text
from waltz.core.schema import MEASURES
from waltz.measures.calibration import CC_SHAP, name_rate
from waltz.measures.constructed import DECODERS

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
FILTERS = {
    "existence": "none",
    "plurality": "grammaticality, contradiction",
    "counting-balanced": "none",
    "counting-adversarial": "none",
    "action-replacement": "ranking",
    "actant-swap": "ranking",
    "foil-it": "none",
    "all": "",
}
"""Filters of data sets, as levels of the measurement of plausibility; those of all together are not named."""
ITEMS = {
    "existence": (250, 505),
    "plurality": (338, 851),
    "counting-balanced": (297, 868),
    "foil-it": (447, 943),
    "action-replacement": (27, 648),
}
"""Number of items of data sets here, and of VALSE as released."""
CALIBRATION_FINDINGS: dict[str, Place] = {
    **{
        f"calibration_{test}_{decoder.name}": Place(
            "calibration", name_rate(decoder), decoder.name, "equations", test, "comve", decimals=0
        )
        for test in (*TESTS, CC_SHAP)
        for decoder in DECODERS
        if test != CC_SHAP or decoder.reads == ("reasoning" if decoder.faithful else "input")
    },
    "calibration_published_input_from_explanation_faithful": Place(
        "calibration", "specificity", "faithful", "published", "input_from_explanation", "comve", decimals=0
    ),
    **{
        f"cc_shap_equations_{decoder.name}": Place(
            "calibration", "cc_shap", decoder.name, "equations", CC_SHAP, "comve", decimals=2
        )
        for decoder in DECODERS
        if decoder.reads == ("reasoning" if decoder.faithful else "input")
    },
    "cc_shap_background_faithful": Place(
        "calibration", "cc_shap", "faithful", "equations", "cc_shap, background 0.1", "comve", decimals=2
    ),
    "cc_shap_published_faithful": Place(
        "calibration", "cc_shap", "faithful", "published", CC_SHAP, "comve", decimals=2
    ),
    "auroc_equations_fixed text": Place("calibration", "auroc", "fixed text", "equations", CC_SHAP, "comve"),
    "auroc_background_1_fixed text": Place(
        "calibration", "auroc", "fixed text", "equations", "cc_shap, background 1", "comve"
    ),
    "auroc_published_background_1_fixed text": Place(
        "calibration", "auroc", "fixed text", "published", "cc_shap, background 1", "comve"
    ),
    **{
        f"ceiling_{quantity}_{level}": Place(
            "ceiling", quantity, LLAVA, "permutations", level, decimals=0 if "share" in quantity else 2
        )
        for quantity in (
            "cc_shap",
            "cc_shap crossed",
            "retest of answer",
            "retest of explanation",
            "ceiling",
            "share of ceiling",
        )
        for level in ("1", "2", "4", "8")
    },
    **{
        f"plausibility_lm_{dataset}": Place(
            "plausibility", "acc_r", "scenes-causal-lm", "filters" if filters else "", filters, dataset, decimals=0
        )
        for dataset, filters in FILTERS.items()
    },
    **{
        f"plausibility_{name}_{dataset}": Place("plausibility", "acc_r", model, dataset=dataset, decimals=0)
        for name, model in (("clip", CLIP), ("matcher", MATCHER))
        for dataset in FILTERS
    },
    **{
        f"plausibility_equal_{name}_{dataset}": Place(
            "plausibility", "acc_r at equal likelihood", model, dataset=dataset, decimals=0
        )
        for name, model in (("clip", CLIP), ("matcher", MATCHER))
        for dataset in FILTERS
        if dataset not in ("counting-adversarial", "actant-swap")
    },
    **{
        f"power_discordant_{dataset}": Place("power", "discordant", f"{CLIP} / {MATCHER}", dataset=dataset, decimals=0)
        for dataset in ITEMS
    },
    **{
        f"power_{name}_{dataset}": Place(
            "power", "acc_r detectable", f"{CLIP} / {MATCHER}", "items", str(count), dataset
        )
        for dataset, counts in ITEMS.items()
        for name, count in zip(("here", "released", "1000"), (*counts, 1000), strict=True)
    },
}
"""Numbers of the page by name."""


def collect_findings(
    rows: Iterable[Row], places: Mapping[str, Place] = CALIBRATION_FINDINGS
) -> dict[str, dict[str, Any]]:
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


def main(results: Path, docs: Path) -> None:
    """Write the findings of a study, and the page that states them.

    Args:
        results: Folder of the measurements.
        docs: Folder of the documentation.
    """
    findings = collect_findings(read_measurements(results))
    write_text(docs / "explanation" / "calibration.json", json.dumps(findings, indent=1) + "\n")
    page = docs / "explanation" / "calibration.md"
    texts = {name: finding["text"] for name, finding in findings.items()}
    write_text(page, update_page(page.read_text(encoding="utf-8"), texts))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
