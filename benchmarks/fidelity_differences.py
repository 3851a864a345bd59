"""Differences between the profiles `published` and `equations` on the same item, and their
arithmetic part.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from waltz.attribution.t_shap import MIN_CONTRIBUTION, measure_t_shap_of_outputs
from waltz.consistency.cc_shap.measure import SharedEstimate, compute_cc_shap
from waltz.core.intervals import Resampling, compute_mean
from waltz.core.measure import Measure
from waltz.fidelity import Profile, get_fidelity

NORMAL_QUANTILE = 1.96
"""Standard errors that a difference must exceed to be more than sampling error."""


@dataclass(frozen=True, eq=False)
class ExplainedItem:
    """One item in one profile: its own players, masks, values and estimator.

    Attributes:
        answer: Contributions to the answer.
        explanation: Contributions to the explanation.
        text_of_answer: Positions of the text players of the answer's prompt.
        text_of_explanation: Those of the explanation's.
    """

    answer: SharedEstimate
    explanation: SharedEstimate
    text_of_answer: slice | np.ndarray
    text_of_explanation: slice | np.ndarray


@dataclass(frozen=True)
class Difference:
    """One number in both profiles.

    Attributes:
        published: Its value in `published`; None where it is undefined.
        equations: Its value in `equations`.
        value: published - equations; None with a reason.
        by_arithmetic: The difference on the values of `equations`, which comes from ratios, sums
            and skipped tokens alone; the rest comes from players, masks, explained value and
            estimator. None where either is undefined.
        standard_error: Standard error of `value` from the draws of both; None with a reason.
        reason: The missing numbers with their reasons.
    """

    published: float | None
    equations: float | None
    value: float | None
    by_arithmetic: float | None
    standard_error: float | None
    reason: str | None = None

    @property
    def beyond_error(self) -> bool | None:
        """True where the profiles differ by more than 1.96 standard errors; None where that is
        unknown.
        """
        if self.value is None or self.standard_error is None:
            return None
        return abs(self.value) > NORMAL_QUANTILE * self.standard_error + 1e-9


@dataclass(frozen=True)
class FidelityComparison:
    """The numbers of one item in both profiles; the T-SHAP of a model without an image is 1 in
    both.
    """

    t_shap_answer: Difference
    t_shap_explanation: Difference
    cc_shap: Difference


@dataclass(frozen=True)
class _Number:
    value: float | None
    standard_error: float | None
    reason: str | None


def compare_profiles(
    published: ExplainedItem, equations: ExplainedItem, least: float = MIN_CONTRIBUTION
) -> FidelityComparison:
    """Compare T-SHAP and CC-SHAP of one item in both profiles.

    Args:
        published: The item's game under the published rules.
        equations: The same item's game under those of the thesis's definitions.
        least: Least contribution, as in `compute_cc_shap`.
    """

    def measure_share(game: ExplainedItem, side: str, profile: Profile) -> _Number:
        contributions: SharedEstimate = getattr(game, side)
        text = game.text_of_answer if side == "answer" else game.text_of_explanation
        measured = measure_t_shap_of_outputs(
            contributions.estimate, text, get_fidelity(profile), least
        )
        return _Number(
            _replace_nan(measured.value),
            _replace_nan(measured.standard_error),
            measured.reason,
        )

    def measure_consistency(game: ExplainedItem, profile: Profile) -> _Number:
        measured = compute_cc_shap(
            game.answer, game.explanation, get_fidelity(profile), least
        )
        return _Number(measured.value, measured.standard_error, measured.reason)

    games: tuple[tuple[ExplainedItem, Profile], ...] = (
        (published, "published"),
        (equations, "equations"),
        (equations, "published"),
    )
    return FidelityComparison(
        t_shap_answer=_build_difference(
            *(measure_share(game, "answer", profile) for game, profile in games)
        ),
        t_shap_explanation=_build_difference(
            *(measure_share(game, "explanation", profile) for game, profile in games)
        ),
        cc_shap=_build_difference(
            *(measure_consistency(game, profile) for game, profile in games)
        ),
    )


def compute_mean_difference(
    differences: Sequence[Difference],
    clusters: Sequence[str],
    label: str,
    how: Resampling,
) -> Measure:
    """Return the mean of published - equations over items, with an interval over clusters.

    The value is missing where no item has one.

    Args:
        differences: The same number of several items.
        clusters: The image of each, or its item where there is none.
        label: Name of model, data set and number, which separates the bootstrap draws from others'.
        how: Resamples, coverage and seed.
    """
    pairs = [
        (item.value, name)
        for item, name in zip(differences, clusters, strict=True)
        if item.value is not None
    ]
    if not pairs:
        return Measure(
            None,
            0,
            reason=f"none of {len(differences)} items has a value in both profiles",
        )
    values, names = [value for value, _ in pairs], [name for _, name in pairs]
    return compute_mean(values, names, label, how, bounds=None)


def _build_difference(
    published: _Number, equations: _Number, crossed: _Number
) -> Difference:
    """Build the difference of one number from both profiles and from `published` arithmetic on
    `equations` values.
    """
    reasons = [
        f"{name}: {number.reason}"
        for name, number in (("published", published), ("equations", equations))
        if number.reason
    ]
    value = by_arithmetic = error = None
    if published.value is not None and equations.value is not None:
        value = published.value - equations.value
    if crossed.value is not None and equations.value is not None:
        by_arithmetic = crossed.value - equations.value
    if (
        value is not None
        and published.standard_error is not None
        and equations.standard_error is not None
    ):
        error = math.hypot(published.standard_error, equations.standard_error)
    return Difference(
        published.value,
        equations.value,
        value,
        by_arithmetic,
        error,
        "; ".join(reasons) or None,
    )


def _replace_nan(value: float) -> float | None:
    return None if math.isnan(value) else value
