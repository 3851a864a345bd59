"""The page about calibration says what the committed numbers say."""

import json
from pathlib import Path

from waltz.measures.calibration_findings import CALIBRATION_FINDINGS, MARK, format_number

DOCS = Path(__file__).parents[2] / "docs" / "explanation"


def test_the_page_states_every_committed_number():
    committed = json.loads((DOCS / "calibration.json").read_text(encoding="utf-8"))
    stated = MARK.findall((DOCS / "calibration.md").read_text(encoding="utf-8"))
    assert {name: finding["text"] for name, finding in committed.items()} == dict(stated)
    assert committed.keys() == CALIBRATION_FINDINGS.keys()
    for name, finding in committed.items():
        assert finding["text"] == format_number(finding, CALIBRATION_FINDINGS[name].decimals)
