"""Votes, agreement and quality of annotators."""

import pytest

from waltz.benchmark.items import read_benchmark_items
from waltz.benchmark.votes import (
    ANNOTATION_COLUMNS,
    NO_PAIR,
    ONE_ANSWER,
    Agreement,
    AnnotatorQuality,
    ItemVotes,
    SkippedAnswer,
    compute_agreement,
    compute_alpha,
    compute_annotator_quality,
    count_missing_answers,
    count_votes,
    drop_annotators,
    read_annotations,
)
from waltz.core.errors import UserError
from waltz.core.measure import Measure
from waltz.core.schema import AnnotationRecord

HEADER = "item_id,annotator,answer,caption_position\n"


def parse(*answers):
    return [
        AnnotationRecord(
            **dict(zip(ANNOTATION_COLUMNS, answer.split(","), strict=True))
        )
        for answer in answers
    ]


def test_votes_follow_the_position_of_the_caption():
    rows = parse(
        "a,x,first,first",
        "a,y,second,first",
        "a,z,second,second",
        "b,x,both,first",
        "b,y,cannot tell,first",
    )
    votes = count_votes(rows, 2)
    assert votes["a"] == ItemVotes(caption=2, foil=1, other=0, valid=True)
    assert votes["b"] == ItemVotes(caption=0, foil=0, other=2, valid=False)


def test_alpha_worked_by_hand():
    # two annotators, four items: first-first, second-second, first-second, first-first.
    # coincidences o: ff 4, ss 2, fs = sf = 1; n = 8, n_f = 5, n_s = 3
    rows = parse(
        *(
            f"{item},x,{answer},first"
            for item, answer in zip(
                "abcd", ("first", "second", "first", "first"), strict=True
            )
        ),
        *(
            f"{item},y,{answer},first"
            for item, answer in zip(
                "abcd", ("first", "second", "second", "first"), strict=True
            )
        ),
    )
    observed, expected = 2 / 8, 2 * 5 * 3 / (8 * 7)
    alpha = compute_alpha(rows)
    assert alpha == Measure(pytest.approx(1 - observed / expected), 4)


def test_alpha_that_is_undefined_says_why():
    assert compute_alpha(parse("a,x,first,first")) == Measure(None, 1, reason=NO_PAIR)
    alpha = compute_alpha(parse("a,x,first,first", "a,y,first,first"))
    assert alpha == Measure(None, 1, reason=ONE_ANSWER)
    assert compute_alpha([]) == Measure(None, 0, reason=NO_PAIR)


def test_alpha_that_is_undefined_says_why_with_gaps():
    # three annotators, no item has an answer of all three
    rows = parse(
        "a,x,first,first", "a,y,first,first", "b,y,first,first", "b,z,first,first"
    )
    assert compute_alpha(rows) == Measure(None, 2, reason=ONE_ANSWER)
    # the one other answer is of an item that nobody else answered
    rows = parse("a,x,first,first", "a,y,first,first", "b,z,second,first")
    assert compute_alpha(rows) == Measure(None, 2, reason=ONE_ANSWER)


def test_a_repeated_line_is_one_answer(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text(HEADER + "a,x,first,first\n" * 2)
    assert len(read_annotations(path, ["a"])) == 1


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "item_id,annotator\na,x\n",
            r"column 'answer' is missing \(got item_id, annotator, expected",
        ),
        (HEADER + "a,x,third,first\n", "line 2: answer 'third'"),
        (HEADER + "a,x,first,left\n", "line 2: caption_position 'left'"),
        (
            HEADER + "a,x,first,first\nz,x,first,first\n",
            "line 3: item 'z' is not in the data set",
        ),
        (
            HEADER + "a,x,first,first\na,x,both,first\n",
            "line 3: annotator 'x' answered item 'a' twice",
        ),
        (
            HEADER + "a,Ann@x.org,first,first\na,ann@X.org,both,first\n",
            "line 3: annotator 'Ann@x.org' answered item 'a' twice",
        ),
        (
            HEADER + "a,7,first,first\na,7.0,both,first\n",
            "line 3: annotator '7' answered item 'a' twice",
        ),
        (
            HEADER + "a,,first,first\n",
            "line 2: no annotator; name each person",
        ),
    ],
)
def test_a_fault_is_named_with_its_line(tmp_path, text, fault):
    path = tmp_path / "votes.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=rf"votes\.csv: {fault}"):
        read_annotations(path, ["a"])


