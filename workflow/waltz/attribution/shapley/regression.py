"""Regression on coalitions: Shapley values of the smoothest function that has the values of some coalitions.

The value of a coalition is predicted from the values v of m coalitions as v(S) = c + Σ α(B) r^d(S, B), with d(S, B) the
number of players in which S and B differ, c the mean of v(all) and v(none), and α such that the prediction holds for
all m. This is the mean of a Gaussian process on coalitions with correlation r^d. r is one of `CORRELATIONS`: that which
predicts each of the m values best from the others; near 1 the prediction is additive. Means of a prediction over
coalitions of one size, with or without a player, have a closed form, so that its Shapley values need no sampling.

The coalitions are those of no and of all players, of a single player, and of all but one; then pairs of a random
coalition and its complement, of all sizes in turn. The values are exact once all coalitions are known, and where r
describes the game. Otherwise gains that no coalition shows are drawn towards those that some show, a bias that shrinks
with more coalitions. Each random pair tells what the prediction without it misses, which gives a standard error.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from waltz.attribution.shapley.estimate import MIN_PARTS, Estimate, Estimation
from waltz.attribution.t_shap import compute_t_shap_error
from waltz.core.errors import UserError

CORRELATIONS = (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99, 0.999)
"""Correlations of the values of two coalitions that differ in one player."""
MAX_COALITIONS = 4096
"""Most coalitions of one regression, whose time grows with their cube and whose memory with their square."""
ROUND = 16
"""Coalitions of a round, which are computed together."""
GROWTH = 1.1
"""Ratio of the coalitions between two checks whether a standard error is reached."""
NUGGET = 1e-10
"""Variance that keeps the equations solvable where coalitions are many, a share of that of the process."""
MAX_MISFIT = 3e-5
"""Largest difference of a prediction from the values that it was fitted to, a share of the largest of them."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A prediction of the values of all coalitions, float64 of any width, summed up as Shapley values need it.

    Attributes:
        gains: Mean over orders of what the player at a position adds, (players, positions, width): zero in the orders
            where another player stands there.
        means: Mean value of the coalitions of each size, (players + 1, width).
        residuals: For each random pair of complements, what the prediction without both misses, (pairs, 2, width).
        gain_changes: Change of `gains` for each unit of a residual, (pairs, 2, players, positions), if the pair is left
            out of the prediction and stands for the residuals of all coalitions of its sizes.
        mean_changes: The same for `means`, (pairs, 2, players + 1).
    """

    gains: np.ndarray
    means: np.ndarray
    residuals: np.ndarray
    gain_changes: np.ndarray
    mean_changes: np.ndarray


def count_fixed_subsets(players: int) -> int:
    """Return the number of coalitions that every regression needs: none, all, single players and all but one."""
    return min(2 * players + 2, 1 << players)


def draw_subsets(players: int, count: int, seed: Sequence[int]) -> np.ndarray:
    """Return distinct coalitions for a regression: bool of shape (k, players), k at most `count`.

    First those that every regression needs, then random coalitions, each followed by its complement. A larger count
    with the same seed begins with the coalitions of a smaller one.
    """
    single = np.eye(players, dtype=bool)
    fixed = np.concatenate([[np.zeros(players, dtype=bool)], [np.ones(players, dtype=bool)], single, ~single])
    fixed = fixed[np.sort(np.unique(fixed, axis=0, return_index=True)[1])]
    pairs = _draw_halves(players, np.random.default_rng(seed))
    drawn = [half for _, half in zip(range((count - len(fixed)) // 2), pairs, strict=False)]
    if not drawn:
        return fixed
    halves = np.array(drawn)
    return np.concatenate([fixed, np.stack([halves, ~halves], axis=1).reshape(-1, players)])


def _draw_halves(players: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield one random coalition of each pair of complements, of the sizes from 2 to players // 2 in turn."""
    left = {size: _count_pairs(players, size) for size in range(2, players // 2 + 1)}
    seen: set[bytes] = set()
    while any(left.values()):
        for size in generator.permutation([size for size, count in left.items() if count]).tolist():
            while True:
                half = np.zeros(players, dtype=bool)
                half[generator.permutation(players)[:size]] = True
                if half.tobytes() not in seen and (~half).tobytes() not in seen:
                    break
            seen.add(half.tobytes())
            left[size] -= 1
            yield half


def _count_pairs(players: int, size: int) -> int:
    """Return the number of pairs of complements of which one has this size."""
    return math.comb(players, size) // (2 if 2 * size == players else 1)


def fit_subsets(masks: np.ndarray, values: np.ndarray) -> Fit:
    """Fit the prediction to the values of coalitions of `draw_subsets`.

    Args:
        masks: bool of shape (m, players), at least one player.
        values: float64 of shape (m, width).
    """
    players = masks.shape[1]
    centre = values[:2].mean(axis=0)
    distances = np.rint(players - (2.0 * masks - 1) @ (2.0 * masks - 1).T) / 2
    correlation, inverse = _choose_correlation(distances, values - centre)
    coefficients = inverse @ (values - centre)
    sizes = masks.sum(axis=1)
    others = _average_correlation(players - 1, correlation)[:, sizes[None] - masks.T].swapaxes(0, 1)
    gain_weights = (1 - correlation) / players * np.where(masks.T, 1.0, -1.0)[:, None] * others
    mean_weights = _average_correlation(players, correlation)[:, sizes]
    fixed = count_fixed_subsets(players)
    pairs = np.arange(fixed, len(masks)).reshape(-1, 2)
    blocks = inverse[pairs[:, :, None], pairs[:, None, :]]
    residuals = np.linalg.solve(blocks, coefficients[pairs]) if len(pairs) else np.zeros((0, 2, values.shape[1]))
    gain_changes = -np.moveaxis((gain_weights @ inverse[:, fixed:]).reshape(players, players, -1, 2), (2, 3), (0, 1))
    mean_changes = -np.moveaxis((mean_weights @ inverse[:, fixed:]).reshape(players + 1, -1, 2), (1, 2), (0, 1))
    _add_strata(gain_changes, mean_changes, masks[fixed:].reshape(-1, 2, players))
    return Fit(
        gains=np.tensordot(gain_weights, coefficients, axes=1),
        means=centre + mean_weights @ coefficients,
        residuals=residuals,
        gain_changes=gain_changes,
        mean_changes=mean_changes,
    )


def _choose_correlation(distances: np.ndarray, values: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the correlation whose predictions of each value from all others are best, and the inverse matrix.

    A correlation near 1 makes the equations of many coalitions nearly singular, so that its prediction smooths out the
    values that it was fitted to; it is passed over. The lowest correlation is always considered.
    """
    best: tuple[float, np.ndarray] = CORRELATIONS[0], distances
    least = math.inf
    for correlation in CORRELATIONS:
        covariance = correlation**distances
        inverse = np.linalg.inv(covariance + NUGGET * np.eye(len(distances)))
        coefficients = inverse @ values
        is_fitted = np.abs(covariance @ coefficients - values).max() <= MAX_MISFIT * np.abs(values).max()
        missed = float(((coefficients / np.diag(inverse)[:, None]) ** 2).sum())
        if missed < least and (is_fitted or correlation == CORRELATIONS[0]):
            best, least = (correlation, inverse), missed
    return best


def _average_correlation(players: int, correlation: float) -> np.ndarray:
    """Return the mean of r^d over all coalitions of one size and one coalition of another: (sizes, sizes)."""
    means = np.zeros((players + 1, players + 1))
    for size in range(players + 1):
        for known in range(players + 1):
            for both in range(max(0, size + known - players), min(size, known) + 1):
                share = math.comb(known, both) * math.comb(players - known, size - both) / math.comb(players, size)
                means[size, known] += share * correlation ** (size + known - 2 * both)
    return means


def _add_strata(gain_changes: np.ndarray, mean_changes: np.ndarray, pairs: np.ndarray) -> None:
    """Let the residuals of each pair stand for those of all coalitions of its sizes that no other pair shows."""
    count, _, players = pairs.shape
    sizes = pairs.sum(axis=2)
    lower = sizes.min(axis=1)
    drawn = np.bincount(lower, minlength=players + 1).tolist()  # of Python's integers, since possible ones are many
    for index in range(count):
        possible = _count_pairs(players, int(lower[index]))
        weight = count / drawn[lower[index]] * (possible - drawn[lower[index]] + 1) / possible
        for half in range(2):
            size, mask = int(sizes[index, half]), pairs[index, half]
            share = weight / 2 if 2 * size == players else weight
            gain_changes[index, half, mask, size - 1] += share / size
            gain_changes[index, half, ~mask, size] -= share / (players - size)
            mean_changes[index, half, size] += share


def begin_regression(
    players: int, evaluations: int, seed: int, text_players: int = 0, standard_error: float | None = None
) -> Estimation:
    """Estimate Shapley values by a regression on coalitions.

    The first round has the coalitions that every regression needs, each other round eight random pairs, whatever the
    evaluations, so that a larger budget with the same seed begins with the rounds of a smaller one.

    Args:
        players: Number of players, text first, at least two.
        evaluations: Most coalitions, of which at most 4096 are used; what is less than a round is left over.
        seed: Seed of the coalitions.
        text_players: Number of text players, for `standard_error`.
        standard_error: Stop once the standard error of T-SHAP, a share, is at most this in two checks that follow each
            other, after at least ten random pairs of coalitions; None takes all evaluations.
    Returns:
        An estimation whose parts are those of the random pairs.
    Raises:
        UserError: The evaluations do not suffice for the coalitions that every regression needs.
    """
    least = count_fixed_subsets(players)
    if evaluations < least:
        raise UserError(
            f"attribution.evaluations: too small for regression with {players} players (got {evaluations}, expected at"
            f" least {least}); set at least {least}"
        )
    most = least + max(0, min(evaluations, MAX_COALITIONS) - least) // ROUND * ROUND
    coalitions = draw_subsets(players, most, (seed,))
    values = np.asarray((yield coalitions[:least].copy()), dtype=np.float64)
    checked, is_met, reached = 0, False, False
    while True:
        is_last = len(values) == len(coalitions)
        is_due = standard_error is not None and len(values) >= max(least + 2 * MIN_PARTS, GROWTH * checked)
        if is_last or is_due:
            checked = len(values)
            fit = fit_subsets(coalitions[:checked], values)
            phi = fit.gains.sum(axis=1)
            parts = phi + np.einsum("phis,phd->pid", fit.gain_changes, fit.residuals)
            if standard_error is not None and len(parts) >= MIN_PARTS:
                was_met, is_met = is_met, compute_t_shap_error(parts, text_players, phi) <= standard_error
                reached = was_met and is_met
        if is_last or reached:
            break
        values = np.concatenate([values, (yield coalitions[len(values) : len(values) + ROUND].copy())])
    return Estimate(
        phi=phi,
        base_value=values[0],
        value=values[1],
        requested=len(values),
        parts=parts if len(parts) else None,
        fitted=True,
        stopped_by=None if standard_error is None else "standard error" if reached else "evaluations",
    )
