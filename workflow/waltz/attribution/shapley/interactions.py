"""Shapley interaction indices of order 2 from coalitions, and the share that text and image make
together.
"""

from collections.abc import Callable, Sequence
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from waltz.attribution.published import count_published_evaluations
from waltz.attribution.shapley.estimators import MAX_EXACT_PLAYERS, CoalitionRecorder
from waltz.core.errors import UserError

if TYPE_CHECKING:
    from shapiq import InteractionValues

EVALUATIONS_PER_TERM = 2
"""Minimum number of coalitions for each term of the regression; a term is a player or a pair of
players.
"""


def estimate_interactions(
    compute_values: Callable[[Sequence[np.ndarray]], list[np.ndarray]],
    players: Sequence[int],
    evaluations: Sequence[int | None],
    seed: int,
) -> list[np.ndarray]:
    """Return the Shapley interaction indices of all pairs of players of some games.

    They are exact if the evaluations suffice for all coalitions. Else shapiq's KernelSHAPIQ draws
    coalitions with the seed and fits terms for players and pairs; this estimate is consistent, but
    biased for few coalitions.

    Args:
        compute_values: Function that takes the coalitions of each game, bool of shape (k, players),
            and returns their values, of shape (k, outputs).
        players: Number of players of each game.
        evaluations: Maximum number of coalitions of each game; None takes as many as permutations
            do, or twice the minimum if that is more.
        seed: Seed of the coalitions.
    Returns:
        For each game, float64 of shape (players, players, outputs), symmetric, with zeros on the
        diagonal.
    Raises:
        UserError: There are fewer than two evaluations for each player and each pair.
    Source:
        Grabisch and Roubens (1999), of order 2; Fumagalli et al. (2024) for KernelSHAPIQ.
    """
    budgets = [
        _choose_budget(count, budget)
        for count, budget in zip(players, evaluations, strict=True)
    ]
    masks = [
        _draw_coalitions(count, budget, seed)
        for count, budget in zip(players, budgets, strict=True)
    ]
    values = compute_values(masks)
    interactions = []
    for count, budget, game_masks, game_values in zip(
        players, budgets, masks, values, strict=True
    ):
        # With the values of all coalitions no fit is needed.
        if len(game_masks) == 2**count:
            interactions.append(_compute_exactly(count, game_values))
        else:
            outputs = [
                _fit(count, budget, seed, game_masks, column)
                for column in game_values.T
            ]
            interactions.append(np.stack(outputs, axis=-1))
    return interactions


def compute_joint_share(phi: np.ndarray, interactions: np.ndarray) -> float:
    """Return the share of a score's magnitude that comes from pairs of a text player and an image
    player.

    Half of each interaction is subtracted from the Shapley value of each of its two players. The
    remaining values and the interactions then add up to v(all) - v(none).

    Args:
        phi: Shapley values of text players, then of image players, shape (players,).
        interactions: Their Shapley interaction indices, shape (text players, image players).
    Returns:
        Share between 0, where text and image contribute independently, and 1; NaN where nothing
        contributes.
    """
    # Half of each player's interactions with all players of the other modality: (players,), text
    # players first.
    halves = np.concatenate([interactions.sum(axis=1), interactions.sum(axis=0)]) / 2
    joint = float(np.abs(interactions).sum())
    alone = float(np.abs(phi - halves).sum())
    if not joint + alone > 0:  # also where a value is NaN
        return float("nan")
    return joint / (joint + alone)


def _choose_budget(players: int, evaluations: int | None) -> int:
    """Return the number of coalitions of a game: all 2**players if the evaluations suffice, else
    the evaluations.
    """
    required = EVALUATIONS_PER_TERM * (players + comb(players, 2))
    if evaluations is None:
        evaluations = max(count_published_evaluations(players), 2 * required)
    can_be_exact = players <= MAX_EXACT_PLAYERS and 2**players <= evaluations
    if can_be_exact:
        return 1 << players
    if evaluations < required:
        raise UserError(
            f"interactions: too few evaluations for the pairs of {players} players (got {evaluations}, expected"
            f" at least {required}); set a budget of at least {required}, or take fewer players"
        )
    return evaluations


def _draw_coalitions(players: int, budget: int, seed: int) -> np.ndarray:
    """Return all coalitions, or the coalitions that KernelSHAPIQ requests with a seed: bool of
    shape (k, players).
    """
    # Bit i of a coalition's number says whether player i takes part.
    if budget == 2**players:
        return (np.arange(2**players)[:, None] >> np.arange(players) & 1).astype(bool)
    recorder = CoalitionRecorder()
    _approximate(players, budget, seed, recorder)
    return recorder.coalitions


def _compute_exactly(players: int, values: np.ndarray) -> np.ndarray:
    """Return the interaction indices of all pairs from the values of all coalitions.

    Args:
        values: Values by the number of the coalition, float64 of shape (2**players, outputs).
    Returns:
        float64 of shape (players, players, outputs).
    """
    # Bit i of a coalition's number says whether player i takes part.
    numbers = np.arange(2**players)
    sizes = (numbers[:, None] >> np.arange(players) & 1).sum(axis=1)
    # w(s) = 1 / ((n - 1) C(n - 2, s)): an average over sizes, and over the coalitions of a size
    weights = np.array(
        [1 / ((players - 1) * comb(players - 2, size)) for size in range(players - 1)]
    )
    pairs = np.zeros((players, players, values.shape[1]))
    for i in range(players):
        for j in range(i):
            bit_i, bit_j = 1 << i, 1 << j
            without = numbers[(numbers & (bit_i | bit_j)) == 0]
            # The second difference of each coalition S without i and j: v(S + i + j) - v(S + i) -
            # v(S + j) + v(S).
            differences = (
                values[without | bit_i | bit_j]
                - values[without | bit_i]
                - values[without | bit_j]
                + values[without]
            )
            pairs[i, j] = weights[sizes[without]] @ differences
            pairs[j, i] = pairs[i, j]
    return pairs


def _fit(
    players: int, budget: int, seed: int, masks: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Return the interaction indices of one output, of shape (players, players), fitted to recorded
    coalitions.
    """
    known = {mask.tobytes(): value for mask, value in zip(masks, values, strict=True)}

    def look_up(coalitions: np.ndarray) -> np.ndarray:
        requested = np.array(coalitions, dtype=bool, ndmin=2)
        return np.array([known[mask.tobytes()] for mask in requested])

    fitted = _approximate(players, budget, seed, look_up)
    pairs = np.zeros((players, players))
    for i in range(players):
        for j in range(i):
            pairs[i, j] = fitted[j, i]
            pairs[j, i] = fitted[j, i]
    return pairs


def _approximate(
    players: int, budget: int, seed: int, value: Callable[[np.ndarray], np.ndarray]
) -> "InteractionValues":
    # The import takes a second, and few calls need it.
    import shapiq

    approximator = shapiq.KernelSHAPIQ(
        n=players, max_order=2, index="SII", pairing_trick=True, random_state=seed
    )
    fitted: InteractionValues = approximator.approximate(budget, value)
    return fitted
