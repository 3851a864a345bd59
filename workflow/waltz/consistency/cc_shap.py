"""CC-SHAP: whether a model's answer and its explanation of it rest on the same inputs (thesis 5.2)."""

import math
from dataclasses import dataclass, replace

import numpy as np

from waltz.attribution.ratios import LEAST, Profile, contributed, ratios
from waltz.attribution.shapley.estimate import Estimate
from waltz.attribution.t_shap import jackknife_error, leave_one_out
from waltz.consistency.companions import Companions, companions, cosine

WEAK = 0.01
"""Mean |phi| over the tail below which the released code prints a warning about an output token."""


@dataclass(frozen=True, eq=False)
class Contributions:
    """What the players of one prompt contribute to what is said after it.

    Attributes:
        estimate: Shapley values of shape (players, outputs), an output a token of the answer or explanation.
        shared: Places of the players that the other prompt has too, in the same order on both sides: int64 of shape
            (shared,). The others are the tail, the text that asks for just this answer or explanation.
    """

    estimate: Estimate
    shared: np.ndarray


@dataclass(frozen=True, eq=False)
class CCShap:
    """CC-SHAP of one item.

    Attributes:
        value: 1 - cosine distance of the mean ratios, in [-1, 1]: 1 where answer and explanation rest on the same
            inputs, 0 where on unrelated ones, -1 where what speaks for one speaks against the other. None with a
            reason where it is undefined.
        standard_error: What the draw of permutations adds to it; None with a reason.
        companions: Other comparisons of the same ratios; None where CC-SHAP is undefined.
        ratios_answer: Mean ratios of the shared players, shares in `equations`, percent in `published`.
        ratios_explanation: Those of the explanation.
        weak_answer: Tokens of the answer with next to no contribution: left out in `equations`, kept in `published`.
        weak_explanation: Tokens of the explanation likewise.
        with_weak: CC-SHAP where they are kept; None where it is undefined.
        reason: Why there is no value.
        standard_error_reason: Why there is no standard error.
    """

    value: float | None
    standard_error: float | None
    companions: Companions | None
    ratios_answer: np.ndarray
    ratios_explanation: np.ndarray
    weak_answer: int
    weak_explanation: int
    with_weak: float | None
    reason: str | None = None
    standard_error_reason: str | None = None


def cc_shap(answer: Contributions, explanation: Contributions, profile: Profile, least: float = LEAST) -> CCShap:
    """Compare what an answer and its explanation rest on.

    Ratios of an output token are its Shapley values over the sum of their magnitudes over the shared players; they
    are averaged over the tokens. In `published` they are percents, no token is left out, and weak tokens are those
    that the released code warns of.

    Args:
        answer: Contributions to the answer.
        explanation: Contributions to the explanation, with as many shared players.
        profile: `published` or `equations`.
        least: For `equations`, the share of an average token's contribution below which a token is left out.
    Returns:
        CC-SHAP; undefined where one side has no output, or nothing contributes to it.
    Raises:
        ValueError: The numbers of shared players differ.
    Source:
        Thesis 5.2; CC-SHAP's released scripts.
    """
    sides = {"answer": answer, "explanation": explanation}
    if len(answer.shared) != len(explanation.shared):
        raise ValueError(f"{len(answer.shared)} and {len(explanation.shared)} players cannot be compared")
    kept = {name: _kept(side, profile, least) for name, side in sides.items()}
    means = {name: _means(side, side.estimate.phi, kept[name], profile) for name, side in sides.items()}
    weak = {name: _weak(side, kept[name], profile) for name, side in sides.items()}
    found = CCShap(None, None, None, means["answer"], means["explanation"], weak["answer"], weak["explanation"], None)
    reasons = [reason for name, side in sides.items() if (reason := _undefined(name, side, means[name]))]
    if reasons:
        return replace(found, reason="; ".join(reasons), standard_error_reason="CC-SHAP is undefined")
    error = _standard_error(answer, explanation, kept, profile)
    return replace(
        found,
        value=float(cosine(means["answer"], means["explanation"])),
        standard_error=error if isinstance(error, float) else None,
        companions=companions(means["answer"], means["explanation"]),
        with_weak=_with_weak(answer, explanation, profile),
        standard_error_reason=None if isinstance(error, float) else error,
    )


