"""Estimates of Shapley values, their settings, and estimations that yield coalitions and are sent
their values.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from waltz.fidelity import Fidelity, Profile

MIN_PARTS = 10
"""Minimum number of permutations, or chosen pairs of a regression, before a standard error may stop
the sampling.
"""


StoppedBy = Literal["standard error", "evaluations"]
"""Reason why an estimation with a target standard error ended."""


@dataclass(frozen=True)
class AttributionSettings:
    """Hold the settings of the estimation of Shapley values.

    Attributes:
        fidelity: Rules of the players, and estimators that are allowed.
        estimator: `auto`, or one of `shapley.estimators`.
        evaluations: Maximum number of coalitions of one game, or of encoder passes if the estimator
            counts these; None in `published` means ten permutations with their reverses, as in the
            released scripts.
        seed: Seed of the permutations; the same for each text that is attributed with them.
        standard_error: Standard error of T-SHAP, a share, at which sampling stops; None uses all
            evaluations.
        grid: Number of patches on a side; None derives it from the number of text players, by the
            rule of the profile.
        interactions: Whether interactions of text players with image players are computed too, for
            `equations`.
    """

    fidelity: Fidelity
    estimator: str = "auto"
    evaluations: int | None = None
    seed: int = 0
    standard_error: float | None = None
    grid: int | None = None
    interactions: bool = False

    @property
    def profile(self) -> Profile:
        """Return the name of the profile, as files have it."""
        return self.fidelity.name

    def build_key(self) -> dict[str, str | int | float | None]:
        """Return the settings as they are in the keys of stored results."""
        # Stored attributions have no interactions.
        return {
            "profile": self.profile,
            "estimator": self.estimator,
            "evaluations": self.evaluations,
            "seed": self.seed,
            "standard_error": self.standard_error,
            "grid": self.grid,
        }


@dataclass(frozen=True, eq=False)
class Estimate:
    """Hold the estimated Shapley values of one game.

    Attributes:
        phi: Shapley values, float64 of shape (players, outputs).
        base_value: Value of the empty coalition, float64 of shape (outputs,).
        value: Value of all players together, float64 of shape (outputs,).
        requested: Number of requested coalitions; a repeated coalition counts each time.
        parts: Estimates, float64 of shape (parts, players, outputs), from which the standard error
            of a statistic follows: one for each permutation with its reverse, whose mean is `phi`,
            or draws from the posterior of a regression. None without such estimates.
        exact: Whether nothing was sampled.
        pairs: Number of pairs of coalitions that a regression chose; None without a regression.
        stopped_by: Why an estimation with a target standard error of T-SHAP ended; None without a
            target.
    """

    phi: np.ndarray
    base_value: np.ndarray
    value: np.ndarray
    requested: int
    parts: np.ndarray | None = None
    exact: bool = False
    pairs: int | None = None
    stopped_by: StoppedBy | None = None

    @property
    def residual(self) -> float:
        """Return how far `phi` is from efficiency: the largest |sum of phi - (value - base_value)|
        over the outputs.
        """
        return float(
            np.abs(self.phi.sum(axis=0) - (self.value - self.base_value)).max()
        )


def describe_stop(standard_error: float | None, is_reached: bool) -> StoppedBy | None:
    """Return the reason why an estimation with a target standard error of T-SHAP ended; None
    without a target.
    """
    if standard_error is None:
        return None
    if is_reached:
        return "standard error"
    return "evaluations"


Estimation = Generator[np.ndarray, np.ndarray, Estimate]
"""Generator that estimates Shapley values: it yields coalitions, is sent their values, and returns
an estimate.

Coalitions are bool of shape (k, players), their values float64 of shape (k, outputs). The
estimations of several texts of one image advance in step, so that their masked images are shared.
"""


def estimate_in_step(
    estimations: Sequence[Estimation],
    compute_values: Callable[[list[np.ndarray]], list[np.ndarray]],
) -> list[Estimate]:
    """Run the estimations of several games together, so that each round's coalitions are evaluated
    at once.

    Args:
        estimations: One estimation for each game; none has begun.
        compute_values: Function that takes the coalitions of each game, of shape (k, players) with
            k possibly 0, and returns their values, of shape (k, outputs).
    Returns:
        The estimate of each game.
    """
    estimates: dict[int, Estimate] = {}
    coalitions = [next(estimation) for estimation in estimations]
    while len(estimates) < len(estimations):
        values = compute_values(coalitions)
        for game, estimation in enumerate(estimations):
            if game in estimates:
                continue
            # Send the values of this round; the generator answers with the coalitions of its next
            # round, or ends.
            try:
                coalitions[game] = estimation.send(values[game])
            except StopIteration as finished:
                estimates[game] = finished.value
                # A finished game requests no coalition in the rounds of the others.
                coalitions[game] = np.zeros((0, coalitions[game].shape[1]), dtype=bool)
    return [estimates[game] for game in range(len(estimations))]


def spread_players(estimation: Estimation, free: np.ndarray) -> Estimation:
    """Turn an estimation of the maskable players into an estimation of all players.

    The other players take part in every coalition, and their Shapley values are 0.

    Args:
        estimation: An estimation of the players that coalitions mask; it has not begun.
        free: Whether coalitions mask a player, bool of shape (players,).
    """
    # masks: (k, free players); coalitions: (k, players).
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
    # A player that takes part always adds nothing: its value stays 0.
    phi = np.zeros((len(free), estimate.phi.shape[1]))
    phi[free] = estimate.phi
    parts = estimate.parts
    if parts is not None:
        parts = np.zeros((len(parts), *phi.shape))
        parts[:, free] = estimate.parts
    return replace(estimate, phi=phi, parts=parts)


def to_null(value: float | None) -> float | None:
    """Return a number as it is stored: None if it is missing or not finite."""
    if value is None or not np.isfinite(value):
        return None
    return float(value)
