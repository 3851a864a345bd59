"""Findings about the measures: the pages say what the committed numbers say."""

import json
from pathlib import Path

import numpy as np
import pytest

from tools.renew_findings.charts import Chart, draw_chart
from tools.renew_findings.findings import (
    Finding,
    Source,
    collect_findings,
    format_number,
)
from tools.renew_findings.page_charts import PAGE_CHARTS
from tools.renew_findings.pages import (
    MARK,
    PAGES,
    SUMMARY,
    list_texts,
    update_page,
)
from waltz.core.errors import UserError
from waltz.core.measure import Measure
from waltz.core.schema import MeasurementRecord

DOCS = Path(__file__).parents[2] / "docs"
SOURCE = Source("bias", "error", "clip", "permutations", "10", decimals=1)
ROW = MeasurementRecord(
    measurement="bias",
    quantity="error",
    model="clip",
    factor="permutations",
    level="10",
    measure=Measure(2.4444, 3, -0.04, 1234.5),
)


def read_committed(name: str) -> dict[str, Finding]:
    """Return the committed numbers of a page."""
    file = DOCS / "explanation" / f"{name}.json"
    entries = json.loads(file.read_text(encoding="utf-8"))
    return {key: Finding(**entry) for key, entry in entries.items()}


def read_marks(name: str) -> list[tuple[str, str]]:
    """Return the marks of a page, each with its text."""
    return MARK.findall(
        (DOCS / "explanation" / f"{name}.md").read_text(encoding="utf-8")
    )


@pytest.mark.parametrize("name", PAGES)
def test_a_page_states_every_committed_number(name):
    committed = read_committed(name)
    stated = read_marks(name)
    texts = list_texts(committed)
    assert [text for _, text in stated] == [texts[mark] for mark, _ in stated]
    assert committed.keys() <= dict(stated).keys()
    assert committed.keys() == PAGES[name].keys()
    for key, finding in committed.items():
        decimals = PAGES[name][key].decimals
        ends = finding.ci_low, finding.ci_high
        if finding.value is None:
            assert finding.text == PAGES[name][key].undefined != ""
        else:
            assert finding.text == format_number(finding.value, *ends, decimals)


def test_the_summary_states_numbers_of_the_other_pages():
    texts: dict[str, str] = {}
    for name in PAGES:
        texts |= list_texts(read_committed(name))
    stated = read_marks(SUMMARY)
    assert stated
    assert [text for _, text in stated] == [texts[mark] for mark, _ in stated]


def test_numbers_of_items_and_of_intervals_have_marks():
    findings = {
        "error": Finding("2.4 [2.0, 3.0]", 2.4, 2.0, 3.0, 1200),
        "exact": Finding("50.0", 50.0, None, None, 1),
    }
    texts = list_texts(findings)
    assert texts["n:error"] == "1,200"
    assert texts["intervals"] == "1"


def test_numbers_are_found_by_their_source():
    findings = collect_findings([ROW], {"error": SOURCE})
    assert findings == {
        "error": Finding("2.4 [0.0, 1,234.5]", 2.4444, -0.04, 1234.5, 3)
    }
    with pytest.raises(UserError, match="bias: no number for 'error'"):
        collect_findings([], {"error": SOURCE})


def test_a_page_gets_new_numbers_at_its_marks():
    page = "It is <!-- a b -->1.0<!-- end -->, not <!-- c -->2<!-- end -->."
    assert update_page(page, {"a b": "3.0 [2.0, 4.0]"}) == (
        "It is <!-- a b -->3.0 [2.0, 4.0]<!-- end -->, not <!-- c -->2<!-- end -->."
    )


@pytest.mark.parametrize(
    ("page", "name"),
    [(page, name) for page, charts in PAGE_CHARTS.items() for name in charts],
)
def test_a_page_shows_its_charts_and_each_row_and_series_has_numbers(page, name):
    assert f"](../images/{name}.png)" in (
        DOCS / "explanation" / f"{page}.md"
    ).read_text(encoding="utf-8")
    assert (DOCS / "images" / f"{name}.png").is_file()
    chart = PAGE_CHARTS[page][name]
    for key in chart.rows.values():
        assert any(
            pattern.format(key) in PAGES[page] for pattern in chart.series.values()
        )
    for pattern in chart.series.values():
        assert any(pattern.format(key) in PAGES[page] for key in chart.rows.values())


def test_a_chart_has_a_point_and_an_interval_for_each_number():
    numbers = {
        "error_a": Finding("2", 2.0, 1.0, 4.0, 3),
        "error_b": Finding("3", 3.0, None, None, 3),
        "bias_b": Finding("-1", -1.0, -2.0, 0.0, 3),
    }
    chart = Chart(
        "points",
        {"first": "a", "second": "b"},
        {"error": "error_{}", "bias": "bias_{}"},
        reference=0,
    )
    (axes,) = draw_chart(chart, numbers).axes
    lines = [np.ravel(line.get_xdata()).tolist() for line in axes.lines]
    assert lines == [[0, 0], [2.0, 3.0], [1.0, 4.0], [-1.0], [-2.0, 0.0]]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["first", "second"]
    assert axes.get_xlabel() == "points"
