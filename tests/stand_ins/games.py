"""Games with Shapley values in closed form, and how to play an estimation against one."""

from collections.abc import Callable

import numpy as np

from waltz.attribution.shapley.estimate import Estimate, Estimation

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
