"""Validation statistics and blind judges."""

import csv
import math
from pathlib import Path

import pytest

from waltz.benchmark.statistics import (
    NO_SCORES,
    audit_blind_judges,
    compute_jensen_shannon,
    compute_validation_statistics,
    count_frequencies,
)
from waltz.sources.formats.pairs import read_release

BOOTSTRAP = {"resamples": 200, "confidence": 0.95, "seed": 1}
PAPER_VALUES = Path(__file__).parents[2] / "resources" / "published" / "thesis-A.2.csv"
CUT = ("instances", "valid", "unanimous", "lexical_items", "js", "js_valid")


def item(item_id, caption, foil, votes=(3, 0, 0)):
    return {
        "item_id": item_id,
        "image": f"{item_id}.png",
        "caption": f"it is {caption}",
        "foil": f"she is {foil}",
        "caption_phrases": [caption],
        "foil_phrases": [foil],
        "votes_caption": votes[0],
        "votes_foil": votes[1],
        "votes_other": votes[2],
        "valid": votes[0] >= 2,
    }


ITEMS = [item("a", "on", "off"), item("b", "off", "on", (2, 1, 0)), item("c", "on", "in", (1, 0, 2))]


def test_counts_and_shares_worked_by_hand():
    measures = compute_validation_statistics("d", ITEMS, [], **BOOTSTRAP)
    values = {metric: measure.value for metric, measure in measures.items()}
    assert (values["instances"], values["valid"], values["unanimous"], values["lexical_items"]) == (3, 2, 1, 3)
    assert values["valid_percent"] == pytest.approx(200 / 3)
    assert values["unanimous_percent"] == pytest.approx(100 / 3)
    assert values["js_valid"] == 0
    assert measures["valid_percent"].ci_low <= 200 / 3 <= measures["valid_percent"].ci_high
    assert values["alpha"] is None
    assert "no single annotations" in measures["alpha"].reason


def test_divergence_of_distributions_worked_by_hand():
    # captions: on 2/3, off 1/3; foils: on, off, in 1/3 each
    p, q = [2 / 3, 1 / 3, 0], [1 / 3, 1 / 3, 1 / 3]
    m = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    divergence = sum(0.5 * a * math.log2(a / c) for side in (p, q) for a, c in zip(side, m, strict=True) if a > 0)
    assert compute_jensen_shannon(ITEMS) == pytest.approx(math.sqrt(divergence))


def test_disjoint_words_have_distance_1_and_equal_words_distance_0():
    assert compute_jensen_shannon([item("a", "x", "y")]) == pytest.approx(1)
    assert compute_jensen_shannon([item("a", "x", "y"), item("b", "y", "x")]) == 0


def test_a_data_set_without_votes_has_a_reason():
    unvoted = [{**item("a", "x", "y"), "valid": None, "votes_caption": None}]
    measures = compute_validation_statistics("d", unvoted, [], **BOOTSTRAP)
    assert measures["valid"].value is None
    assert measures["valid_percent"].reason == "the data set holds no votes"
    assert measures["instances"].value == 1


def test_frequencies_count_lexical_items_and_pronouns_before_and_after_validation():
    rows = count_frequencies(ITEMS)
    counted = {(row["kind"], row["items"], row["side"], row["word"]): row["count"] for row in rows}
    assert counted["lexical", "all", "caption", "on"] == 2
    assert counted["lexical", "valid", "caption", "on"] == 1
    assert counted["pronoun", "all", "caption", "it"] == 3
    assert counted["pronoun", "valid", "foil", "she"] == 2


def _read_paper_values():
    with PAPER_VALUES.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["dataset"] != "overall" and row["metric"] in CUT]
    return {(row["dataset"], row["metric"]): row["value"] for row in rows}


@pytest.mark.parametrize(
    ("instrument", "name"),
    [
        ("existence", "existence"),
        ("plurality", "plurals"),
        ("counting-balanced", "counting-hard"),
        ("counting-small", "counting-small-quant"),
        ("counting-adversarial", "counting-adversarial"),
        ("relations", "relations"),
        ("action-replacement", "action-replacement"),
        ("actant-swap", "actant-swap"),
        ("coreference-standard", "coreference-standard"),
        ("coreference-clean", "coreference-hard"),
        ("foil-it", "foil-it"),
    ],
)
def test_the_release_gives_table_a2(shared_data, instrument, name):
    rows = read_release(shared_data / "valse" / f"{name}.json", instrument, 2)
    measures = compute_validation_statistics(instrument, rows, [], **BOOTSTRAP)
    for metric in CUT:
        paper_value = _read_paper_values()[instrument, metric]
        tolerance = 0.001 if metric.startswith("js") else 0
        assert abs(measures[metric].value - float(paper_value)) <= tolerance, metric


