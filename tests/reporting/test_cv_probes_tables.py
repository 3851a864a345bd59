from waltz.reporting.page.cv_probes_tables import make_conditions_table


def caption(kind, rejected=None, not_simplified=None):
    return {"kind": kind, "rejected": rejected, "not_simplified": not_simplified}


ITEMS = [
    {"form": form, "condition": condition, "match": condition != "-img+cap"}
    for form, condition in [("original", "+img+cap"), ("original", "-img+cap"), ("original", "+img+cap")]
]
CAPTIONS = [
    caption("contextual"),
    caption("contextual", "reads worse"),
    caption("plain", "empty", "no verb"),
    caption("plain", None, "no verb"),
]


def test_each_condition_has_its_items_and_each_caption_its_reason():
    table = make_conditions_table(ITEMS, CAPTIONS, [])
    assert table.header == ("form", "condition", "items", "expected")
    assert table.rows == (("original", "+img+cap", "2", "true"), ("original", "-img+cap", "1", "false"))
    assert table.remarks == (
        "contextual captions: 2 in all; 1 used; 1 reads worse",
        "plain captions: 2 in all; 1 used; 1 empty; 1 not simplified: no verb",
    )
    assert "oracle" not in table.note


def test_the_oracles_shares_stand_beside_the_items():
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
    table = make_conditions_table(ITEMS, CAPTIONS, shares)
    assert table.header[-2:] == ("decided", "as expected")
    assert table.rows[1] == ("original", "-img+cap", "1", "false", "90.0 [1.0, 99.0]", "80.0 [1.0, 99.0]")
    assert "by construction" in table.note
