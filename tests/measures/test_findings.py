"""Findings about the measures: the pages say what the committed numbers say."""

import json
from pathlib import Path

import pytest

from waltz.core.errors import UserError
from waltz.measures.finding import Place
from waltz.measures.findings import MARK, PAGES, collect_findings, format_number, update_page

DOCS = Path(__file__).parents[2] / "docs"
PLACE = Place("bias", "error", "clip", "permutations", "10", decimals=1)
ROW = {"measurement": "bias", "quantity": "error", "model": "clip", "factor": "permutations", "level": "10"}
NUMBER = {"value": 2.4444, "ci_low": -0.04, "ci_high": 1234.5, "n": 3, "dataset": ""}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_states_every_committed_number(name):
    committed = json.loads((DOCS / "explanation" / f"{name}.json").read_text(encoding="utf-8"))
    stated = MARK.findall((DOCS / "explanation" / f"{name}.md").read_text(encoding="utf-8"))
    assert {finding: entry["text"] for finding, entry in committed.items()} == dict(stated)
    assert committed.keys() == PAGES[name].keys()
    for finding, entry in committed.items():
        assert entry["text"] == format_number(entry, PAGES[name][finding].decimals)


def test_numbers_are_found_by_their_place():
    found = collect_findings([{**ROW, **NUMBER}], {"error": PLACE})
    assert found == {
        "error": {"text": "2.4 [0.0, 1,234.5]", "value": 2.4444, "ci_low": -0.04, "ci_high": 1234.5, "n": 3}
    }
    with pytest.raises(UserError, match="bias: no number for 'error'"):
        collect_findings([], {"error": PLACE})


def test_a_page_gets_new_numbers_at_its_marks():
    page = "It is <!-- a b -->1.0<!-- end -->, not <!-- c -->2<!-- end -->."
    assert update_page(page, {"a b": "3.0 [2.0, 4.0]"}) == (
        "It is <!-- a b -->3.0 [2.0, 4.0]<!-- end -->, not <!-- c -->2<!-- end -->."
    )