def mean_ratios(contributions: Contributions, profile: Profile = "equations", least: float = LEAST) -> np.ndarray:
    """Mean ratios of the shared players: float64 of shape (shared,), NaN where nothing contributes."""
    return _means(contributions, contributions.estimate.phi, _kept(contributions, profile, least), profile)


def _kept(side: Contributions, profile: Profile, least: float) -> np.ndarray:
    if profile == "published":
        return np.ones(side.estimate.phi.shape[1], dtype=bool)
    return contributed(side.estimate.phi[side.shared], least)


def _means(side: Contributions, phi: np.ndarray, kept: np.ndarray, profile: Profile) -> np.ndarray:
    """Mean ratios of phi of shape (..., players, outputs)."""
    shared = phi[..., side.shared, :]
    if not kept.any():
        return np.full(shared.shape[:-1], np.nan)
    if profile == "equations":
        means: np.ndarray = ratios(shared[..., kept]).mean(axis=-1)
        return means
    total = np.abs(phi).sum(axis=-2, keepdims=True) - np.abs(_tail(side, phi)).sum(axis=-2, keepdims=True)
    percents = np.divide(100 * shared, total, out=np.full_like(shared, np.nan), where=total > 0)
    means = percents.mean(axis=-1)
    return means


def _tail(side: Contributions, phi: np.ndarray) -> np.ndarray:
    return np.delete(phi, side.shared, axis=-2)


def _weak(side: Contributions, kept: np.ndarray, profile: Profile) -> int:
    if profile == "equations":
        return int((~kept).sum())
    tail = _tail(side, side.estimate.phi)
    return int((np.abs(tail).mean(axis=0) < WEAK).sum()) if len(tail) else 0


def _undefined(name: str, side: Contributions, means: np.ndarray) -> str | None:
    """Why a side has no ratios, or None."""
    phi = side.estimate.phi
    if not phi.shape[1]:
        return f"the {name} has no tokens"
    if not len(side.shared):
        return "the prompts of answer and explanation share no players"
    if not np.isfinite(phi).all():
        return f"a value of the {name} is not a number"
    if not contributed(phi[side.shared], 0).any():
        return f"no shared player contributes to the {name}"
    if np.isnan(means).any():
        return f"no shared player contributes to a token of the {name}, and the published code divides by 0"
    if not means.any():
        return f"the ratios of the {name}'s tokens cancel out"
    return None


def _with_weak(answer: Contributions, explanation: Contributions, profile: Profile) -> float | None:
    means = [mean_ratios(side, profile, 0) for side in (answer, explanation)]
    value = float(cosine(*means))
    return None if math.isnan(value) else value


def _standard_error(
    answer: Contributions, explanation: Contributions, kept: dict[str, np.ndarray], profile: Profile
) -> float | str:
    """The jackknife over parts, those of the two sides left out together where they are as many, or why there is none.

    Parts of unequal number were drawn apart, so that their variances add up.
    """
    sides = {"answer": answer, "explanation": explanation}
    whole = {name: _means(side, side.estimate.phi, kept[name], profile) for name, side in sides.items()}
    fewer: dict[str, np.ndarray] = {}
    for name, side in sides.items():
        if side.estimate.exact:
            continue
        if side.estimate.parts is None:
            return f"the estimator of the {name} gives no independent parts"
        if len(side.estimate.parts) < 2:
            return f"one permutation with its reverse for the {name}; a standard error needs two"
        fewer[name] = _means(side, leave_one_out(side.estimate.parts), kept[name], profile)
    if len(fewer) == 2 and len(fewer["answer"]) == len(fewer["explanation"]):
        errors = [jackknife_error(cosine(fewer["answer"], fewer["explanation"]))]
    else:
        errors = [jackknife_error(cosine(means, whole[_other(name)])) for name, means in fewer.items()]
    error = math.hypot(*errors)
    return "CC-SHAP is undefined without one permutation" if math.isnan(error) else error


def _other(name: str) -> str:
    return "explanation" if name == "answer" else "answer"
