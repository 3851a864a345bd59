"""Late fusion run side by side: the values of brute force, regressions, honest errors, bounded
memory.
"""

import math
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom, t

from stand_ins.games import predict_part
from stand_ins.models.toy_encoders import Toy, game, picture, text
from stand_ins.transfers import CountTransfers
from waltz.attribution.mm_shap import choose_outcome
from waltz.attribution.shapley import late_fusion
from waltz.attribution.shapley.estimate import AttributionSettings, estimate_in_step
from waltz.attribution.shapley.estimators import begin_estimation
from waltz.attribution.shapley.late_fusion import (
    average_all_orders,
    average_some_orders,
    build_image_vectors,
    choose_estimator,
    compute_error_covariance,
    compute_factorized,
    compute_interleaving,
    compute_shapley_values,
)
from waltz.attribution.shapley.regression import DRAWS, draw_subsets
from waltz.attribution.t_shap import compute_t_shap, measure_t_shap
from waltz.fidelity import PUBLISHED
from waltz.models.encoders.coalitions import EncoderCoalitions, build_published_players

IDS = (2, 9, 14, 7, 3)


def brute_force(encoder, image, players) -> np.ndarray:
    """Shapley values as their definition says, over every coalition."""
    number = len(players)
    masks = (np.arange(2**number)[:, None] >> np.arange(number)) & 1 == 1
    values = EncoderCoalitions(
        encoder, image, [players], choose_outcome(encoder)
    ).values([masks])[0][:, 0]
    sizes = masks.sum(axis=1)
    phi = np.zeros(number)
    for player in range(number):
        without = np.flatnonzero(~masks[:, player])
        size = sizes[without]
        weight = [
            math.factorial(s) * math.factorial(number - s - 1) / math.factorial(number)
            for s in range(number)
        ]
        phi[player] = np.take(weight, size) @ (
            values[without + 2**player] - values[without]
        )
    return phi


@pytest.mark.parametrize("profile", ["published", "equations"])
def test_exact_values_are_those_of_brute_force(profile):
    encoder, image = Toy(), picture()
    players = game(encoder, image, *IDS, profile=profile)
    (estimate,) = compute_factorized(encoder, image, [players])
    expected = brute_force(encoder, image, players)
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(
        estimate.estimate.phi[:, 0], expected, rtol=0, atol=1e-14
    )
    assert estimate.estimate.residual < 1e-14
    assert estimate.estimate.exact
    assert measure(estimate, players).standard_error == 0
    free = (~players.always_visible[: players.n_text_players]).sum()
    assert (
        estimate.passes
        == estimate.estimate.requested
        == 2**free + 2**players.n_image_players
    )


def test_the_values_at_both_ends_are_those_of_the_encoder():
    encoder, image = Toy(scale=3.0, bias=-2.0), picture(1)
    players = game(encoder, image, *IDS)
    (estimate,) = compute_factorized(encoder, image, [players])
    ends = np.array([[False] * len(players), [True] * len(players)])
    expected = EncoderCoalitions(
        encoder, image, [players], choose_outcome(encoder)
    ).values([ends])[0]
    np.testing.assert_allclose(
        [estimate.estimate.base_value, estimate.estimate.value],
        expected,
        rtol=0,
        atol=1e-14,
    )


def test_texts_with_one_grid_share_the_image_side():
    encoder, image = Toy(), picture()
    games = [
        game(encoder, image, *IDS),
        game(encoder, image, 2, 5, 6, 3),
        game(encoder, image, 2, 5, 4, 4, 8, 6, 3),
    ]
    assert [players.grid for players in games] == [3, 2, 3]
    compute_factorized(encoder, image, games)
    assert sum(encoder.passes["see"]) == 2**9 + 2**4
    assert sum(encoder.passes["read"]) == 2**3 + 2**2 + 2**5
    for players, estimate in zip(
        games, compute_factorized(encoder, image, games), strict=True
    ):
        (alone,) = compute_factorized(encoder, image, [players])
        np.testing.assert_array_equal(estimate.estimate.phi, alone.estimate.phi)


