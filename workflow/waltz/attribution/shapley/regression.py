"""Regression on coalitions: Shapley values of the smoothest function that has the values of some
coalitions.

The value of a coalition is predicted from the values v of m coalitions as v(S) = c + Σ α(B) r^d(S,
B), with d(S, B) the number of players in which S and B differ, c the mean of v(all) and v(none),
and α such that the prediction is right for all m coalitions. This is the mean of a Gaussian process
on coalitions with correlation r^d. Among `CORRELATIONS`, r is the value that predicts each of the m
values best from the others; near 1 the prediction is additive. The mean of a prediction over the
coalitions of one size, with or without a player, has a closed form, so that the Shapley values of
the prediction need no sampling.

The coalitions are: no player, all players, each single player, all players but one; then pairs of a
random coalition and its complement, of all sizes in turn. The Shapley values are exact if all
coalitions are known, or if r describes the game. Otherwise the gains in unknown coalitions are
predicted too close to the gains in known ones; this bias shrinks with more coalitions. Leaving out
each random pair in turn shows how far the prediction is off, which gives a standard error.
"""

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from waltz.attribution.shapley.estimate import (
    MIN_PARTS,
    Estimate,
    Estimation,
    describe_stop,
)
from waltz.attribution.t_shap import compute_t_shap_error
from waltz.core.errors import UserError

CORRELATIONS = (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99, 0.999)
"""Candidates for r, the correlation of the values of two coalitions that differ in one player."""
MAX_COALITIONS = 4096
"""Largest number of coalitions of one regression; its time grows with their cube, its memory with
their square.
"""
ROUND = 16
"""Number of coalitions that are computed together in one round: eight pairs of complements."""
GROWTH = 1.1
"""Factor by which the number of coalitions grows between two checks of the standard error."""
NUGGET = 1e-10
"""Variance that is added to keep the equations solvable for many coalitions, a share of the
variance of the process.
"""
MAX_MISFIT = 3e-5
"""Largest allowed difference of a prediction from a value that it was fitted to, a share of the
largest value.
"""


@dataclass(frozen=True, eq=False)
class Fit:
    """Hold the averages of a prediction of all coalitions from which Shapley values are computed.

    A value has any width: one number for each output, or a vector of an encoder. All arrays are
    float64.

    Attributes:
        gains: Mean gain of a player at a position, over all orders of the players, (players,
            positions, width). An order in which another player has this position counts as zero, so
            that the sum over positions is phi.
        means: Mean value of the coalitions of each size, (players + 1, width).
        residuals: For each random pair of complements, the values minus their prediction without
            this pair, (pairs, 2, width).
        gain_changes: Change of `gains` for each unit of a residual, (pairs, 2, players, positions),
            if the pair is left out of the prediction, and its residuals are then added for all
            coalitions of its sizes.
        mean_changes: The same change of `means`, (pairs, 2, players + 1).
    """

    gains: np.ndarray
    means: np.ndarray
    residuals: np.ndarray
    gain_changes: np.ndarray
    mean_changes: np.ndarray


def count_fixed_subsets(players: int) -> int:
    """Return the number of coalitions that every regression needs: no player, all, single players,
    all but one.
    """
    # With two players or fewer, some of these coalitions are equal.
    return min(2 * players + 2, 1 << players)


