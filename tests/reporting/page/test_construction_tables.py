"""Tables of the page about how the benchmark was built."""

from stand_ins.page_rows import build_frame, list_rows
from waltz.core.schema import (
    AuditRecord,
    FunnelRecord,
    OracleRecord,
    ProbeCaptionRecord,
    ProbeRecord,
)
from waltz.reporting.page.construction_tables import (
    make_audit_table,
    make_conditions_table,
    make_funnel_table,
    make_oracle_table,
)


def step(name, count, lost=()):
    return {
        "instrument": "relations",
        "step": name,
        "count": count,
        "lost": [{"reason": reason, "count": number} for reason, number in lost],
    }


def test_the_funnel_shows_counts_reasons_and_both_distances():
    rows = [
        step("candidates", 1200),
        step("attested", 900, [("not attested", 300)]),
        step("valid", 880),
    ]
    table = make_funnel_table(
        build_frame(rows, FunnelRecord), {"relations": 0.05}, {"relations": 0.083}
    )
    assert table.header == (
        "instrument",
        "candidates",
        "attested",
        "valid",
        "JS",
        "JS in the thesis",
    )
    assert list_rows(table) == (("relations", "1,200", "900", "880", "0.050", "0.083"),)
    assert table.remarks == ("relations: 300 not attested",)


def share(candidates, metric, value, low, high, n=100):
    return {
        "instrument": "relations",
        "candidates": candidates,
        "metric": metric,
        "value": value,
        "n": n,
        "ci_low": low,
        "ci_high": high,
        "reason": None if n else "there is no such candidate",
    }


def test_the_oracle_says_whether_a_filter_helps():
    rows = [
        share("attested", "foils_false", 80.0, 78.0, 82.0),
        share("attested", "foils_in_grammar", 90.0, 88.0, 92.0),
        share("attested", "foils_decided", 90.0, 88.0, 92.0),
        share("contradicting", "foils_false", 95.0, 93.0, 97.0),
        share("contradicting", "foils_in_grammar", 90.0, 88.0, 92.0),
        share("contradicting", "foils_decided", 90.0, 88.0, 92.0),
        share("grammatical", "foils_false", 80.0, 78.0, 82.0),
        share("grammatical", "foils_in_grammar", 89.0, 86.0, 92.0),
        share("grammatical", "foils_decided", 90.0, 88.0, 92.0),
        share("items", "foils_false", None, None, None, 0),
        share("items", "foils_in_grammar", None, None, None, 0),
        share("items", "foils_decided", None, None, None, 0),
    ]
    table = make_oracle_table(build_frame(rows, OracleRecord))
    assert list_rows(table)[0][:4] == (
        "relations",
        "attested",
        "100",
        "80.0 [78.0, 82.0]",
    )
    assert "items" not in {row[1] for row in list_rows(table)}
    assert table.remarks == (
        "relations: the entailment filter raises foils false: 80.0 to 95.0 %",
        "relations: the grammaticality filter does not raise foils in grammar: 90.0 to 89.0 % (the intervals overlap)",
    )


def test_the_audit_lists_its_warnings():
    rows = [
        {
            "instrument": "relations",
            "judge": judge,
            "value": value,
            "n": 10,
            "ci_low": value - 5,
            "ci_high": value + 5,
            "reason": None,
            "warning": warning,
        }
        for judge, value, warning in (
            ("GRUEN", 50.0, None),
            ("length", 70.0, "length alone prefers the caption"),
        )
    ]
    table = make_audit_table(build_frame(rows, AuditRecord))
    assert list_rows(table) == (
        ("relations", "10", "50.0† [45.0, 55.0]", "70.0† [65.0, 75.0]"),
    )
    assert table.remarks == ("relations: length alone prefers the caption",)


def caption(kind, rejected=None, not_simplified=None):
    return {"kind": kind, "rejected": rejected, "not_simplified": not_simplified}


ITEMS = [
    {"form": form, "condition": condition, "match": condition != "-img+cap"}
    for form, condition in [
        ("original", "+img+cap"),
        ("original", "-img+cap"),
        ("original", "+img+cap"),
    ]
]
CAPTIONS = [
    caption("contextual"),
    caption("contextual", "reads worse"),
    caption("plain", "empty", "no verb"),
    caption("plain", None, "no verb"),
]

FRAMES = (build_frame(ITEMS, ProbeRecord), build_frame(CAPTIONS, ProbeCaptionRecord))


def test_each_condition_has_its_items_and_each_caption_its_reason():
    table = make_conditions_table(*FRAMES, None)
    assert table.header == ("form", "condition", "items", "expected")
    assert list_rows(table) == (
        ("original", "+img+cap", "2", "true"),
        ("original", "-img+cap", "1", "false"),
    )
    assert table.remarks == (
        "contextual captions: 2 in all; 1 used; 1 reads worse",
        "plain captions: 2 in all; 1 used; 1 empty; 1 not simplified: no verb",
    )
    assert "oracle" not in table.note


def test_the_shares_of_the_oracle_are_next_to_the_items():
    shares = [
        {
            "candidates": f"original {condition}",
            "metric": metric,
            "value": value,
            "n": 2,
            "ci_low": 1.0,
            "ci_high": 99.0,
        }
        for condition in ("+img+cap", "-img+cap")
        for metric, value in (("decided", 90.0), ("as_expected", 80.0))
    ]
    table = make_conditions_table(*FRAMES, build_frame(shares, OracleRecord))
    assert table.header[-2:] == ("decided", "as expected")
    assert list_rows(table)[1] == (
        "original",
        "-img+cap",
        "1",
        "false",
        "90.0† [1.0, 99.0]",
        "80.0† [1.0, 99.0]",
    )
    assert "by construction" in table.note


def test_an_oracle_without_verdicts_adds_nothing_to_the_conditions():
    table = make_conditions_table(*FRAMES, build_frame([], OracleRecord))
    assert table.header == ("form", "condition", "items", "expected")
    assert "oracle" not in table.note
