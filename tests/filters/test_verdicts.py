from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waltz.filters.nli import Inference
from waltz.filters.verdicts import Thresholds, apply_thresholds
from waltz.sources.formats.valse import read_release

BOTH = Thresholds(grammaticality=0.8, contradiction=True)
CONTRADICTS, NEUTRAL = Inference(0.1, 0.2, 0.7), Inference(0.1, 0.6, 0.3)


def _row(number, rejected=None):
    return {"item_id": f"i{number}", "caption": "c", "foil": f"f{number}", "rejected": rejected}


def test_a_candidate_passes_both_filters_or_keeps_the_first_reason():
    rows = [_row(0), _row(1), _row(2), _row(3), _row(4, "not attested")]
    scores = {"f0": 0.9, "f1": 0.7, "f2": 0.95, "f3": 0.1}
    relations = {("c", "f0"): CONTRADICTS, ("c", "f1"): CONTRADICTS, ("c", "f2"): NEUTRAL, ("c", "f3"): NEUTRAL}
    judged_rows, close = apply_thresholds(rows, BOTH, scores, relations)
    below = "grammaticality below 0.8"
    assert [row["rejected"] for row in judged_rows] == [None, below, "no contradiction", below, "not attested"]
    assert [row["kept"] for row in judged_rows] == [True, False, False, False, False]
    assert [row["grammaticality"] for row in judged_rows] == [0.9, 0.7, 0.95, 0.1, None]
    assert (judged_rows[2]["nli_entailment"], judged_rows[2]["nli_neutral"], judged_rows[2]["nli_contradiction"]) == (
        0.1,
        0.6,
        0.3,
    )
    assert judged_rows[4]["nli_contradiction"] is None
    assert close == []
    assert rows[0] == _row(0)


def test_a_threshold_is_reached_by_its_own_value_and_near_ones_are_listed():
    rows = [_row(0), _row(1), _row(2)]
    scores = {"f0": 0.8, "f1": 0.79995, "f2": 0.8002}
    judged_rows, close = apply_thresholds(rows, Thresholds(grammaticality=0.8), scores)
    assert [row["kept"] for row in judged_rows] == [True, False, True]
    assert close == [
        {"item_id": "i0", "filter": "grammaticality", "value": 0.8, "threshold": 0.8},
        {"item_id": "i1", "filter": "grammaticality", "value": 0.79995, "threshold": 0.8},
    ]


def test_a_tie_with_another_relation_is_no_contradiction_and_is_listed():
    tie = Inference(0.25, 0.375, 0.375)
    judged_rows, close = apply_thresholds([_row(0)], Thresholds(contradiction=True), inferences={("c", "f0"): tie})
    assert judged_rows[0]["rejected"] == "no contradiction"
    assert close == [{"item_id": "i0", "filter": "contradiction", "value": 0.0, "threshold": 0.0}]


def test_scores_that_are_only_recorded_reject_nothing():
    judged_rows, close = apply_thresholds([_row(0)], Thresholds(), {"f0": 0.0}, {("c", "f0"): NEUTRAL})
    assert (judged_rows[0]["kept"], judged_rows[0]["grammaticality"], judged_rows[0]["nli_neutral"], close) == (
        True,
        0.0,
        0.6,
        [],
    )


def test_a_missing_score_is_no_verdict():
    with pytest.raises(ValueError, match="i0: no grammaticality for 'f0'"):
        apply_thresholds([_row(0)], BOTH, {}, {})
    with pytest.raises(ValueError, match="i0: no contradiction for 'f0'"):
        apply_thresholds([_row(0)], BOTH, {"f0": 0.9}, {})
    judged_rows, _ = apply_thresholds([_row(0)], BOTH, {"f0": 0.1}, {})  # rejected before the pair was needed
    assert judged_rows[0]["rejected"] == "grammaticality below 0.8"


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.sampled_from([None, "not attested"])), max_size=20))
def test_a_higher_threshold_keeps_no_more_and_all_rows_stay(drawn):
    rows = [_row(number, rejected) for number, (*_, rejected) in enumerate(drawn)]
    scores = {f"f{number}": score for number, (score, *_) in enumerate(drawn)}
    relations = {("c", f"f{number}"): Inference(0.0, 1 - p, p) for number, (_, p, _) in enumerate(drawn)}
    kept = []
    for threshold in (0.2, 0.5, 0.8):
        judged_rows, _ = apply_thresholds(rows, Thresholds(threshold, contradiction=True), scores, relations)
        assert [row["item_id"] for row in judged_rows] == [row["item_id"] for row in rows]
        reasons = Counter(row["rejected"] for row in judged_rows)
        assert reasons.keys() <= {None, "not attested", f"grammaticality below {threshold}", "no contradiction"}
        kept.append({row["item_id"] for row in judged_rows if row["kept"]})
    assert kept[0] >= kept[1] >= kept[2]


@pytest.mark.parametrize(("file", "instrument"), [("plurals", "plurality"), ("relations", "relations")])
def test_the_released_scores_pass_the_published_thresholds(shared_data, file, instrument):
    items = read_release(shared_data / "valse" / f"{file}.json", instrument, 2)
    scores = {item["foil"]: item["grammaticality"] for item in items}
    relations = {
        (item["caption"], item["foil"]): Inference(
            item["nli_entailment"], item["nli_neutral"], item["nli_contradiction"]
        )
        for item in items
    }
    rows = [{**item, "item_id": str(place), "rejected": None} for place, item in enumerate(items)]
    judged_rows, _ = apply_thresholds(rows, BOTH, scores, relations)
    assert len(judged_rows) == {"plurality": 1000, "relations": 614}[instrument]
    assert all(row["kept"] for row in judged_rows)
    stricter, _ = apply_thresholds(rows, Thresholds(0.81, contradiction=True), scores, relations)
    assert not all(row["kept"] for row in stricter)