def test_annotations_give_a_users_pairs_their_votes(tmp_path):
    pairs = tmp_path / "pairs.csv"
    pairs.write_text(
        "id,image,caption,foil\na,1.png,two cats,three cats\nb,2.png,a dog,a cat\n"
    )
    votes = tmp_path / "votes.csv"
    votes.write_text(HEADER + "".join(f"a,{name},first,first\n" for name in "xyz"))
    items, answers, _ = read_benchmark_items(
        str(pairs),
        form="pairs",
        dataset="mine",
        source="own",
        annotations=str(votes),
        valid_votes=2,
    )
    assert [(item.item_id, item.votes_caption, item.valid) for item in items] == [
        ("a", 3, True),
        ("b", None, None),
    ]
    assert len(answers) == 3


def test_annotators_are_judged_by_the_gold_items_they_answered():
    good = [
        f"g{number},w1,first,{'first' if number < 7 else 'second'}"
        for number in range(10)
    ]
    poor = [
        f"g{number},w2,second,{'second' if number < 2 else 'first'}"
        for number in range(3)
    ]
    answers = parse(*good, *poor, "other,w1,both,first", "other,w3,first,first")
    assert compute_annotator_quality(
        answers, {f"g{number}" for number in range(10)}
    ) == [
        AnnotatorQuality("w1", 11, 10, 0.7, True),
        AnnotatorQuality("w2", 3, 3, pytest.approx(2 / 3), False),
        AnnotatorQuality("w3", 1, 0, None, None),
    ]


def test_answers_without_a_preference_do_not_count_as_preferring_the_caption():
    answers = parse(
        "g,w1,both,first",
        "g,w2,neither,first",
        "g,w3,cannot tell,first",
        "g,w4,second,first",
    )
    assert [record.share for record in compute_annotator_quality(answers, ["g"])] == [
        0,
        0,
        0,
        0,
    ]


def test_answers_of_dropped_annotators_are_recorded():
    answers = parse("a,w1,first,first", "a,w2,second,first", "b,w2,both,first")
    remaining, skipped = drop_annotators(answers, ["w2"], "poor")
    assert remaining == answers[:1]
    assert skipped == [
        SkippedAnswer("a", "w2", "poor"),
        SkippedAnswer("b", "w2", "poor"),
    ]


def test_unanimity_is_of_captions_and_alpha_of_presented_answers():
    # presented: a first first, b second first, c second second; votes: a caption twice, b and c
    # not. coincidences: ff 2, ss 2, fs = sf = 1; n = 6, 3 of each
    agreement = compute_agreement(
        parse(
            "a,w1,first,first",
            "a,w2,first,first",
            "b,w1,second,second",
            "b,w2,first,second",
            "c,w1,second,first",
            "c,w2,second,first",
        )
    )
    assert agreement == Agreement(
        3, 1, Measure(pytest.approx(1 - (2 / 6) / (2 * 3 * 3 / (6 * 5))), 3)
    )


def test_no_agreement_without_a_second_annotator():
    assert compute_agreement(parse("a,w1,first,first")) == Agreement(
        1, 1, Measure(None, 1, reason=NO_PAIR)
    )


def test_missing_answers_are_counted():
    answers = parse("a,w1,first,first", "a,w2,first,first", "b,w1,both,first")
    assert count_missing_answers(answers, ["a", "b", "c"], 2) == {"b": 1, "c": 2}
