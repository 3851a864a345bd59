import pytest

from waltz.benchmark.people.quality import (
    Agreement,
    AnnotatorQuality,
    compute_agreement,
    compute_annotator_quality,
    count_missing_answers,
    drop_annotators,
)
from waltz.benchmark.votes import ANNOTATION_COLUMNS


def rows(*answers):
    return [dict(zip(ANNOTATION_COLUMNS, answer.split(","), strict=True)) for answer in answers]


def test_annotators_are_judged_by_the_gold_items_they_answered():
    good = [f"g{number},w1,first,{'first' if number < 7 else 'second'}" for number in range(10)]
    poor = [f"g{number},w2,second,{'second' if number < 2 else 'first'}" for number in range(3)]
    answers = rows(*good, *poor, "other,w1,both,first", "other,w3,first,first")
    assert compute_annotator_quality(answers, {f"g{number}" for number in range(10)}) == [
        AnnotatorQuality("w1", 11, 10, 0.7, True),
        AnnotatorQuality("w2", 3, 3, pytest.approx(2 / 3), False),
        AnnotatorQuality("w3", 1, 0, None, None),
    ]


def test_answers_without_a_preference_do_not_count_as_preferring_the_caption():
    answers = rows("g,w1,both,first", "g,w2,neither,first", "g,w3,cannot tell,first", "g,w4,second,first")
    assert [record.share for record in compute_annotator_quality(answers, ["g"])] == [0, 0, 0, 0]


def test_answers_of_dropped_annotators_are_recorded():
    answers = rows("a,w1,first,first", "a,w2,second,first", "b,w2,both,first")
    remaining, skipped = drop_annotators(answers, ["w2"], "poor")
    assert remaining == answers[:1]
    assert skipped == [
        {"item_id": "a", "annotator": "w2", "reason": "poor"},
        {"item_id": "b", "annotator": "w2", "reason": "poor"},
    ]


def test_unanimity_is_of_captions_and_alpha_of_presented_answers():
    # presented: a first first, b second first, c second second; votes: a caption twice, b and c not.
    # coincidences: ff 2, ss 2, fs = sf = 1; n = 6, 3 of each
    agreement = compute_agreement(
        rows(
            "a,w1,first,first",
            "a,w2,first,first",
            "b,w1,second,second",
            "b,w2,first,second",
            "c,w1,second,first",
            "c,w2,second,first",
        )
    )
    assert agreement == Agreement(3, 1, pytest.approx(1 - (2 / 6) / (2 * 3 * 3 / (6 * 5))), None)


def test_no_agreement_without_a_second_annotator():
    assert compute_agreement(rows("a,w1,first,first")) == Agreement(1, 1, None, "no item has two annotations")


def test_missing_answers_are_counted():
    answers = rows("a,w1,first,first", "a,w2,first,first", "b,w1,both,first")
    assert count_missing_answers(answers, ["a", "b", "c"], 2) == {"b": 1, "c": 2}
