"""Findings about the measures: the pages say what the committed numbers say."""

import json
from pathlib import Path

import numpy as np
import pytest

from waltz.core.errors import UserError
from waltz.measures.findings.charts import Chart, draw_chart
from waltz.measures.findings.page_charts import PAGE_CHARTS
from waltz.measures.findings.pages import MARK, PAGES, collect_findings, format_number, update_page
from waltz.measures.findings.place import Place

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


@pytest.mark.parametrize(("page", "name"), [(page, name) for page, charts in PAGE_CHARTS.items() for name in charts])
def test_a_page_shows_its_charts_and_each_row_and_series_has_numbers(page, name):
    assert f"](../images/{name}.png)" in (DOCS / "explanation" / f"{page}.md").read_text(encoding="utf-8")
    assert (DOCS / "images" / f"{name}.png").is_file()
    chart = PAGE_CHARTS[page][name]
    for key in chart.rows.values():
        assert any(pattern.format(key) in PAGES[page] for pattern in chart.series.values())
    for pattern in chart.series.values():
        assert any(pattern.format(key) in PAGES[page] for key in chart.rows.values())


def test_a_chart_has_a_point_and_an_interval_for_each_number():
    numbers = {
        "error_a": {"value": 2.0, "ci_low": 1.0, "ci_high": 4.0},
        "error_b": {"value": 3.0, "ci_low": None, "ci_high": None},
        "bias_b": {"value": -1.0, "ci_low": -2.0, "ci_high": 0.0},
    }
    chart = Chart("points", {"first": "a", "second": "b"}, {"error": "error_{}", "bias": "bias_{}"}, reference=0)
    (axes,) = draw_chart(chart, numbers).axes
    lines = [np.ravel(line.get_xdata()).tolist() for line in axes.lines]
    assert lines == [[0, 0], [2.0, 3.0], [1.0, 4.0], [-1.0], [-2.0, 0.0]]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["first", "second"]
    assert axes.get_xlabel() == "points"
