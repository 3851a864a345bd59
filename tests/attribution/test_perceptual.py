import numpy as np
import pytest

from waltz.attribution.companions.perceptual_score import (
    build_matching_credit,
    build_ranking_credit,
    compute_perceptual_score,
    draw_donors,
)
from waltz.core.intervals import Resampling

HOW = Resampling(resamples=400, confidence=0.95, seed=5)
COUNT = 400
IDS = [f"item {place}" for place in range(COUNT)]
OWN = np.arange(COUNT)


def score(credit, modality, repeats=5, majority=0.5, ids=IDS, images=IDS):
    return compute_perceptual_score(credit, ids, images, modality, repeats, majority, HOW)


def noise(*shape):
    return np.random.default_rng(1).normal(size=shape)


def test_three_items_worked_by_hand():
    # item k is right by itself, and wrong with anything of another item: a deal keeps the fixed points
    ids = ["c", "a", "b"]

    def credit(texts, images):
        return (texts == images).astype(float)

    found = compute_perceptual_score(credit, ids, ids, "image", 6, 0.25, HOW)
    fixed = (draw_donors(ids, 6, HOW.seed) == np.arange(3)).mean(axis=1)
    assert found.permuted == pytest.approx(100 * fixed)
    assert len(set(found.permuted)) > 1
    assert found.accuracy.value == 100
    assert found.drop.value == pytest.approx(100 * (1 - fixed.mean()))
    assert found.by_model.value == pytest.approx(found.drop.value)
    assert found.by_task.value == pytest.approx(found.drop.value / 0.75)
    assert found.spread == pytest.approx(np.std(100 * fixed, ddof=1))


def test_a_model_that_reads_alone_does_not_perceive_the_image():
    scores = np.tile(noise(1, 2 * COUNT), (COUNT, 1))
    credit = build_ranking_credit(scores, OWN, OWN, OWN + COUNT, IDS, HOW.seed)
    image, text = score(credit, "image"), score(credit, "text")
    assert image.drop.value == 0
    assert image.by_model.value == 0
    assert -5 < image.by_model.ci_low < 0 < image.by_model.ci_high < 5  # every image agrees
    right = (scores[0, :COUNT] > scores[0, COUNT:]).mean()
    assert image.accuracy.value == pytest.approx(100 * right)
    assert np.mean(text.permuted) == pytest.approx(50, abs=5)


def test_a_model_that_looks_alone_does_not_perceive_the_text():
    match = OWN % 2 == 0
    scores = np.tile(np.where(match, 1.0, -1.0)[:, None], (1, COUNT))  # whether it matches can be seen in the image
    credit = build_matching_credit(scores, OWN, OWN, match, 0.0)
    assert score(credit, "text").drop.value == 0
    image = score(credit, "image")
    assert image.accuracy.value == 100
    assert image.drop.value == pytest.approx(50, abs=5)
    assert image.by_task.value == pytest.approx(100, abs=10)


def test_a_model_that_needs_both_loses_as_much_by_either():
    scores = np.eye(COUNT) * 2 - 1 + np.zeros((COUNT, COUNT))
    both = np.concatenate([scores, -scores], axis=1)  # its own caption 1, its own foil -1, others the other way
    credit = build_ranking_credit(both, OWN, OWN, OWN + COUNT, IDS, HOW.seed)
    image, text = score(credit, "image"), score(credit, "text")
    assert image.accuracy.value == text.accuracy.value == 100
    assert np.mean(image.permuted) < 2  # only items that were dealt their own
    assert np.mean(text.permuted) == pytest.approx(50, abs=5)


def test_a_tie_earns_nothing_whatever_the_places():
    credit = build_ranking_credit(np.zeros((COUNT, 2 * COUNT)), OWN, OWN, OWN + COUNT, IDS, 0)
    assert not credit(OWN, OWN).any()
    assert not credit(OWN[::-1], OWN).any()


def test_the_threshold_belongs_to_a_match():
    credit = build_matching_credit(
        np.array([[0.5], [0.49]]), np.array([0, 1]), np.array([0, 0]), np.array([True, False]), 0.5
    )
    assert credit(np.array([0, 1]), np.array([0, 1])).tolist() == [1, 1]
    assert credit(np.array([0, 1]), np.array([1, 0])).tolist() == [0, 0]


def test_a_deal_is_a_permutation_that_hangs_on_ids_alone():
    dealt = draw_donors(IDS, 3, 1)
    assert all(sorted(deal) == list(range(COUNT)) for deal in dealt)
    assert not np.array_equal(dealt[0], dealt[1])
    back = draw_donors(IDS[::-1], 3, 1)
    given = {IDS[place]: IDS[donor] for place, donor in enumerate(dealt[2])}
    assert given == {IDS[::-1][place]: IDS[::-1][donor] for place, donor in enumerate(back[2])}
    assert not np.array_equal(dealt[0], draw_donors(IDS, 1, 2)[0])


def test_deals_are_uniform():
    dealt = draw_donors(["a", "b", "c"], 3000, 0)
    _, counts = np.unique(dealt, axis=0, return_counts=True)
    assert len(counts) == 6
    assert counts.min() > 400  # 500 are expected, with a standard deviation of 20


def test_more_deals_keep_the_first_ones():
    assert np.array_equal(draw_donors(IDS, 2, 1), draw_donors(IDS, 5, 1)[:2])


def test_what_is_undefined_says_why():
    nothing = score(lambda texts, images: np.zeros(COUNT), "image", repeats=1, majority=None)
    assert nothing.spread is None
    assert nothing.by_model.value is None
    assert "no item is right" in nothing.by_model.reason
    assert nothing.by_task.value is None
    assert "commonest label" in nothing.by_task.reason
    one = score(lambda texts, images: np.ones(COUNT), "image", majority=1.0)
    assert "one label" in one.by_task.reason
    with pytest.raises(ValueError, match="repeat"):
        draw_donors(["a", "a"], 1, 0)
    with pytest.raises(ValueError, match="sound"):
        score(lambda texts, images: np.ones(COUNT), "sound")
