"""Shapley values from permutations, each walked forward and back, as shap draws and averages them."""

from collections.abc import Iterator

import numpy as np

from waltz.attribution import t_shap
from waltz.attribution.shapley.estimate import Estimate, Estimation
from waltz.core.errors import UserError

PUBLISHED_PERMUTATIONS = 10
"""Permutations of one explanation in the fork of `shap` that MM-SHAP was released with, whatever the budget."""
MIN_PERMUTATIONS = 5
"""Permutations before a standard error is trusted to stop the sampling."""


def count_published_evaluations(players: int) -> int:
    """Return the evaluations of the released MM-SHAP scripts: ten permutations of 2 * players + 1 coalitions."""
    return PUBLISHED_PERMUTATIONS * (2 * players + 1)


def begin_permutations(
    players: int, evaluations: int, seed: int, text_players: int = 0, standard_error: float | None = None
) -> Estimation:
    """Return an estimation by permutation sampling; a round evaluates one permutation.

    A permutation adds the players one by one to the empty coalition and removes them in the same order: 2 * players + 1
    coalitions, and two differences for each player, whose mean is exact where no three players interact. A larger
    budget with the same seed begins with the rounds of a smaller one. The permutations are those that shap draws after
    `numpy.random.seed(seed)`, from a generator of its own.

    Args:
        players: Number of players, text first.
        evaluations: Most coalitions; floor(evaluations / (2 * players + 1)) permutations are drawn.
        seed: Seed of the permutations, 0 to 2**32 - 1.
        text_players: Number of text players, for `standard_error`.
        standard_error: Stop once the standard error of T-SHAP, a share, is at most this, after at least five
            permutations; None draws them all.
    Returns:
        An estimation whose parts are the permutations.
    Raises:
        UserError: The evaluations do not suffice for one permutation, or the seed is out of range.
    Source:
        `shap.PermutationExplainer`, against which tests hold the values; MM-SHAP's released scripts use it with ten
        permutations.
    """
    least = 2 * players + 1
    if evaluations < least:
        raise UserError(
            f"attribution.evaluations: too small for one permutation of {players} players (got {evaluations}, expected"
            f" at least {least}); set at least {least}"
        )
    if not 0 <= seed < 2**32:
        raise UserError(f"seed: {seed} is no seed of numpy's global generator; take 0 to {2**32 - 1}")
    if players == 0:
        return _begin_empty()
    return _begin(players, evaluations // least, seed, text_players, standard_error)


def _begin(players: int, permutations: int, seed: int, text_players: int, standard_error: float | None) -> Estimation:
    values: list[np.ndarray] = []
    parts: list[np.ndarray] = []
    reached = False
    for order in _draw_orders(players, permutations, seed):
        values.append(np.asarray((yield _build_walk(order)), dtype=np.float64))
        parts.append(_compute_part(order, values[-1]))
        if standard_error is not None and len(parts) >= MIN_PERMUTATIONS:
            reached = t_shap.compute_t_shap_error(np.stack(parts), text_players) <= standard_error
            if reached:
                break
    return Estimate(
        phi=np.mean(parts, axis=0),
        base_value=values[0][0],
        value=values[0][players],
        requested=sum(map(len, values)),
        parts=np.stack(parts),
        stopped_by=None if standard_error is None else "standard error" if reached else "evaluations",
    )


def _draw_orders(players: int, permutations: int, seed: int) -> Iterator[np.ndarray]:
    """Yield orders of the players, each shuffled from the one before, as by numpy's global generator with this seed."""
    generator = np.random.RandomState(seed)
    order = np.arange(players)
    for _ in range(permutations):
        generator.shuffle(order)
        yield order.copy()


def _build_walk(order: np.ndarray) -> np.ndarray:
    """Return the coalitions from the empty one to all players and back: bool of shape (2 * players + 1, players)."""
    rank = order.argsort()
    joined = rank < np.arange(len(order) + 1)[:, None]
    return np.concatenate([joined, ~joined[1:]])


def _compute_part(order: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the Shapley values by one permutation: the mean of its two differences of each player."""
    players = len(order)
    steps = np.diff(values, axis=0)
    part = np.empty((players, values.shape[1]))
    part[order] = (steps[:players] - steps[players:]) / 2
    return part


def _begin_empty() -> Estimation:
    """Return the estimation of a game without players."""
    values = np.asarray((yield np.zeros((1, 0), dtype=bool)), dtype=np.float64)
    return Estimate(np.zeros((0, values.shape[1])), values[0], values[0], requested=1, exact=True)