def test_vectors_come_to_the_host_in_blocks_bounded_by_memory(monkeypatch):
    encoder, image = Toy(), picture()
    players = game(encoder, image, *IDS)
    compute_vectors = build_image_vectors(encoder, image, players)
    masks = np.random.default_rng(0).random((40, 9)) < 0.5
    with CountTransfers() as transfers:
        together = compute_vectors(masks)
    assert encoder.passes["see"] == [8] * 5
    assert transfers.names == ["cpu"]
    vector_bytes = together[0].nbytes
    monkeypatch.setattr(late_fusion, "MAX_WAITING_BYTES", 15 * vector_bytes)
    with CountTransfers() as transfers:
        np.testing.assert_array_equal(compute_vectors(masks), together)
    assert transfers.names == ["cpu"] * 3


def test_weights_of_interleavings():
    # one of two own players after one of the other side, by hand: orders of x1 x2 y put y first,
    # between or last
    np.testing.assert_allclose(
        compute_interleaving(2, 1), [[2 / 3, 1 / 3], [1 / 3, 2 / 3]]
    )
    np.testing.assert_allclose(compute_interleaving(6, 4).sum(axis=1), 1)
    assert compute_interleaving(0, 3).shape == (0, 4)
    # with the share of one subset of each size, the classical weight (s + u)! (n - s - u - 1)! / n!
    a, b = 5, 4
    for s in range(a):
        for u in range(b + 1):
            weight = compute_interleaving(a, b)[s, u] / (
                a * math.comb(a - 1, s) * math.comb(b, u)
            )
            classical = (
                math.factorial(s + u)
                * math.factorial(a + b - s - u - 1)
                / math.factorial(a + b)
            )
            assert weight == pytest.approx(classical, rel=1e-13)


def measure(factorized, players):
    return measure_t_shap(factorized.estimate, players.n_text_players)


def look_up(table):
    return lambda masks: table[masks @ (1 << np.arange(masks.shape[1]))]


def random_vectors(seed, players, width=4):
    return look_up(np.random.default_rng(seed).normal(size=(2**players, width)))


def test_regressions_are_efficient_and_near_the_truth_with_more_passes():
    encoder, image = Toy(width=6), picture()
    players = game(encoder, image, *range(2, 11))  # 7 free tokens and 9 patches
    expected = compute_factorized(encoder, image, [players])[0].estimate.phi[:, 0]
    errors = []
    for budget in (36, 100, 300):
        estimates = [
            one.estimate for one in sampled(encoder, image, players, budget, range(4))
        ]
        assert max(estimate.residual for estimate in estimates) < 1e-7
        assert all(estimate.requested <= budget for estimate in estimates)
        errors.append(
            np.mean(
                [
                    np.linalg.norm(estimate.phi[:, 0] - expected)
                    for estimate in estimates
                ]
            )
        )
    assert errors[0] > 1.5 * errors[1] > 1.5 * 1.5 * errors[2] > 0


def test_a_regression_on_all_subsets_is_exact():
    vectors = random_vectors(2, 5)
    every, some = (
        average_all_orders(vectors, 5),
        average_some_orders(vectors, 5, 32, (0,)),
    )
    np.testing.assert_allclose(some.gains, every.gains, atol=1e-6)
    np.testing.assert_allclose(some.means, every.means, atol=1e-6)


def sampled(encoder, image, players, passes, seeds):
    return [
        compute_factorized(encoder, image, [players], passes, seed)[0] for seed in seeds
    ]


