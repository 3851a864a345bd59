"""Estimators of Shapley values from shapiq, under its own names for them."""

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from waltz.attribution.shapley.estimate import Estimate, Estimation
from waltz.attribution.shapley.exact import begin_exact
from waltz.core.errors import UserError

if TYPE_CHECKING:
    from shapiq import InteractionValues

Value = Callable[[np.ndarray], np.ndarray]
"""From coalitions, bool of shape (k, players) or (players,), to values of shape (k,)."""

MIN_EVALUATIONS: dict[str, Callable[[int], int]] = {
    "KernelSHAP": lambda players: 4 * players,
    "UnbiasedKernelSHAP": lambda players: 4 * players,
    "SVARM": lambda players: 4 * players,
    "PermutationSamplingSV": lambda players: 4 * players,
    "StratifiedSamplingSV": lambda players: max(4 * players, 2 * players * (players - 1) + 2),
    "OwenSamplingSV": lambda players: 20 * players + 2,
}
"""Classes of shapiq 1.4.1 that estimate the index SV for any value function, with the fewest evaluations that are
accepted for a number of players. The last two skip strata that they have not drawn, which moves T-SHAP by up to 0.2:
they need each stratum, or each of ten points, of each player once."""


def begin_shapiq(name: str, players: int, evaluations: int, seed: int) -> Estimation:
    """Return an estimation by an approximator of shapiq, in one round.

    Its coalitions depend on the seed alone, so that a first run records them and a second takes their values. There
    are no independent parts, hence no standard error; the values of SVARM, StratifiedSamplingSV and OwenSamplingSV
    need not sum to v(all) - v(none); the residual says by how much. KernelSHAP draws coalitions with their complements.

    Args:
        name: A name in `MIN_EVALUATIONS`.
        players: Number of players; below two the values are exact.
        evaluations: Most coalitions.
        seed: Seed of the approximator.
    Raises:
        UserError: The evaluations are too few, or those that were drawn do not determine KernelSHAP's regression.
    """
    if players < 2:
        return begin_exact(players)
    least = MIN_EVALUATIONS[name](players)
    if evaluations < least:
        raise UserError(
            f"attribution.evaluations: too small for {name} and {players} players (got {evaluations}, expected at least"
            f" {least}); set at least {least}"
        )
    return _begin(name, players, evaluations, seed)


def _begin(name: str, players: int, evaluations: int, seed: int) -> Estimation:
    ends = np.array([[False] * players, [True] * players])
    recorded: list[np.ndarray] = []

    def record(masks: np.ndarray) -> np.ndarray:
        recorded.append(np.array(masks, dtype=bool, ndmin=2))
        return np.zeros(len(recorded[-1]))

    # both ends are evaluated always, and OwenSamplingSV may request one of them only
    _approximate(name, players, evaluations - (name == "OwenSamplingSV"), seed, record)
    masks = np.concatenate(recorded)
    missing = ends[[not (masks == end).all(axis=1).any() for end in ends]]
    masks = np.concatenate([masks, missing])
    if name == "KernelSHAP" and np.linalg.matrix_rank(masks) < players:
        raise UserError(
            f"attribution.evaluations: too small for {name}: {evaluations} coalitions with seed {seed} do not determine"
            f" {players} players; set more"
        )
    values = np.asarray((yield masks.copy()), dtype=np.float64)
    outputs = [
        _approximate(name, players, evaluations - (name == "OwenSamplingSV"), seed, _replay(masks, column))
        for column in values.T
    ]
    return Estimate(
        phi=np.array([[output[(player,)] for output in outputs] for player in range(players)]),
        base_value=values[(masks == ends[0]).all(axis=1).argmax()],
        value=values[(masks == ends[1]).all(axis=1).argmax()],
        requested=len(masks),
        exact=not any(output.estimated for output in outputs),
    )


def _approximate(name: str, players: int, budget: int, seed: int, value: Value) -> "InteractionValues":
    import shapiq  # takes a second, and few studies name one of its estimators

    paired = {"pairing_trick": True} if name == "KernelSHAP" else {}
    approximator = getattr(shapiq, name)(n=players, random_state=seed, **paired)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Not all budget is required")  # more than 2**players are allowed
        values: InteractionValues = approximator.approximate(budget, value)
    return values


def _replay(masks: np.ndarray, values: np.ndarray) -> Value:
    """Return a value function that gives the values of the same coalitions, requested in the same order."""
    position = 0

    def value(coalitions: np.ndarray) -> np.ndarray:
        nonlocal position
        rows = slice(position, position + len(np.atleast_2d(coalitions)))
        if not np.array_equal(masks[rows], np.atleast_2d(coalitions)):
            raise RuntimeError("shapiq requested other coalitions than with the same seed before")
        position = rows.stop
        return values[rows]

    return value
