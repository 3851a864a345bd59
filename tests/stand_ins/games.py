"""Games with Shapley values in closed form, and how to play an estimation against one."""

import math
from collections.abc import Callable

import numpy as np

from waltz.attribution.shapley.estimate import Estimate, Estimation
from waltz.attribution.shapley.regression import CORRELATIONS, NUGGET

Game = Callable[[np.ndarray], np.ndarray]
"""From coalitions, bool (k, players), to values, float64 (k, outputs)."""


def additive(weights: np.ndarray) -> Game:
    """Each player adds its weight: phi is the weights."""
    return lambda masks: (masks @ weights).reshape(len(masks), -1) + 0.5


def unanimity(terms: dict[tuple[int, ...], float]) -> Game:
    """The sum of weighted unanimity games: a term counts where all of its players take part."""
    return lambda masks: sum(
        (weight * masks[:, list(team)].all(axis=1) for team, weight in terms.items()),
        np.zeros(len(masks)),
    ).reshape(-1, 1)


def unanimity_phi(players: int, terms: dict[tuple[int, ...], float]) -> np.ndarray:
    """Each player of a team has an equal share of its weight (Shapley 1953)."""
    phi = np.zeros((players, 1))
    for team, weight in terms.items():
        phi[list(team)] += weight / len(team)
    return phi


def random_terms(
    players: int, seed: int, longest: int = 5, count: int = 40
) -> dict[tuple[int, ...], float]:
    """Weighted teams of up to `longest` players."""
    draw = np.random.default_rng(seed)
    teams = (
        tuple(
            sorted(
                draw.choice(
                    players, draw.integers(1, longest + 1), replace=False
                ).tolist()
            )
        )
        for _ in range(count)
    )
    return {team: float(draw.normal()) for team in teams}


def play(estimation: Estimation, game: Game) -> tuple[Estimate, list[np.ndarray]]:
    """Answer all rounds, and return the estimate and the coalitions of each round."""
    masks = [next(estimation)]
    while True:
        try:
            masks.append(estimation.send(game(masks[-1])))
        except StopIteration as finished:
            return finished.value, masks


def predict_part(masks, values, sign):
    """Return the mean, the covariance for a variance of 1, and the standardized leave-one-out
    residuals of a Gaussian process for the odd (-1) or even (1) part of a game, computed from all
    2^n coalitions.

    Args:
        masks: Coalitions that are each followed by their complement, the empty one first.
    Returns:
        Mean of shape (2^n, width), covariance (2^n, 2^n), residuals (pairs, width).
    """
    players = masks.shape[1]
    every = (np.arange(2**players)[:, None] >> np.arange(players)) & 1 == 1
    numbers = masks @ (1 << np.arange(players))
    # y = (v(S) + sign v(rest)) / sqrt(2) of each known pair
    selects = np.zeros((len(masks) // 2, 2**players))
    selects[np.arange(len(selects)), numbers[::2]] = 2**-0.5
    selects[np.arange(len(selects)), numbers[1::2]] = sign * 2**-0.5
    table = np.zeros((2**players, values.shape[1]))
    table[numbers] = values - values[:2].mean(axis=0)
    known = selects @ table
    differs = (every[:, None] != every[None]).sum(axis=2)
    best = math.inf
    for correlation in CORRELATIONS:
        part = (correlation**differs + sign * correlation ** (players - differs)) / 2
        of_known = selects @ part @ selects.T + NUGGET * np.eye(len(selects))
        inverse = np.linalg.inv(of_known)
        residuals = inverse @ known / np.diag(inverse)[:, None]
        if (residuals**2).sum() < best:
            best = (residuals**2).sum()
            gain = part @ selects.T @ inverse
            misses = residuals * np.sqrt(np.diag(inverse))[:, None]
            result = gain @ known, part - gain @ selects @ part, misses
    return result
