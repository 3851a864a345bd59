"""Contributions before and after an edit, and the claim about them."""

import numpy as np
import pytest

from waltz.attribution.shapley.estimate import Estimate
from waltz.consistency.cc_shap.edit_shifts import ExplainedAnswer, compute_edit_shift
from waltz.consistency.cc_shap.measure import SharedEstimate
from waltz.consistency.edit_claim import judge_claim
from waltz.core.intervals import Resampling
from waltz.core.schema import EditedRecord
from waltz.fidelity import PUBLISHED

HOW = Resampling(resamples=500, confidence=0.95, seed=1)


def side(phi, shared):
    phi = np.asarray(phi, dtype=np.float64).reshape(len(phi), -1)
    estimate = Estimate(phi, np.zeros(phi.shape[1]), phi.sum(axis=0), 1, exact=True)
    return SharedEstimate(estimate, np.asarray(shared))


def explained(text, answer, explanation):
    """Players of a text with a tail of one player on either side."""
    words = text.split()
    places = np.arange(len(words))
    return ExplainedAnswer(
        side([*answer, 9], places), side([*explanation, 9], places), words
    )


def test_distances_worked_by_hand():
    before = explained("a dog runs", [3, 4, 0], [1, 0, 0])
    after = explained("a big dog runs", [4, 5, 3, 0], [0, 2, 0, 2])
    shift = compute_edit_shift(before, after)
    # (3, 4, 0) and (4, 3, 0): the word in between is left out
    assert shift.answer == pytest.approx(1 - 24 / 25)
    assert shift.explanation == pytest.approx(1)
    assert shift.inserted_answer == pytest.approx(5 / 12)
    assert shift.inserted_explanation == pytest.approx(1 / 2)
    assert [places.tolist() for places in shift.unchanged] == [[0, 1, 2], [0, 2, 3]]
    assert shift.reason is None
    published = compute_edit_shift(before, after, PUBLISHED)
    assert (published.answer, published.explanation) == pytest.approx(
        (shift.answer, shift.explanation)
    )
    assert published.inserted_answer == pytest.approx(5 / 12)


def test_an_edit_that_moves_nothing():
    before = explained("a dog runs", [1, -2, 3], [2, 2, 1])
    after = explained("a big dog runs", [1, 7, -2, 3], [2, 0, 2, 1])
    shift = compute_edit_shift(before, after)
    assert (shift.answer, shift.explanation) == pytest.approx((0, 0), abs=1e-12)
    assert shift.inserted_explanation == 0


def test_ratios_are_taken_over_what_stayed():
    # of two tokens the inserted word draws nearly all of the first: without it both count alike
    before = explained("a dog", [1, 0], [1, 1])
    after = ExplainedAnswer(
        side([[1, 0], [98, 0], [0, 1], [0, 0]], [0, 1, 2]),
        side([1, 1, 1, 0], [0, 1, 2]),
        ["a", "x", "dog"],
    )
    assert compute_edit_shift(before, after).answer == pytest.approx(1 - 1 / np.sqrt(2))


def test_reasons():
    nothing = explained("a dog", [0, 0], [1, 1])
    record = compute_edit_shift(nothing, explained("a big dog", [1, 1, 1], [1, 1, 1]))
    assert record.answer is None
    assert record.explanation == pytest.approx(0)
    assert record.inserted_answer == pytest.approx(1 / 3)
    assert "nothing contributes to the answer" in record.reason
    assert (
        compute_edit_shift(nothing, explained("cats", [1], [1])).reason
        == "no player stayed"
    )
    only = compute_edit_shift(
        explained("a", [1], [1]), explained("a b", [0, 1], [1, 1])
    )
    assert (only.answer, only.inserted_answer) == (None, pytest.approx(1))


def claim_of(answers, explanations, images=None):
    images = images or [str(place) for place in range(len(answers))]
    sides = zip(images, answers, explanations, strict=True)
    names = {"profile": "equations", "setting": "choice", "seed": 0}
    records = [
        EditedRecord(
            **names, item_id=image, image=image, answer=answer, explanation=explanation
        )
        for image, answer, explanation in sides
    ]
    return judge_claim(records, "x", HOW)


def test_the_claim_is_supported_refuted_or_open():
    near, far = np.linspace(0.0, 0.04, 40), np.linspace(0.2, 0.4, 40)
    supported = claim_of(near, far)
    assert supported.verdict == "supports"
    assert supported.difference.value == pytest.approx(0.28)
    assert supported.difference.ci_low < 0.28 < supported.difference.ci_high
    assert supported.answer.value == pytest.approx(0.02)
    assert claim_of(far, near).verdict == "refutes"
    assert claim_of(near, near[::-1]).verdict == "refutes"  # they move no further
    assert claim_of(near, np.tile([0.0, 0.14], 20)).verdict == "undecided"
    assert claim_of(near, far) == supported


def test_clusters_are_drawn_and_items_without_distances_left_out():
    generator = np.random.default_rng(0)
    answers = np.repeat(generator.random(10), 8)
    explanations = answers + np.repeat(generator.normal(0.2, 0.2, 10), 8)
    alone = claim_of(answers, explanations)
    together = claim_of(answers, explanations, [str(place // 8) for place in range(80)])
    widths = [
        one.difference.ci_high - one.difference.ci_low for one in (alone, together)
    ]
    assert widths[1] > 2 * widths[0]
    gone = claim_of([0.1] * 6 + [None], [0.3, 0.31] * 3 + [0.1])
    assert (gone.difference.n, gone.verdict) == (6, "supports")
    none = claim_of([None], [None])
    assert (none.verdict, none.answer.value) == (None, None)
    assert "none of 1 items" in none.difference.reason
    # One cluster.
    assert claim_of([0.1] * 9, [0.3] * 9, ["a"] * 9).verdict == "undecided"
