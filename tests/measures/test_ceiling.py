"""Agreement of two draws of the same attributions, against values worked by hand."""

import numpy as np
import pytest

from waltz.attribution.shapley.estimate import Estimate
from waltz.consistency.cc_shap.measure import SharedEstimate
from waltz.core.intervals import Resampling
from waltz.measures.ceiling import compare_draws, summarize_reliabilities, take_parts

HOW = Resampling(200, 0.95, 3)


def build_side(*parts):
    """Return attributions of two players for one output, one part a permutation."""
    stacked = np.array(parts, dtype=np.float64)[..., None]
    phi = stacked.mean(axis=0)
    return SharedEstimate(
        Estimate(phi, np.zeros(1), phi.sum(axis=0), 10, stacked), np.arange(2)
    )


def test_first_permutations_are_a_smaller_budget():
    side = take_parts(build_side([1, 0], [3, 2], [5, 7]), slice(2))
    assert side.estimate.phi[:, 0].tolist() == [2, 1]
    assert len(side.estimate.parts) == 2


def test_two_draws_by_hand():
    # ratios of the answer (1, 0) and (3, 4) / 7, of the explanation (0, 1) and (0, 1)
    draws = [
        (build_side([1, 0]), build_side([0, 2])),
        (build_side([3, 4]), build_side([0, 1])),
    ]
    found = compare_draws(draws, 1)
    assert found.answer == pytest.approx(3 / 5)
    assert found.explanation == pytest.approx(1)
    assert found.ceiling == pytest.approx(np.sqrt(3 / 5))
    assert found.cc_shap == pytest.approx((0 + 4 / 5) / 2)
    assert found.crossed == pytest.approx((0 + 4 / 5) / 2)
    assert np.isnan(found.halves)


def test_halves_are_stepped_up():
    # halves (1, 0) and (3, 4): cosine 3 / 5, stepped up to 2 * 0.6 / 1.6 = 3 / 4; the explanation's
    # are equal
    sides = (build_side([1, 0], [3, 4]), build_side([0, 1], [0, 1]))
    assert compare_draws([sides, sides], 2).halves == pytest.approx(np.sqrt(3 / 4))


def test_noise_bounds_the_cc_shap_of_an_answer_and_explanation_that_rest_on_the_same():
    generator = np.random.default_rng(0)
    truth = generator.normal(size=40)

    def draw():
        parts = truth + generator.normal(scale=3, size=(4, 40))
        phi = parts.mean(axis=0)[:, None]
        return SharedEstimate(
            Estimate(phi, np.zeros(1), phi.sum(axis=0), 10, parts[..., None]),
            np.arange(40),
        )

    items = [compare_draws([(draw(), draw()), (draw(), draw())], 4) for _ in range(60)]
    measures = summarize_reliabilities(
        items, [f"i{number}" for number in range(60)], HOW
    )
    assert measures["cc_shap"].value < 0.5
    assert measures["cc_shap crossed"].value == pytest.approx(
        measures["ceiling"].value, abs=0.05
    )
    assert measures["split halves"].value == pytest.approx(
        measures["ceiling"].value, abs=0.1
    )
    assert (
        measures["share of ceiling"].ci_low < 100 < measures["share of ceiling"].ci_high
    )