def draw_subsets(players: int, count: int, seed: Sequence[int]) -> np.ndarray:
    """Return distinct coalitions for a regression: bool of shape (k, players), k at most `count`.

    The coalitions that every regression needs come first, then random coalitions, each followed by
    its complement. A larger count with the same seed begins with the coalitions of a smaller one.
    """
    nobody = np.zeros((1, players), dtype=bool)
    single = np.eye(players, dtype=bool)
    fixed = np.concatenate([nobody, ~nobody, single, ~single])
    # With two players or fewer some of these coalitions are equal; only the first of them stays.
    first_positions = np.unique(fixed, axis=0, return_index=True)[1]
    fixed = fixed[np.sort(first_positions)]

    n_pairs = max(0, (count - len(fixed)) // 2)
    all_halves = _draw_halves(players, np.random.default_rng(seed))
    halves = list(itertools.islice(all_halves, n_pairs))
    if not halves:
        return fixed
    coalitions = np.array(halves)  # (pairs, players)
    # (pairs, 2, players): each coalition with its complement, one after the other.
    pairs = np.stack([coalitions, ~coalitions], axis=1)
    return np.concatenate([fixed, pairs.reshape(-1, players)])


def _draw_halves(players: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield random coalitions of the sizes from 2 to players // 2 in turn, one of each pair of
    complements.

    It ends when every pair was drawn.
    """
    # The number of pairs of each size that are not drawn yet.
    left = {size: _count_pairs(players, size) for size in range(2, players // 2 + 1)}
    seen: set[bytes] = set()
    while any(left.values()):
        sizes = [size for size, count in left.items() if count]
        for size in generator.permutation(sizes).tolist():
            half = _draw_unseen(players, size, generator, seen)
            seen.add(half.tobytes())
            left[size] -= 1
            yield half


def _draw_unseen(
    players: int, size: int, generator: np.random.Generator, seen: set[bytes]
) -> np.ndarray:
    """Return a random coalition of a size; neither it nor its complement was seen before: bool of
    shape (players,).
    """
    while True:
        half = np.zeros(players, dtype=bool)
        half[generator.permutation(players)[:size]] = True
        if half.tobytes() not in seen and (~half).tobytes() not in seen:
            return half


def _count_pairs(players: int, size: int) -> int:
    """Return the number of pairs of complementary coalitions in which one coalition has this size."""
    count = math.comb(players, size)
    if 2 * size == players:
        # The complement has the same size, so that each pair was counted twice.
        return count // 2
    return count


def fit_subsets(masks: np.ndarray, values: np.ndarray) -> Fit:
    """Predict the values of all coalitions from the values of some, and return the averages of the
    prediction.

    Args:
        masks: Coalitions of `draw_subsets`, bool of shape (m, players), at least one player.
        values: Their values, float64 of shape (m, width).
    """
    players = masks.shape[1]
    # c, the mean of v(none) and v(all), which come first
    center = values[:2].mean(axis=0)
    # With members coded as 1 and -1, the product of two coalitions is players - 2 d.
    signs = 2.0 * masks - 1
    # d(S, B), of shape (m, m)
    distances = np.rint(players - signs @ signs.T) / 2
    correlation, inverse = _choose_correlation(distances, values - center)
    # alpha, of shape (m, width)
    coefficients = inverse @ (values - center)

    # gain_weights[i, s, B] is the mean of r^d(S + i, B) - r^d(S, B) over coalitions S of size s without player i, times
    # 1 / n, the chance that player i stands at position s. S + i and S differ from B alike in the other n - 1 players,
    # so that the difference is (1 - r) r^d of these, positive where B has player i.
    sizes = masks.sum(axis=1)  # (m,)
    sizes_without = sizes[None] - masks.T  # (players, m): members of B but for player i
    # (sizes of S, sizes of B)
    mean_powers = _average_correlation(players - 1, correlation)
    # (players, positions, m)
    powers_without = mean_powers[:, sizes_without].swapaxes(0, 1)
    gain_signs = np.where(masks.T, 1.0, -1.0)[:, None]  # (players, 1, m)
    gain_weights = (1 - correlation) / players * gain_signs * powers_without
    # mean_weights[s, B] is the mean of r^d(S, B) over all coalitions S of size s.
    # (players + 1, m)
    mean_weights = _average_correlation(players, correlation)[:, sizes]

    # The residuals of a pair that is left out follow from the full fit (leave-two-out of a Gaussian
    # process): the block of the inverse that belongs to the pair, solved for the coefficients of
    # the pair.
    fixed = count_fixed_subsets(players)
    # (pairs, 2): positions of a coalition and its complement
    pairs = np.arange(fixed, len(masks)).reshape(-1, 2)
    blocks = inverse[pairs[:, :, None], pairs[:, None, :]]  # (pairs, 2, 2)
    residuals = np.linalg.solve(blocks, coefficients[pairs])  # (pairs, 2, width)

    # Leaving a pair out changes the coefficients by minus the pair's columns of the inverse, times
    # the residuals.
    gain_columns = (gain_weights @ inverse[:, fixed:]).reshape(players, players, -1, 2)
    mean_columns = (mean_weights @ inverse[:, fixed:]).reshape(players + 1, -1, 2)
    # (pairs, 2, players, positions)
    gain_changes = -np.moveaxis(gain_columns, (2, 3), (0, 1))
    mean_changes = -np.moveaxis(mean_columns, (1, 2), (0, 1))  # (pairs, 2, players + 1)
    _add_strata(gain_changes, mean_changes, masks[fixed:].reshape(-1, 2, players))
    return Fit(
        gains=np.tensordot(gain_weights, coefficients, axes=1),
        means=center + mean_weights @ coefficients,
        residuals=residuals,
        gain_changes=gain_changes,
        mean_changes=mean_changes,
    )


def _choose_correlation(
    distances: np.ndarray, values: np.ndarray
) -> tuple[float, np.ndarray]:
    """Choose the correlation that predicts each value best from all other values; return it with
    the inverse matrix.

    A correlation near 1 makes the equations of many coalitions nearly singular. Its prediction then
    smooths out the values that it was fitted to, and the correlation is skipped. The lowest
    correlation is never skipped.

    Args:
        distances: d(S, B), float64 of shape (m, m), of coalitions that include the complement of
            each of them.
        values: Values minus their center, float64 of shape (m, width).
    """
    best: tuple[float, np.ndarray] = CORRELATIONS[0], distances
    smallest_error = math.inf
    # The complement of a coalition is the one that differs from it in all players.
    complements = distances.argmax(axis=1)  # (m,)
    first_of_pair = np.flatnonzero(np.arange(len(distances)) < complements)
    for correlation in CORRELATIONS:
        covariance = correlation**distances
        inverse = _invert_pairs(covariance, first_of_pair, complements[first_of_pair])
        coefficients = inverse @ values
        misfit = np.abs(covariance @ coefficients - values).max()
        is_fitted = misfit <= MAX_MISFIT * np.abs(values).max()
        # Leave-one-out error of each value: its coefficient over the diagonal of the inverse.
        error = float(((coefficients / np.diag(inverse)[:, None]) ** 2).sum())
        is_allowed = is_fitted or correlation == CORRELATIONS[0]
        if is_allowed and error < smallest_error:
            best = correlation, inverse
            smallest_error = error
    return best


def _invert_pairs(
    covariance: np.ndarray, first: np.ndarray, second: np.ndarray
) -> np.ndarray:
    """Return the inverse of a covariance of coalitions and their complements, plus the nugget.

    With A the covariance of the first coalitions of the pairs, and B their covariance with the
    second coalitions, that of all is [[A, B], [B, A]]. The sum and the difference of the values of a
    pair are uncorrelated, with covariances A + B and A - B up to a factor, so that two inversions of
    half the size suffice.

    Args:
        covariance: float64 of shape (m, m).
        first: Position of one coalition of each pair, (m / 2,).
        second: Position of its complement, (m / 2,).
    """
    within = covariance[np.ix_(first, first)] + NUGGET * np.eye(len(first))
    across = covariance[np.ix_(first, second)]
    inverse_of_sum = np.linalg.inv(within + across)
    inverse_of_difference = np.linalg.inv(within - across)
    inverse_within = (inverse_of_sum + inverse_of_difference) / 2
    inverse_across = (inverse_of_sum - inverse_of_difference) / 2

    inverse = np.empty_like(covariance)
    inverse[np.ix_(first, first)] = inverse_within
    inverse[np.ix_(second, second)] = inverse_within
    inverse[np.ix_(first, second)] = inverse_across
    inverse[np.ix_(second, first)] = inverse_across
    return inverse


@functools.cache
def _average_correlation(players: int, correlation: float) -> np.ndarray:
    """Return, for each pair of sizes, the mean of r^d between a known coalition and all coalitions
    of one size.

    The number of members that two coalitions share follows a hypergeometric distribution.

    Returns:
        float64 of shape (players + 1, players + 1): the size of the averaged coalitions, then of
        the known coalition.
    """
    means = np.zeros((players + 1, players + 1))
    for size in range(players + 1):
        n_coalitions = math.comb(players, size)
        for known in range(players + 1):
            fewest_shared = max(0, size + known - players)
            for shared in range(fewest_shared, min(size, known) + 1):
                share = (
                    math.comb(known, shared)
                    * math.comb(players - known, size - shared)
                    / n_coalitions
                )
                # Players in exactly one of both coalitions.
                distance = size + known - 2 * shared
                means[size, known] += share * correlation**distance
    means.flags.writeable = False  # shared by all calls
    return means


def _add_strata(
    gain_changes: np.ndarray, mean_changes: np.ndarray, pairs: np.ndarray
) -> None:
    """Add to the changes the effect that a pair's residuals have on all undrawn coalitions of its
    sizes.

    A drawn pair is a random sample of the pairs of its sizes (a stratum). Its residuals therefore
    estimate the residuals of all undrawn coalitions of these sizes.

    Args:
        gain_changes: Changed in place; of shape (pairs, 2, players, positions).
        mean_changes: Changed in place; of shape (pairs, 2, players + 1).
        pairs: The drawn coalitions, bool of shape (pairs, 2, players).
    """
    count, _, players = pairs.shape
    sizes = pairs.sum(axis=2)
    lower_sizes = sizes.min(axis=1)
    # Python's integers, since the number of possible pairs is too large for numpy's integers.
    n_drawn = np.bincount(lower_sizes, minlength=players + 1).tolist()
    for pair in range(count):
        drawn_of_size = n_drawn[lower_sizes[pair]]
        possible = _count_pairs(players, int(lower_sizes[pair]))
        # If this pair is left out, possible - drawn + 1 pairs of its sizes are unknown.
        weight = count / drawn_of_size * (possible - drawn_of_size + 1) / possible
        for half in range(2):
            size = int(sizes[pair, half])
            mask = pairs[pair, half]
            # At even n both coalitions of a pair can have the size n / 2, and share its stratum.
            share = weight / 2 if 2 * size == players else weight
            # A residual of a coalition is a gain of its last member, and a loss of the player that
            # comes next.
            gain_changes[pair, half, mask, size - 1] += share / size
            gain_changes[pair, half, ~mask, size] -= share / (players - size)
            mean_changes[pair, half, size] += share


def begin_regression(
    players: int,
    evaluations: int,
    seed: int,
    text_players: int = 0,
    standard_error: float | None = None,
) -> Estimation:
    """Estimate Shapley values by a regression on coalitions.

    The first round evaluates the coalitions that every regression needs. Each other round evaluates
    eight random pairs, for every budget, so that a larger budget with the same seed begins with the
    rounds of a smaller one.

    Args:
        players: Number of players, text first, at least two.
        evaluations: Maximum number of coalitions, of which at most 4096 are used; an incomplete
            last round is skipped.
        seed: Seed of the coalitions.
        text_players: Number of text players, for `standard_error`.
        standard_error: Stop once the standard error of T-SHAP, a share, is at most this in two
            consecutive checks, after at least ten random pairs of coalitions; None takes all
            evaluations.
    Returns:
        An estimation with one part for each random pair.
    Raises:
        UserError: The evaluations do not suffice for the coalitions that every regression needs.
    """
    required = count_fixed_subsets(players)
    if evaluations < required:
        raise UserError(
            f"attribution.evaluations: too small for regression with {players} players (got {evaluations}, expected at"
            f" least {required}); set at least {required}"
        )
    # Rounds are complete, so that the same coalitions are computed together for every budget.
    free_evaluations = max(0, min(evaluations, MAX_COALITIONS) - required)
    coalitions = draw_subsets(
        players, required + free_evaluations // ROUND * ROUND, (seed,)
    )
    values = np.asarray((yield coalitions[:required].copy()), dtype=np.float64)

    # A single check can be met by chance; two consecutive checks rarely are.
    n_checked = 0
    is_met = is_reached = False
    while True:
        is_last = len(values) == len(coalitions)
        next_check = max(required + 2 * MIN_PARTS, GROWTH * n_checked)
        is_due = standard_error is not None and len(values) >= next_check
        if is_last or is_due:
            n_checked = len(values)
            fit = fit_subsets(coalitions[:n_checked], values)
            phi = fit.gains.sum(axis=1)  # (players, outputs)
            # parts[p] is phi when pair p is left out. p: pairs, h: halves of a pair, i: players, s:
            # positions, d: outputs.
            parts = phi + np.einsum("phis,phd->pid", fit.gain_changes, fit.residuals)
            if standard_error is not None and len(parts) >= MIN_PARTS:
                was_met = is_met
                is_met = (
                    compute_t_shap_error(parts, text_players, phi) <= standard_error
                )
                is_reached = was_met and is_met
        if is_last or is_reached:
            break
        round_coalitions = coalitions[len(values) : len(values) + ROUND].copy()
        values = np.concatenate([values, (yield round_coalitions)])
    return Estimate(
        phi=phi,
        base_value=values[0],
        value=values[1],
        requested=len(values),
        parts=parts if len(parts) else None,
        fitted=True,
        stopped_by=describe_stop(standard_error, is_reached),
    )