FIXED = {"resamples": 200, "confidence": 0.95, "seed": 7}


def _items(count, images=None):
    return [
        {
            "image": images[number] if images else f"{number}.jpg",
            "caption": f"caption {number}",
            "foil": f"foil {number}",
        }
        for number in range(count)
    ]


def _by_judge(rows):
    return {row["judge"]: row for row in rows}


def test_accuracies_worked_by_hand_with_ties_as_halves():
    items = _items(4)
    scores = {f"caption {number}": value for number, value in enumerate([2.0, 2.0, 1.0, 0.0])}
    scores |= {f"foil {number}": 1.0 for number in range(4)}  # won, won, tied, lost
    rows_by_judge = _by_judge(audit_blind_judges("relations", items, {"gruen": scores}, threshold=60, **FIXED))
    row = rows_by_judge["gruen"]
    assert (row["instrument"], row["value"], row["n"]) == ("relations", 62.5, 4)
    assert row["ci_low"] <= 62.5 <= row["ci_high"]
    assert row["warning"] == "gruen alone prefers the caption in 62.5 % of the items; 60 % is the limit"
    assert (rows_by_judge["length"]["value"], rows_by_judge["length"]["warning"]) == (50.0, None)


def test_a_bias_towards_foils_gives_a_warning_too():
    items = [{"image": str(n), "caption": "A long red car stands there.", "foil": "A car stands."} for n in range(5)]
    (row,) = audit_blind_judges("plurality", items, {}, threshold=70, **FIXED)
    assert (row["judge"], row["value"], row["ci_low"]) == ("length", 0.0, 0.0)
    assert row["ci_high"] == pytest.approx(100 * (1 - 0.025 ** (1 / 5)))  # five images agree
    assert row["warning"] == "length alone prefers the foil in 100.0 % of the items; 70 % is the limit"


def test_nli_prefers_the_text_that_contradicts_the_other_more():
    items = _items(3)
    table = {}
    for number, (forward, backward) in enumerate([(0.9, 0.2), (0.8, 0.1), (0.3, 0.4)]):
        table[f"caption {number}", f"foil {number}"] = forward
        table[f"foil {number}", f"caption {number}"] = backward
    row = _by_judge(audit_blind_judges("relations", items, {}, table, threshold=70, **FIXED))["nli"]
    assert (row["value"], row["n"], row["warning"]) == (pytest.approx(200 / 3), 3, None)


def test_items_without_a_score_are_skipped():
    items = _items(3)
    scores = {"caption 0": 1.0, "foil 0": 0.0, "caption 1": 1.0, "foil 1": None, "caption 2": 1.0}
    rows_by_judge = _by_judge(
        audit_blind_judges("relations", items, {"gpt2": scores, "none": {}}, threshold=70, **FIXED)
    )
    assert (rows_by_judge["gpt2"]["n"], rows_by_judge["gpt2"]["value"]) == (1, 100.0)
    assert (rows_by_judge["none"]["n"], rows_by_judge["none"]["value"], rows_by_judge["none"]["reason"]) == (
        0,
        None,
        NO_SCORES,
    )
    assert rows_by_judge["none"]["warning"] is None


def test_items_of_one_image_are_resampled_as_one():
    scores = {f"caption {n}": float(n % 2) for n in range(40)} | {f"foil {n}": 0.5 for n in range(40)}
    ungrouped = _by_judge(audit_blind_judges("x", _items(40), {"lm": scores}, threshold=70, **FIXED))["lm"]
    grouped = _items(40, images=["even" if n % 2 == 0 else "odd" for n in range(40)])
    grouped_row = _by_judge(audit_blind_judges("x", grouped, {"lm": scores}, threshold=70, **FIXED))["lm"]
    assert ungrouped["value"] == grouped_row["value"] == 50.0
    assert ungrouped["ci_high"] - ungrouped["ci_low"] < 40
    assert (grouped_row["ci_low"], grouped_row["ci_high"]) == (0.0, 100.0)


def test_the_interval_of_a_judge_does_not_depend_on_other_judges():
    scores = {f"caption {n}": float(n % 3) for n in range(30)} | {f"foil {n}": 1.0 for n in range(30)}
    one_judge = audit_blind_judges("x", _items(30), {"lm": scores}, threshold=70, **FIXED)
    two_judges = audit_blind_judges("x", _items(30), {"gruen": scores, "lm": scores}, threshold=70, **FIXED)
    assert _by_judge(one_judge)["lm"] == _by_judge(two_judges)["lm"]
