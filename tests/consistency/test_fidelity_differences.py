"""Both profiles on one item: how far they lie apart, and why."""

import importlib.util
import math

import numpy as np
import pytest

from conftest import ROOT
from waltz.attribution.shapley.estimate import Estimate
from waltz.consistency.cc_shap.measure import SharedEstimate, compute_cc_shap
from waltz.core.intervals import Resampling
from waltz.fidelity import get_fidelity

SPEC = importlib.util.spec_from_file_location(
    "fidelity_differences", ROOT / "benchmarks" / "fidelity_differences.py"
)
fidelity_differences = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(fidelity_differences)
Difference, ExplainedItem = (
    fidelity_differences.Difference,
    fidelity_differences.ExplainedItem,
)
compare_profiles = fidelity_differences.compare_profiles
compute_mean_difference = fidelity_differences.compute_mean_difference


def side(phi, shared, parts=None, exact=False):
    phi = np.asarray(phi, dtype=np.float64)
    return SharedEstimate(
        Estimate(phi, np.zeros(phi.shape[1]), phi.sum(axis=0), 1, parts, exact),
        np.arange(shared),
    )


def exact_game(answer, explanation, text, shared=2):
    return ExplainedItem(
        side(answer, shared, exact=True),
        side(explanation, shared, exact=True),
        text,
        text,
    )


def test_the_arithmetic_alone():
    # ratios of the two tokens (1, 0) and (1/9, 8/9), their mean (5/9, 4/9); raw sums 2 and 8
    game = exact_game([[1], [1]], [[1, 1], [0, 8]], slice(0, 1))
    comparison = compare_profiles(game, game)
    assert comparison.t_shap_answer.value == 0
    assert comparison.t_shap_explanation.equations == pytest.approx(5 / 9)
    assert comparison.t_shap_explanation.published == pytest.approx(2 / 10)
    assert comparison.t_shap_explanation.value == pytest.approx(2 / 10 - 5 / 9)
    assert comparison.t_shap_explanation.by_arithmetic == pytest.approx(
        comparison.t_shap_explanation.value
    )
    assert comparison.t_shap_explanation.beyond_error
    assert comparison.t_shap_answer.beyond_error is False
    assert comparison.cc_shap.value == pytest.approx(0)
    assert comparison.cc_shap.standard_error == 0


def test_the_game_alone():
    published, equations = (
        exact_game([[1], [3]], [[1], [1]], slice(1, 2)),
        exact_game([[3], [1]], [[3], [1]], slice(0, 1)),
    )
    comparison = compare_profiles(published, equations)
    # Text stands behind the image in the one, before it in the other.
    assert comparison.t_shap_answer.value == 0
    assert comparison.t_shap_explanation.value == pytest.approx(1 / 2 - 3 / 4)
    assert comparison.t_shap_explanation.by_arithmetic == 0
    assert comparison.cc_shap.value == pytest.approx(4 / math.sqrt(20) - 1)
    assert comparison.cc_shap.by_arithmetic == pytest.approx(0)


def test_errors_of_both_add_up():
    generator = np.random.default_rng(0)
    games = []
    for _ in range(2):
        answers, explanations = (
            generator.normal(1, 0.4, (5, 4, 1)),
            generator.normal(1, 0.4, (5, 4, 3)),
        )
        sides = [
            side(parts.mean(axis=0), 3, parts) for parts in (answers, explanations)
        ]
        games.append(ExplainedItem(*sides, slice(0, 2), slice(0, 2)))
    comparison = compare_profiles(*games).cc_shap
    alone = [
        compute_cc_shap(
            game.answer, game.explanation, get_fidelity(profile)
        ).standard_error
        for game, profile in zip(games, ("published", "equations"), strict=True)
    ]
    assert comparison.standard_error == pytest.approx(math.hypot(*alone))
    assert comparison.beyond_error == (
        abs(comparison.value) > 1.96 * comparison.standard_error
    )


def test_reasons_name_the_profile():
    nothing = exact_game([[0], [0]], [[1], [1]], slice(0, 1))
    comparison = compare_profiles(
        nothing, exact_game([[1], [1]], [[1], [1]], slice(0, 1))
    )
    assert comparison.cc_shap.value is None
    assert comparison.cc_shap.beyond_error is None
    assert comparison.cc_shap.equations == pytest.approx(1)
    assert (
        comparison.cc_shap.reason
        == "published: no shared player contributes to the answer"
    )
    assert comparison.t_shap_answer.reason.startswith(
        "published: every Shapley value is 0"
    )
    assert comparison.t_shap_explanation.value == 0
    unknown = ExplainedItem(
        side([[1], [1]], 2), side([[1], [2]], 2), slice(0, 1), slice(0, 1)
    )
    comparison = compare_profiles(unknown, unknown).cc_shap
    assert (comparison.value, comparison.standard_error) == (0, None)
    assert (
        "published: the estimator of the answer gives no independent parts"
        in comparison.reason
    )


def test_a_mean_over_items():
    differences = [
        Difference(0.5, 0.25, 0.25, 0.0, None),
        Difference(0.5, 0.75, -0.25, 0.0, None),
    ]
    differences.append(Difference(None, 0.5, None, 0.0, None))
    how = Resampling(resamples=200, confidence=0.95, seed=0)
    mean = compute_mean_difference(differences, ["a", "b", "c"], "x", how)
    assert (mean.value, mean.n) == (0, 2)
    # Student's t of one degree of freedom, 12.7 errors of 0.25, on the logit between the bounds
    assert mean.ci_low == pytest.approx(-mean.ci_high)
    assert mean.ci_high > 0.9
    assert (
        "none of 1 items"
        in compute_mean_difference(differences[2:], ["c"], "x", how).reason
    )
