"""Settings of an attribution."""

from dataclasses import dataclass


@dataclass(frozen=True)
class AttributionSettings:
    """Settings of the estimation of Shapley values.

    Attributes:
        profile: `published` or `equations`.
        estimator: `auto`, or one of `shapley.estimators`.
        evaluations: Most coalitions of one game, or encoder passes where the estimator counts those; None in
            `published` means ten permutations with their reverses, as in the released scripts.
        seed: Seed of the permutations; the same for each text.
        standard_error: Standard error of T-SHAP, a share, at which sampling stops; None uses all evaluations.
    """

    profile: str
    estimator: str = "auto"
    evaluations: int | None = None
    seed: int = 0
    standard_error: float | None = None
