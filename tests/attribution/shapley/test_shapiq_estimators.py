"""shapiq's estimators: right on games whose values are known, reported as they are."""

import numpy as np
import pytest
import shapiq

from stand_ins.games import additive, play, random_terms, unanimity, unanimity_phi
from waltz.attribution.shapley.shapiq_estimators import MIN_EVALUATIONS, begin_shapiq
from waltz.core.errors import UserError

EXACT_IF_ADDITIVE = ("KernelSHAP", "PermutationSamplingSV", "StratifiedSamplingSV", "OwenSamplingSV")
EFFICIENT = ("KernelSHAP", "UnbiasedKernelSHAP", "PermutationSamplingSV")


@pytest.mark.parametrize("name", EXACT_IF_ADDITIVE)
@pytest.mark.parametrize("players", [2, 9, 26])
def test_additive_games_are_found_with_few_evaluations(name, players):
    weights = np.random.default_rng(players).normal(size=(players, 2))
    least = MIN_EVALUATIONS[name](players)
    found, asked = play(begin_shapiq(name, players, least, 1), additive(weights))
    # shapiq puts 1e8 for the infinite weights of KernelSHAP, so that it is right to about six digits
    np.testing.assert_allclose(found.phi, weights, atol=1e-4 if name == "KernelSHAP" else 1e-12)
    assert found.residual <= 1e-9
    assert found.requested == sum(map(len, asked)) <= least
    np.testing.assert_allclose(found.base_value, [0.5, 0.5])
    np.testing.assert_allclose(found.value, weights.sum(axis=0) + 0.5)


@pytest.mark.parametrize("name", [name for name in MIN_EVALUATIONS if name != "OwenSamplingSV"])
def test_the_mean_over_seeds_nears_the_truth(name):
    # OwenSamplingSV integrates at ten points, whose error does not go away with the mean
    terms = random_terms(6, 5, longest=4, count=12)
    budget = max(40, MIN_EVALUATIONS[name](6))
    found = np.stack([play(begin_shapiq(name, 6, budget, seed), unanimity(terms))[0].phi[:, 0] for seed in range(60)])
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    # KernelSHAP's regression is biased a little
    assert (np.abs(found.mean(axis=0) - unanimity_phi(6, terms)[:, 0]) <= 4 * error + 0.02).all()
    assert found.std(axis=0).max() > 1e-3


@pytest.mark.parametrize("name", ["KernelSHAP", "UnbiasedKernelSHAP", "SVARM"])
def test_all_coalitions_give_exact_values(name):
    terms = random_terms(6, 2)
    found, _ = play(begin_shapiq(name, 6, 70, 0), unanimity(terms))
    np.testing.assert_allclose(found.phi, unanimity_phi(6, terms), atol=1e-5)
    assert found.exact
    assert found.requested == 64


@pytest.mark.parametrize("name", MIN_EVALUATIONS)
def test_the_residual_says_what_is_missing(name):
    game = unanimity(random_terms(10, 3))
    found, _ = play(begin_shapiq(name, 10, MIN_EVALUATIONS[name](10) + 20, 4), game)
    ends = game(np.array([[False] * 10, [True] * 10]))[:, 0]
    assert found.residual == pytest.approx(abs(found.phi.sum() - (ends[1] - ends[0])), abs=1e-12)
    assert (found.residual < 1e-6) == (name in EFFICIENT)
    assert found.parts is None
    assert not found.exact


@pytest.mark.parametrize("name", MIN_EVALUATIONS)
def test_it_is_shapiq_run_directly(name):
    game = unanimity(random_terms(8, 6))
    found, _ = play(begin_shapiq(name, 8, 165, 11), game)
    paired = {"pairing_trick": True} if name == "KernelSHAP" else {}
    budget = 164 if name == "OwenSamplingSV" else 165
    direct = getattr(shapiq, name)(n=8, random_state=11, **paired).approximate(
        budget, lambda masks: game(np.atleast_2d(masks))[:, 0]
    )
    np.testing.assert_array_equal(found.phi[:, 0], [direct[(player,)] for player in range(8)])


@pytest.mark.parametrize("name", MIN_EVALUATIONS)
def test_no_global_generator_matters_or_is_touched(name):
    game = unanimity(random_terms(7, 1))
    np.random.seed(3)
    before = np.random.get_state()[1].copy()
    first, _ = play(begin_shapiq(name, 7, 142, 2), game)
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    np.random.seed(4)
    again, _ = play(begin_shapiq(name, 7, 142, 2), game)
    np.testing.assert_array_equal(first.phi, again.phi)


def test_few_players_and_few_evaluations():
    one, _ = play(begin_shapiq("SVARM", 1, 2, 0), additive(np.array([2.0])))
    assert (one.phi.item(), one.exact) == (2.0, True)
    with pytest.raises(UserError, match=r"too small for KernelSHAP and 20 players \(got 79, expected at least 80\)"):
        begin_shapiq("KernelSHAP", 20, 79, 0)
    with pytest.raises(UserError, match=r"StratifiedSamplingSV and 18 players \(got 370, expected at least 614\)"):
        begin_shapiq("StratifiedSamplingSV", 18, 370, 0)


def test_a_regression_that_its_coalitions_do_not_determine_is_refused(monkeypatch):
    whole = shapiq.KernelSHAP

    def all_or_nobody(*, n, **kwargs):
        approximator = whole(n=n, **kwargs)
        return type("Poor", (), {"approximate": lambda self, budget, value: approximator.approximate(4, value)})()

    monkeypatch.setattr("shapiq.KernelSHAP", all_or_nobody)
    with pytest.raises(UserError, match="do not determine 8 players"):
        next(begin_shapiq("KernelSHAP", 8, 40, 0))
