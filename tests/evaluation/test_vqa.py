"""Questions about images and the accuracy of answers to them."""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from stand_ins.records import build_vqa_items
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.intervals import Resampling
from waltz.core.records import to_row
from waltz.core.schema import EVALUATION, EvaluationRecord
from waltz.evaluation.encoder_vqa import build_answer_records, compute_answers
from waltz.evaluation.metrics.vqa_accuracy import compute_vqa_accuracy
from waltz.evaluation.vqa import (
    compute_annotator_accuracy,
    normalize_case,
    score_answer,
    select_vqa_items,
)
from waltz.fidelity import EQUATIONS, PUBLISHED
from waltz.model_registry import ModelSpec
from waltz.models.encoders.alignment import PairScore, compute_pair_scores
from waltz.models.encoders.kinds.ruler import Ruler
from waltz.sources.images import open_images
from waltz.sources.published_samples import select_published_ids

HOW = Resampling(300, 0.95, 1)
VOCABULARY = ("yes", "no", "2")
ITEMS = build_vqa_items(
    [
        {
            "item_id": "q0",
            "image": "m0",
            "question": "Is it?",
            "answer": "yes",
            "answers": ["yes"] * 8 + ["no"] * 2,
        },
        {
            "item_id": "q1",
            "image": "m0",
            "question": "How many?",
            "answer": "3",
            "answers": ["3"] * 9 + ["2"],
        },
        {
            "item_id": "q2",
            "image": "m1",
            "question": "Is it red?",
            "answer": "No.",
            "answers": [],
        },
    ]
)
ANSWERS = {
    ("m0", "Is it?"): PairScore((3.0, 1.0, 0.8), 4),
    ("m0", "How many?"): PairScore((2.0, 2.0, 0.6), 5),
    ("m1", "Is it red?"): PairScore((0.5, 1.0, 0.5), 5),
}


def test_rows_say_answer_probability_and_verdict():
    rows = build_answer_records(ITEMS, ANSWERS, VOCABULARY, ["equations", "published"])
    assert parquet.build_table(list(map(to_row, rows)), EVALUATION).num_rows == 6
    assert [row.prediction for row in rows[:3]] == ["no", "2", "no"]
    assert [row.correct for row in rows[:3]] == [False, False, True]
    assert (rows[0].score, rows[0].probability) == (3, 0.8)


def test_a_question_that_cannot_be_read_has_an_error_and_is_left_out_of_accuracy():
    rows = build_answer_records(
        ITEMS,
        {**ANSWERS, ("m0", "Is it?"): PairScore(None, 0, "too long")},
        VOCABULARY,
        ["published"],
    )
    assert (rows[0].prediction, rows[0].correct, rows[0].error) == (
        None,
        None,
        "too long",
    )
    assert compute_vqa_accuracy(ITEMS, rows, PUBLISHED, "d", HOW).n == 2


@dataclass(frozen=True)
class Answering(Ruler):
    """A ruler of text whose logits are those of three answers: the mean sign, twice it, and
    nothing.
    """

    def fuse(self, text, image):
        logit = super().fuse(text, image)
        return torch.stack([logit, 2 * logit, 0 * logit], dim=1)


def test_an_encoder_answers_with_its_highest_logit(tmp_path):
    encoder = Answering(
        ModelSpec("answering", "ruler", weights="share:1", revision="0"), "cpu", 1.0
    )
    Image.new("RGB", (4, 4)).save(tmp_path / "m.png")
    pairs = [("m.png", text) for text in ("b", "a", "a b")] + [("n.png", "b")]
    with open_images(tmp_path) as images:
        answers = compute_answers(encoder, pairs, images, tmp_path / ".store")
        again = compute_answers(encoder, pairs, images, tmp_path / ".store")
    assert answers == again
    total = np.exp([1, 2, 0]).sum()
    assert answers["m.png", "b"].numbers == pytest.approx((2, 1, np.exp(2) / total))
    assert answers["m.png", "a"].numbers == pytest.approx(
        (0, 2, 1 / np.exp([-1, -2, 0]).sum())
    )
    # Of equals the first.
    assert answers["m.png", "a b"].numbers == pytest.approx((0, 0, 1 / 3))
    assert "is missing" in answers["n.png", "b"].error


