"""Estimates of Shapley values, their settings, and estimations that yield coalitions and are sent their values."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

MIN_PARTS = 10
"""Permutations, or random pairs of a regression, before a standard error is trusted to stop the sampling."""


@dataclass(frozen=True)
class AttributionSettings:
    """Settings of the estimation of Shapley values.

    Attributes:
        estimator: `auto`, or one of `shapley.estimators`.
        evaluations: Most coalitions of one game, or encoder passes where the estimator counts those; None in
            `published` means ten permutations with their reverses, as in the released scripts.
        seed: Seed of the permutations; the same for each text.
        standard_error: Standard error of T-SHAP, a share, at which sampling stops; None uses all evaluations.
        grid: Patches a side; None for as many as a text has players, by the profile.
    """

    profile: str
    estimator: str = "auto"
    evaluations: int | None = None
    seed: int = 0
    standard_error: float | None = None
    grid: int | None = None


@dataclass(frozen=True, eq=False)
class Estimate:
    """Shapley values of one game.

    Attributes:
        phi: float64 of shape (players, outputs).
        base_value: Value of the empty coalition, float64 of shape (outputs,).
        value: Value of all players together, float64 of shape (outputs,).
        requested: Coalitions that were requested, repeated ones counted each time.
        parts: Estimates that the draw makes independent, float64 of shape (parts, players, outputs): one a permutation
            with its reverse, whose mean is `phi`, or one a random pair of a regression. None where there are none.
        exact: Whether nothing was sampled.
        fitted: Whether `phi` comes from a regression, which is not the mean of `parts`.
        stopped_by: Why an estimation with a target standard error of T-SHAP ended; None without a target.
    """

    phi: np.ndarray
    base_value: np.ndarray
    value: np.ndarray
    requested: int
    parts: np.ndarray | None = None
    exact: bool = False
    fitted: bool = False
    stopped_by: Literal["standard error", "evaluations"] | None = None

    @property
    def residual(self) -> float:
        """Largest |sum of phi - (value - base_value)| over the outputs."""
        return float(np.abs(self.phi.sum(axis=0) - (self.value - self.base_value)).max())


Estimation = Generator[np.ndarray, np.ndarray, Estimate]
"""Yields coalitions, bool of shape (k, players); is sent their values, float64 of shape (k, outputs); returns an
estimate. The estimations of several texts of one image advance in step, so that their masked images are shared."""


def run_in_step(
    estimations: Sequence[Estimation], compute_values: Callable[[list[np.ndarray]], list[np.ndarray]]
) -> list[Estimate]:
    """Run the estimations of several games together, so that each round's coalitions are evaluated at once.

    Args:
        estimations: One of each game, none of which has begun.
        compute_values: For each game, from coalitions of shape (k, players), k possibly 0, to values of shape
            (k, outputs).
    """
    estimates: dict[int, Estimate] = {}
    coalitions = [next(estimation) for estimation in estimations]
    while len(estimates) < len(estimations):
        values = compute_values(coalitions)
        for game, estimation in enumerate(estimations):
            if game in estimates:
                continue
            try:
                coalitions[game] = estimation.send(values[game])
            except StopIteration as finished:
                estimates[game] = finished.value
                coalitions[game] = np.zeros((0, coalitions[game].shape[1]), dtype=bool)
    return [estimates[game] for game in range(len(estimations))]


def spread_players(estimation: Estimation, free: np.ndarray) -> Estimation:
    """Estimate the values of all players from a game of some; the others take part always, and their values are 0.

    Args:
        estimation: An estimation of the players that coalitions mask, not begun.
        free: Which those are, bool of shape (players,).
    """
    masks = next(estimation)
    while True:
        coalitions = np.ones((len(masks), len(free)), dtype=bool)
        coalitions[:, free] = masks
        values = yield coalitions
        try:
            masks = estimation.send(values)
        except StopIteration as finished:
            estimate: Estimate = finished.value
            break
    phi = np.zeros((len(free), estimate.phi.shape[1]))
    phi[free] = estimate.phi
    parts = estimate.parts
    if parts is not None:
        parts = np.zeros((len(parts), *phi.shape))
        parts[:, free] = estimate.parts
    return replace(estimate, phi=phi, parts=parts)


def to_null(value: float | None) -> float | None:
    """Return a number as it is stored: None where it is not finite."""
    return float(value) if value is not None and np.isfinite(value) else None
