from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waltz.core import parquet
from waltz.core.errors import UserError
from waltz.core.schema import EVALUATION
from waltz.evaluation.answering import accuracy, agreement, answer_rows, plain, share, unreachable
from waltz.evaluation.metrics import Resampling

HOW = Resampling(300, 0.95, 1)
VOCABULARY = ("yes", "no", "2")
ITEMS = [
    {"item_id": "q0", "image": "m0", "question": "Is it?", "answer": "yes", "answers": ["yes"] * 8 + ["no"] * 2},
    {"item_id": "q1", "image": "m0", "question": "How many?", "answer": "3", "answers": ["3"] * 9 + ["2"]},
    {"item_id": "q2", "image": "m1", "question": "Is it red?", "answer": "No.", "answers": []},
]


def ask(asked):
    assert asked[0] == ("m0", "Is it?")
    return np.array([[1.0, 3.0, 0.0], [0.0, 0.0, 2.0], [-1.0, 0.5, 0.0]])


def test_the_answer_of_the_highest_logit_its_probability_and_verdict():
    rows = answer_rows(ITEMS, ask, VOCABULARY, ["equations", "published"])
    assert parquet.to_table(rows, EVALUATION).num_rows == 6
    assert [row["prediction"] for row in rows[:3]] == ["no", "2", "no"]
    assert [row["correct"] for row in rows[:3]] == [False, False, True]
    assert rows[0]["score"] == 3
    assert rows[0]["probability"] == pytest.approx(np.exp(3) / (np.e + np.exp(3) + 1))


def test_accuracy_takes_the_gold_answer_or_the_annotators():
    rows = answer_rows(ITEMS, ask, VOCABULARY, ["equations", "published"])
    published = accuracy(ITEMS, rows, "published", "d", HOW).measure
    assert (published.value, published.n) == (pytest.approx(100 / 3), 3)
    # q0 "no": 8 annotators see 2 others of 3, 2 see 1; q1 "2": 9 see 1, 1 sees none; q2 right
    expected = ((8 * 2 / 3 + 2 * 1 / 3) / 10 + (9 * 1 / 3) / 10 + 1) / 3
    assert accuracy(ITEMS, rows, "equations", "d", HOW).measure.value == pytest.approx(100 * expected)
    assert accuracy(ITEMS, [], "published", "d", HOW).measure.reason == "none of 3 questions was answered"


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=10, max_size=10))
def test_agreement_is_the_mean_over_every_nine_of_ten(answers):
    nines = [min(1, list(nine).count("a") / 3) for nine in combinations(answers, 9)]
    assert agreement("A", answers) == pytest.approx(np.mean(nines))


def test_answers_are_compared_without_case_blanks_and_full_stop():
    assert plain("  Two  Dogs. ") == plain("two dogs")
    assert share("no", ITEMS[2], "equations") == share("no", ITEMS[2], "published") == 1
    assert list(unreachable(ITEMS, VOCABULARY)) == ["q1"]


@pytest.mark.parametrize("logits", [np.zeros((3, 2)), np.full((3, 3), np.nan)])
def test_another_vocabulary_and_logits_that_are_no_numbers_are_refused(logits):
    with pytest.raises(UserError, match="is the vocabulary the checkpoint's own"):
        answer_rows(ITEMS, lambda _: logits, VOCABULARY, ["equations"])