def test_regressions_beat_plain_permutations_at_equal_passes():
    encoder, image = Toy(width=6), picture()
    players = game(encoder, image, *range(2, 12))  # 8 free tokens and 16 patches
    expected = compute_factorized(encoder, image, [players])[0].estimate.phi[:, 0]
    rows = 4 * (2 * len(players) + 1)
    ours, plain = [], []
    for seed in range(12):
        table = EncoderCoalitions(encoder, image, [players], choose_outcome(encoder))
        settings = AttributionSettings(PUBLISHED, "permutation", rows, seed)
        (estimate,) = estimate_in_step(
            [
                begin_estimation(
                    "permutation", len(players), players.n_text_players, settings
                )
            ],
            table.values,
        )
        (factorized_estimate,) = compute_factorized(
            encoder, image, [players], table.image_count + table.text_count, seed
        )
        assert factorized_estimate.passes <= table.image_count + table.text_count
        plain.append(((estimate.phi[:, 0] - expected) ** 2).sum())
        ours.append(((factorized_estimate.estimate.phi[:, 0] - expected) ** 2).sum())
    assert np.mean(ours) < 0.5 * np.mean(plain)


@pytest.mark.parametrize("ids", [range(2, 9), range(2, 11)])
def test_intervals_of_t_shap_cover_the_truth(ids):
    hits, trials = 0, 0
    for number in range(4):
        encoder, image = Toy(width=8, seed=number), picture(number)
        players = game(encoder, image, *ids)
        truth = compute_t_shap(
            compute_factorized(encoder, image, [players])[0].estimate.phi,
            players.n_text_players,
        )
        for one in sampled(encoder, image, players, 64, range(8)):
            hits += (
                abs(compute_t_shap(one.estimate.phi, players.n_text_players) - truth)
                < t.ppf(0.975, 5) * measure(one, players).standard_error
            )
            trials += 1
    assert hits >= binom.ppf(0.01, trials, 0.95)


def test_passes_end_at_the_standard_error():
    encoder, image = Toy(width=6), picture()
    games = [game(encoder, image, *range(2, 11)), game(encoder, image, *range(4, 13))]
    free = compute_factorized(encoder, image, games, 300)
    target = 4 * max(
        measure(one, players).standard_error
        for one, players in zip(free, games, strict=True)
    )
    encoder.passes.update(see=[], read=[])
    stopped = compute_factorized(encoder, image, games, 300, standard_error=target)
    for one, players in zip(stopped, games, strict=True):
        assert measure(one, players).standard_error <= target
        assert one.estimate.stopped_by == "standard error"
        assert one.estimate.requested < 300
    assert sum(encoder.passes["see"] + encoder.passes["read"]) == sum(
        one.passes for one in stopped
    )
    (never,) = compute_factorized(encoder, image, games[:1], 100, standard_error=1e-9)
    assert never.estimate.stopped_by == "evaluations"
    np.testing.assert_array_equal(
        never.estimate.phi,
        compute_factorized(encoder, image, games[:1], 100)[0].estimate.phi,
    )


def test_the_pairs_are_those_of_the_side_that_has_fewer():
    encoder, image = Toy(), picture()
    players = game(encoder, image, *range(2, 9))  # 5 free tokens, 9 patches
    (estimate,) = compute_factorized(encoder, image, [players], 200, 0)
    assert not estimate.estimate.exact
    assert estimate.estimate.pairs == (200 - 32 - 20) // 2
    assert estimate.estimate.parts.shape == (2 * DRAWS, len(players), 1)
    (single,) = compute_factorized(encoder, image, [players], 64, 0)
    assert math.isfinite(measure(single, players).standard_error)
    (none,) = compute_factorized(encoder, image, [players], 32, 0)
    assert none.estimate.requested == 32
    assert math.isnan(measure(none, players).standard_error)
    assert "two give an error" in measure(none, players).reason
    # 7 free tokens, whose regression needs 16 of 128 subsets.
    longer = game(encoder, image, *range(2, 11))
    (both,) = compute_factorized(encoder, image, [longer], 60, 0)
    assert measure(both, longer).parts == both.estimate.pairs == 6


