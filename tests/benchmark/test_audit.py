"""Blind judges, worked by hand."""

import pytest

from stand_ins.records import build_items
from waltz.benchmark.audit import NO_SCORES, audit_blind_judges
from waltz.core.intervals import Resampling

FIXED = Resampling(resamples=200, confidence=0.95, seed=7)


def _items(count, images=None):
    return build_items(
        {
            "item_id": str(number),
            "image": images[number] if images else f"{number}.jpg",
            "caption": f"caption {number}",
            "foil": f"foil {number}",
        }
        for number in range(count)
    )


def _by_judge(rows):
    return {row.judge: row for row in rows}


def test_accuracies_worked_by_hand_with_ties_as_halves():
    items = _items(4)
    scores = {
        f"caption {number}": value for number, value in enumerate([2.0, 2.0, 1.0, 0.0])
    }
    scores |= {f"foil {number}": 1.0 for number in range(4)}  # won, won, tied, lost
    rows_by_judge = _by_judge(
        audit_blind_judges(
            "relations", items, {"gruen": scores}, threshold=60, resampling=FIXED
        )
    )
    row = rows_by_judge["gruen"]
    assert (row.instrument, row.measure.value, row.measure.n) == ("relations", 62.5, 4)
    assert row.measure.ci_low <= 62.5 <= row.measure.ci_high
    assert (
        row.warning
        == "gruen alone prefers the caption in 62.5 % of the items; 60 % is the limit"
    )
    assert (rows_by_judge["length"].measure.value, rows_by_judge["length"].warning) == (
        50.0,
        None,
    )


def test_a_bias_towards_foils_gives_a_warning_too():
    items = build_items(
        {
            "item_id": str(n),
            "image": str(n),
            "caption": "A long red car stands there.",
            "foil": "A car stands.",
        }
        for n in range(5)
    )
    (row,) = audit_blind_judges("plurality", items, {}, threshold=70, resampling=FIXED)
    assert (row.judge, row.measure.value, row.measure.ci_low) == ("length", 0.0, 0.0)
    # Five images agree.
    assert row.measure.ci_high == pytest.approx(100 * (1 - 0.025 ** (1 / 5)))
    assert (
        row.warning
        == "length alone prefers the foil in 100.0 % of the items; 70 % is the limit"
    )


def test_nli_prefers_the_text_that_contradicts_the_other_more():
    items = _items(3)
    table = {}
    for number, (forward, backward) in enumerate([(0.9, 0.2), (0.8, 0.1), (0.3, 0.4)]):
        table[f"caption {number}", f"foil {number}"] = forward
        table[f"foil {number}", f"caption {number}"] = backward
    row = _by_judge(
        audit_blind_judges(
            "relations", items, {}, table, threshold=70, resampling=FIXED
        )
    )["nli"]
    assert (row.measure.value, row.measure.n, row.warning) == (
        pytest.approx(200 / 3),
        3,
        None,
    )


def test_items_without_a_score_are_skipped():
    items = _items(3)
    scores = {
        "caption 0": 1.0,
        "foil 0": 0.0,
        "caption 1": 1.0,
        "foil 1": None,
        "caption 2": 1.0,
    }
    rows_by_judge = _by_judge(
        audit_blind_judges(
            "relations",
            items,
            {"gpt2": scores, "none": {}},
            threshold=70,
            resampling=FIXED,
        )
    )
    assert (rows_by_judge["gpt2"].measure.n, rows_by_judge["gpt2"].measure.value) == (
        1,
        100.0,
    )
    assert (
        rows_by_judge["none"].measure.n,
        rows_by_judge["none"].measure.value,
        rows_by_judge["none"].measure.reason,
    ) == (
        0,
        None,
        NO_SCORES,
    )
    assert rows_by_judge["none"].warning is None


def test_items_of_one_image_are_resampled_as_one():
    scores = {f"caption {n}": float(n % 2) for n in range(40)} | {
        f"foil {n}": 0.5 for n in range(40)
    }
    ungrouped = _by_judge(
        audit_blind_judges(
            "x", _items(40), {"lm": scores}, threshold=70, resampling=FIXED
        )
    )["lm"]
    grouped = _items(40, images=["even" if n % 2 == 0 else "odd" for n in range(40)])
    grouped_row = _by_judge(
        audit_blind_judges("x", grouped, {"lm": scores}, threshold=70, resampling=FIXED)
    )["lm"]
    assert ungrouped.measure.value == grouped_row.measure.value == 50.0
    assert ungrouped.measure.ci_high - ungrouped.measure.ci_low < 40
    # Two images leave all open.
    interval = grouped_row.measure.ci_low, grouped_row.measure.ci_high
    assert interval == pytest.approx((0.0, 100.0), abs=0.1)


def test_the_interval_of_a_judge_does_not_depend_on_other_judges():
    scores = {f"caption {n}": float(n % 3) for n in range(30)} | {
        f"foil {n}": 1.0 for n in range(30)
    }
    one_judge = audit_blind_judges(
        "x", _items(30), {"lm": scores}, threshold=70, resampling=FIXED
    )
    two_judges = audit_blind_judges(
        "x", _items(30), {"gruen": scores, "lm": scores}, threshold=70, resampling=FIXED
    )
    assert _by_judge(one_judge)["lm"] == _by_judge(two_judges)["lm"]
