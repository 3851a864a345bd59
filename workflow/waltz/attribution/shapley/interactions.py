"""Shapley interaction indices of order 2 from coalitions, and the share that text and image make together."""

from collections.abc import Callable, Sequence
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from waltz.attribution.shapley.estimators import MAX_EXACT_PLAYERS, count_published_evaluations
from waltz.core.errors import UserError

if TYPE_CHECKING:
    from shapiq import InteractionValues

EVALUATIONS_PER_TERM = 2
"""Fewest coalitions for each term of the regression: a player or a pair of players."""


def estimate_interactions(
    compute_values: Callable[[Sequence[np.ndarray]], list[np.ndarray]],
    players: Sequence[int],
    evaluations: Sequence[int | None],
    seed: int,
) -> list[np.ndarray]:
    """Return the Shapley interaction indices of all pairs of players of some games.

    They are exact where all coalitions are within the evaluations; else shapiq's KernelSHAPIQ draws coalitions with the
    seed and fits players and pairs, which is consistent, but not free of bias for few coalitions.

    Args:
        compute_values: For each game, from coalitions, bool of shape (k, players), to values of shape (k, outputs).
        players: Number of players of each game.
        evaluations: Most coalitions of each game; None takes as many as permutations do, or twice the least.
        seed: Seed of the coalitions.
    Returns:
        For each game, float64 of shape (players, players, outputs), symmetric, with zeros on the diagonal.
    Raises:
        UserError: The evaluations are fewer than two for each player and each pair.
    Source:
        Grabisch and Roubens (1999), of order 2; Fumagalli et al. (2024) for KernelSHAPIQ.
    """
    budgets = [_choose_budget(count, budget) for count, budget in zip(players, evaluations, strict=True)]
    masks = [_draw_coalitions(count, budget, seed) for count, budget in zip(players, budgets, strict=True)]
    values = compute_values(masks)
    return [
        _compute_exactly(count, own)
        if len(coalitions) == 2**count
        else np.stack([_fit(count, budget, seed, coalitions, column) for column in own.T], axis=-1)
        for count, budget, coalitions, own in zip(players, budgets, masks, values, strict=True)
    ]


def compute_joint_share(phi: np.ndarray, interactions: np.ndarray) -> float:
    """Return the share of a score's magnitude that pairs of a text and an image player make together.

    A pair's interaction is taken in halves from the Shapley values of its two players, so that what is left of them,
    and the interactions, add up to v(all) - v(none).

    Args:
        phi: Shapley values of text players, then of image players, shape (players,).
        interactions: Their Shapley interaction indices, shape (text players, image players).
    Returns:
        Between 0, where text and image add up, and 1; NaN where nothing contributes.
    """
    halves = np.concatenate([interactions.sum(axis=1), interactions.sum(axis=0)]) / 2
    together, alone = float(np.abs(interactions).sum()), float(np.abs(phi - halves).sum())
    return together / (together + alone) if together + alone > 0 else float("nan")


def _choose_budget(players: int, evaluations: int | None) -> int:
    """Return the number of coalitions; at most all of them."""
    least = EVALUATIONS_PER_TERM * (players + comb(players, 2))
    if evaluations is None:
        evaluations = max(count_published_evaluations(players), 2 * least)
    if players <= MAX_EXACT_PLAYERS and 2**players <= evaluations:
        return 1 << players
    if evaluations < least:
        raise UserError(
            f"interactions: too few evaluations for the pairs of {players} players (got {evaluations}, expected"
            f" at least {least}); set a budget of at least {least}, or take fewer players"
        )
    return evaluations


def _draw_coalitions(players: int, budget: int, seed: int) -> np.ndarray:
    """Return all coalitions, or those that KernelSHAPIQ requests, which depend on the seed alone."""
    if budget == 2**players:
        return (np.arange(2**players)[:, None] >> np.arange(players) & 1).astype(bool)
    recorded: list[np.ndarray] = []

    def record(masks: np.ndarray) -> np.ndarray:
        recorded.append(np.array(masks, dtype=bool, ndmin=2))
        return np.zeros(len(recorded[-1]))

    _approximate(players, budget, seed, record)
    return np.concatenate(recorded)


def _compute_exactly(players: int, values: np.ndarray) -> np.ndarray:
    """Return the indices from the values of all coalitions, float64 of shape (2**players, outputs)."""
    numbers = np.arange(2**players)
    sizes = (numbers[:, None] >> np.arange(players) & 1).sum(axis=1)
    weights = np.array([1 / ((players - 1) * comb(players - 2, size)) for size in range(players - 1)])
    pairs = np.zeros((players, players, values.shape[1]))
    for first in range(players):
        for second in range(first):
            one, other = 1 << first, 1 << second
            without = numbers[(numbers & (one | other)) == 0]
            differences = (
                values[without | one | other] - values[without | one] - values[without | other] + values[without]
            )
            pairs[first, second] = pairs[second, first] = weights[sizes[without]] @ differences
    return pairs


def _fit(players: int, budget: int, seed: int, masks: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the indices of one output, of shape (players, players), from the values of recorded coalitions."""
    known = {mask.tobytes(): value for mask, value in zip(masks, values, strict=True)}

    def look_up(coalitions: np.ndarray) -> np.ndarray:
        return np.array([known[mask.tobytes()] for mask in np.array(coalitions, dtype=bool, ndmin=2)])

    fitted = _approximate(players, budget, seed, look_up)
    pairs = np.zeros((players, players))
    for first in range(players):
        for second in range(first):
            pairs[first, second] = pairs[second, first] = fitted[second, first]
    return pairs


def _approximate(
    players: int, budget: int, seed: int, value: Callable[[np.ndarray], np.ndarray]
) -> "InteractionValues":
    import shapiq  # takes a second, and few calls need it

    approximator = shapiq.KernelSHAPIQ(n=players, max_order=2, index="SII", pairing_trick=True, random_state=seed)
    fitted: InteractionValues = approximator.approximate(budget, value)
    return fitted
