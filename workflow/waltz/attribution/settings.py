"""What decides an attribution beside model, image and text."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """How Shapley values are estimated.

    Attributes:
        profile: `published` or `equations`.
        estimator: `auto`, or one of `attribution.estimators`.
        evaluations: Most coalitions of one game, or encoder passes where the estimator counts those; None in
            `published` means what the released scripts ask, ten permutations with their reverses.
        seed: Seed of the permutations; the same for each text.
        standard_error: Wanted standard error of T-SHAP, a share, at which sampling stops; None uses all evaluations.
    """

    profile: str
    estimator: str = "auto"
    evaluations: int | None = None
    seed: int = 0
    standard_error: float | None = None