@pytest.mark.parametrize(
    ("words", "grid", "passes"),
    [
        # 16 subsets of 4 tokens, or the 10 that a regression needs; 34 of 16 patches
        (
            4,
            4,
            {
                44: (10, 34),
                47: (10, 34),
                48: (12, 36),
                49: (12, 36),
                50: (16, 34),
                51: (16, 34),
                52: (16, 36),
            },
        ),
        # the same with both sides exchanged: 18 of 8 tokens, 16 or 10 of 4 patches
        (
            8,
            2,
            {
                28: (18, 10),
                31: (18, 10),
                32: (20, 12),
                33: (20, 12),
                34: (18, 16),
                35: (18, 16),
                36: (20, 16),
            },
        ),
        # all 64 subsets of 6 tokens are more than half of 127
        (
            6,
            4,
            {126: (52, 72), 127: (52, 72), 128: (64, 64), 129: (64, 64), 130: (64, 66)},
        ),
        (5, 5, {64: (12, 52), 83: (20, 60), 84: (32, 52), 86: (32, 54)}),
    ],
)
def test_a_budget_is_split_between_both_sides(words, grid, passes):
    encoder, image = Toy(), picture()
    players = build_published_players(encoder, text(*range(2, 4 + words)), image, grid)
    for budget, (for_words, for_patches) in passes.items():
        encoder.passes.update(see=[], read=[])
        (estimate,) = compute_factorized(encoder, image, [players], budget, 0)
        assert (sum(encoder.passes["read"]), sum(encoder.passes["see"])) == (
            for_words,
            for_patches,
        ), budget
        assert (
            estimate.passes
            == estimate.estimate.requested
            == for_words + for_patches
            <= budget
        )


@pytest.mark.parametrize("text_passes", [10, 14])
def test_the_error_covariance_is_that_of_all_vectors_of_both_sides(text_passes):
    # Four tokens and five patches, whose vectors have two numbers.
    sizes = {"text": (4, text_passes, 1), "image": (5, 18, 2)}
    sides = {
        name: average_some_orders(random_vectors(seed, n, 2), n, passes, (0,))
        for name, (n, passes, seed) in sizes.items()
    }
    expected = np.zeros((9, 9))
    for name, (n, passes, seed) in sizes.items():
        masks = draw_subsets(n, passes, (0,))
        # The values are linear in each number of each vector of one side.
        changes = []
        for number in range(2 * 2**n):
            table = np.zeros(2 * 2**n)
            table[number] = 1
            vectors = look_up(table.reshape(-1, 2))
            changed = sides | {name: average_all_orders(vectors, n)}
            changes.append(np.concatenate(compute_shapley_values(**changed)))
        weights = np.array(changes).T.reshape(9, 2**n, 2)
        for sign in (-1, 1):
            values = random_vectors(seed, n, 2)(masks)
            _, covariance, misses = predict_part(masks, values, sign)
            scale = misses.T @ misses / len(misses)
            expected += np.einsum(
                "isd,st,de,jte->ij", weights, covariance, scale, weights
            )
    # The nugget leaves the values of none and all within 1e-5; the values count them as known.
    np.testing.assert_allclose(
        compute_error_covariance(**sides), expected, rtol=0, atol=1e-3 * expected.max()
    )


def test_rounds_grow_by_a_tenth_and_two_that_follow_each_other_must_meet_the_standard_error():
    encoder, image = Toy(width=6), picture()
    # 16 and 20 subsets that every regression needs, and 40 more.
    players = game(encoder, image, *range(2, 11))
    budgets = [76, 84, 93, 103, 114, 126, 139, 153, 169, 186, 200]
    free = [
        compute_factorized(encoder, image, [players], budget)[0] for budget in budgets
    ]
    stops = set()
    errors = [measure(estimate, players).standard_error for estimate in free]
    for target in sorted(errors):
        (stopped,) = compute_factorized(
            encoder, image, [players], 200, standard_error=target
        )
        met = [
            error <= target and estimate.estimate.pairs >= 10
            for error, estimate in zip(errors, free, strict=True)
        ]
        expected = next(
            (index + 1 for index, both in enumerate(pairwise(met)) if all(both)),
            len(free) - 1,
        )
        np.testing.assert_array_equal(stopped.estimate.phi, free[expected].estimate.phi)
        assert (
            stopped.passes
            == stopped.estimate.requested
            == free[expected].estimate.requested
        )
        stops.add(expected)
    assert len(stops) > 2


