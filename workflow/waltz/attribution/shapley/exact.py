"""Shapley values from all coalitions."""

from math import factorial

import numpy as np

from waltz.attribution.shapley.estimate import Estimate, Estimation
from waltz.core.errors import UserError

MAX_PLAYERS = 12
"""4,096 coalitions."""


def begin_exact(players: int) -> Estimation:
    """Return an estimation of Shapley values by their definition, in one round of all 2**players coalitions.

    phi_i = sum over coalitions S without i of s! (n - s - 1)! / n! * (v(S and i) - v(S)), with s players in S.

    Args:
        players: Number of players, at most 12.
    Raises:
        UserError: There are more players.
    Source:
        Shapley (1953).
    """
    if players > MAX_PLAYERS:
        raise UserError(
            f"attribution.estimator: exact needs 2**{players} coalitions (got {players} players, expected at most"
            f" {MAX_PLAYERS}); take permutation, or exact-factorised for encoders of late fusion"
        )
    return _begin(players)


def _begin(players: int) -> Estimation:
    numbers = np.arange(2**players)
    masks = (numbers[:, None] >> np.arange(players) & 1).astype(bool)
    values = np.asarray((yield masks.copy()), dtype=np.float64)
    sizes = masks.sum(axis=1)
    weights = np.array([factorial(s) * factorial(players - s - 1) / factorial(players) for s in range(players)])
    phi = np.empty((players, values.shape[1]))
    for player in range(players):
        without = numbers[~masks[:, player]]
        phi[player] = weights[sizes[without]] @ (values[without | 1 << player] - values[without])
    return Estimate(phi, values[0], values[-1], requested=len(masks), exact=True)