def test_an_encoder_of_answers_has_no_logit_of_a_match(tmp_path):
    encoder = Answering(
        ModelSpec("answering", "ruler", weights="share:1", revision="0"), "cpu", 1.0
    )
    with pytest.raises(UserError, match="gives logits of answers, not of a match"):
        compute_pair_scores(
            encoder, [("m.png", "b")], lambda _: Image.new("RGB", (4, 4))
        )


def test_a_sentence_is_right_as_the_text_of_a_decoder_but_not_as_an_entry_of_an_encoder():
    sentences = {"q0": "Yes, it is", "q1": "There are 3 dogs", "q2": "no, blue"}
    generated = [
        EvaluationRecord(
            item_id=item,
            role="answer",
            profile="equations",
            setting="answering",
            prediction=text,
        )
        for item, text in sentences.items()
    ]
    chosen = [replace(record, score=1.0) for record in generated]
    of_decoder = compute_vqa_accuracy(ITEMS, generated, EQUATIONS, "d", HOW)
    of_encoder = compute_vqa_accuracy(ITEMS, chosen, EQUATIONS, "d", HOW)
    assert (of_decoder.value, of_encoder.value) == (100, 0)


def test_questions_are_sampled_or_the_published_ones_and_the_rest_counted():
    rows = [
        {
            "source_id": str(place),
            "image": f"m{place % 4}",
            "question": f"q{place}?",
            "answers": [],
        }
        | {
            "answer": None if place == 2 else "yes",
            "rejected": "empty" if place == 5 else None,
        }
        for place in range(9)
    ]
    few, unusable = select_vqa_items("d", rows, 3, 7)
    everything, _ = select_vqa_items("d", rows, None, 7)
    assert unusable == Counter({"the answer is withheld": 1, "empty": 1})
    assert (len(few), len(everything)) == (3, 7)
    assert all(item in everything for item in few)
    assert len(select_vqa_items("d", rows, 100, 7)[0]) == 7
    drawn, _ = select_vqa_items("d", rows, 9, 7, "vqa-encoders")
    expected = [
        place
        for place in select_published_ids("vqa-encoders", rows, 9)
        if place not in ("2", "5")
    ]
    assert [item.item_id for item in drawn] == [f"d:{place}" for place in expected]


def test_accuracy_takes_the_gold_answer_or_the_annotators():
    rows = build_answer_records(ITEMS, ANSWERS, VOCABULARY, ["equations", "published"])
    published = compute_vqa_accuracy(ITEMS, rows, PUBLISHED, "d", HOW)
    assert (published.value, published.n) == (pytest.approx(100 / 3), 3)
    # q0 "no": 8 annotators see 2 others of 3, 2 see 1; q1 "2": 9 see 1, 1 sees none; q2 right
    expected = ((8 * 2 / 3 + 2 * 1 / 3) / 10 + (9 * 1 / 3) / 10 + 1) / 3
    assert compute_vqa_accuracy(
        ITEMS, rows, EQUATIONS, "d", HOW
    ).value == pytest.approx(100 * expected)
    assert (
        compute_vqa_accuracy(ITEMS, [], PUBLISHED, "d", HOW).reason
        == "none of 3 questions was answered"
    )


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=10, max_size=10))
def test_agreement_is_the_mean_over_every_nine_of_ten(answers):
    nines = [min(1, list(nine).count("a") / 3) for nine in combinations(answers, 9)]
    assert compute_annotator_accuracy("A", answers) == pytest.approx(np.mean(nines))


def test_answers_are_compared_without_case_blanks_and_full_stop():
    assert normalize_case("  Two  Dogs. ") == normalize_case("two dogs")
    assert (
        score_answer("no", True, ITEMS[2], EQUATIONS)
        == score_answer("no", True, ITEMS[2], PUBLISHED)
        == 1
    )