def test_no_side_has_more_subsets_than_a_regression_takes(monkeypatch):
    monkeypatch.setattr("waltz.attribution.shapley.late_fusion.MAX_COALITIONS", 30)
    encoder, image = Toy(), picture()
    # 7 free tokens and 9 patches, which need 16 and 20.
    longer = game(encoder, image, *range(2, 11))
    (both,) = compute_factorized(encoder, image, [longer], 100, 0)
    assert (sum(encoder.passes["read"]), sum(encoder.passes["see"])) == (30, 30)
    assert both.estimate.pairs == 5  # of the patches, fewer than the 7 of the tokens
    # All 32 subsets of 5 tokens, and 9 patches.
    few_tokens = game(encoder, image, *range(2, 9))
    # 8 tokens, all 16 of 4 patches.
    few_patches = build_published_players(encoder, text(*range(2, 12)), image, 2)
    for players, passes in ((few_tokens, (32, 30)), (few_patches, (30, 16))):
        encoder.passes.update(see=[], read=[])
        compute_factorized(encoder, image, [players], 100, 0)
        assert (sum(encoder.passes["read"]), sum(encoder.passes["see"])) == passes


def test_a_budget_for_all_subsets_gives_exact_values():
    encoder, image = Toy(), picture()
    players = game(encoder, image, *IDS)
    (estimate,) = compute_factorized(encoder, image, [players], 2**3 + 2**9, 0)
    assert estimate.estimate.exact
    np.testing.assert_array_equal(
        estimate.estimate.phi,
        compute_factorized(encoder, image, [players])[0].estimate.phi,
    )


def test_the_estimator_follows_from_the_budget():
    image = picture()
    late, early = Toy(), Toy(late=False)
    players = game(late, image, *range(2, 11))  # 7 free tokens, 9 patches
    assert choose_estimator(late, players, 640) == "exact-factorised"
    assert choose_estimator(late, players, 639) == "factorised-regression"
    assert choose_estimator(early, players, 10**6) == "permutation"
    assert (
        choose_estimator(early, players, 4096)
        == choose_estimator(early, players, 34)
        == "regression"
    )
    # Refuses it, and says that it needs 34.
    assert choose_estimator(early, players, 33) == "regression"
    assert (
        choose_estimator(late, players, 36)
        == choose_estimator(late, players, 9)
        == "factorised-regression"
    )
    assert (
        choose_estimator(late, players, 640, standard_error=0.01)
        == "factorised-regression"
    )
    few = game(early, image, *IDS)  # 3 free tokens, 9 patches
    assert choose_estimator(early, few, 4096) == "exact"
    assert choose_estimator(early, few, 4095) == "regression"


def test_a_grid_of_sixteen_is_summed_as_it_comes():
    encoder, image = Toy(images_per_batch=256), picture()
    players = game(encoder, image, *range(2, 12))
    compute_factorized(encoder, image, [game(encoder, image, *IDS)])
    tracemalloc.start()
    (estimate,) = compute_factorized(encoder, image, [players])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(encoder.passes["see"]) == 2**9 + 2**16
    assert max(encoder.passes["see"]) <= 256
    assert estimate.estimate.residual < 1e-12
    assert peak < 8e6  # 65,536 masks alone are 1 MB a player


def test_a_text_without_players_leaves_the_patches():
    encoder, image = Toy(), picture()
    players = game(encoder, image, 2, 3)
    (estimate,) = compute_factorized(encoder, image, [players])
    np.testing.assert_allclose(
        estimate.estimate.phi[:, 0], brute_force(encoder, image, players), atol=1e-14
    )
    assert estimate.estimate.phi[:2].tolist() == [[0.0], [0.0]]
    # The text is read once.
    assert estimate.passes == estimate.estimate.requested == 1 + 2**4
