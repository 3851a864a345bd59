"""CC-SHAP: the similarity of the attributions of a model's answer and of its explanation (thesis 5.2)."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import takewhile

import numpy as np

from waltz.attribution.shapley.estimate import Estimate
from waltz.attribution.t_shap import (
    MIN_CONTRIBUTION,
    average_leaving_one_out,
    compute_contribution_ratios,
    compute_jackknife_error,
    find_contributing_outputs,
)
from waltz.core.errors import UserError
from waltz.fidelity import Fidelity, Profile, get_fidelity

MAX_ROUNDING = 1e-12
"""Ratios that differ by at most this, relative to their size, are the same but for rounding."""
WARNING_LEVEL = 0.01
"""Mean |phi| over the query suffix below which the released code prints a warning about an output token."""


@dataclass(frozen=True)
class Companions:
    """Comparisons of the ratios of an answer with those of its explanation; all but the first depend on their unit.

    Attributes:
        correlation: 1 - correlation distance, in [-1, 1]; None where the ratios of one side are all the same.
        mse: 1 - mean squared difference.
        variance: 1 - variance of the squared differences.
        kl: 1 - Kullback-Leibler divergence (nats) of the explanation from the answer, after a softmax of the ratios.
        js: 1 - Jensen-Shannon distance (square root, nats) after a softmax of the ratios; at least 0.167.
    """

    correlation: float | None
    mse: float
    variance: float
    kl: float
    js: float


def compute_cosine(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return 1 - cosine distance of vectors of shape (..., players): in [-1, 1], NaN where one of them is 0 or NaN."""
    scales = [np.abs(vector).max(axis=-1, keepdims=True, initial=0) for vector in (first, second)]
    units = [
        np.divide(vector, scale, out=np.full_like(vector, np.nan), where=scale > 0)
        for vector, scale in zip((first, second), scales, strict=True)
    ]
    norms = [np.sqrt((unit**2).sum(axis=-1)) for unit in units]
    similarity: np.ndarray = np.clip((units[0] * units[1]).sum(axis=-1) / (norms[0] * norms[1]), -1, 1)
    return similarity


def compute_companions(answer: np.ndarray, explanation: np.ndarray) -> Companions:
    """Compare two vectors of ratios of one length, float64 of shape (players,), at least one.

    Source:
        CC-SHAP's released scripts; thesis 5.2 reports the cosine alone.
    """
    squares = (answer - explanation) ** 2
    logs = [_compute_log_softmax(vector) for vector in (answer, explanation)]
    middle = np.logaddexp(*logs) - np.log(2)
    js_divergence = (_compute_divergence(logs[0], middle) + _compute_divergence(logs[1], middle)) / 2
    return Companions(
        correlation=_compute_correlation(answer, explanation),
        mse=float(1 - squares.mean()),
        variance=float(1 - squares.var()),
        kl=1 - _compute_divergence(logs[1], logs[0]),
        js=float(1 - np.sqrt(max(0.0, js_divergence))),
    )


def _compute_correlation(first: np.ndarray, second: np.ndarray) -> float | None:
    centred = [vector - vector.mean() for vector in (first, second)]
    if any(np.ptp(vector) <= MAX_ROUNDING * np.abs(vector).max() for vector in (first, second)):
        return None
    return float(compute_cosine(*centred))


def _compute_log_softmax(vector: np.ndarray) -> np.ndarray:
    shifted = vector - vector.max()
    logs: np.ndarray = shifted - np.log(np.exp(shifted).sum())
    return logs


def _compute_divergence(logs: np.ndarray, reference: np.ndarray) -> float:
    """Return the Kullback-Leibler divergence, in nats, from log-probabilities."""
    return float((np.exp(logs) * (logs - reference)).sum())


Token = Hashable
SharedPlayers = tuple[np.ndarray, np.ndarray]
"""Shared players of the first and of the second game, int64 of one shape: the k-th of both are the same player."""


def find_shared_players(
    answer: Sequence[Token],
    explanation: Sequence[Token],
    suffixes: tuple[int, int],
    fidelity: Fidelity,
    *,
    patches: int = 0,
    image_first: bool = False,
) -> SharedPlayers:
    """Return the players that the prompts of an answer and of its explanation share.

    Args:
        answer: The answer's text players, as token ids or pieces.
        explanation: The explanation's.
        suffixes: Number of text players in the query suffix of each.
        fidelity: `published` takes all players before the suffixes for shared, whatever they are; `equations` those
            with which both prompts begin.
        patches: Number of image players, the same of both.
        image_first: Whether image players stand before the text players.
    Returns:
        Numbers among all players, in their order.
    Raises:
        UserError: A suffix is longer than its prompt, or, in `published`, the numbers of players before them differ.
    """
    before = [len(players) - suffix for players, suffix in zip((answer, explanation), suffixes, strict=True)]
    if min(before) < 0 or min(suffixes) < 0:
        raise UserError(
            f"query suffixes of {suffixes[0]} and {suffixes[1]} tokens do not end prompts of {len(answer)} and"
            f" {len(explanation)}; give the texts with which the prompts end"
        )
    if fidelity.shared_players == "count" and before[0] != before[1]:
        raise UserError(
            f"{before[0]} players stand before the query suffix of the answer's prompt, {before[1]} before the"
            " explanation's; the published CC-SHAP compares as many: change prompts or suffixes, or take the profile"
            " equations"
        )
    count = min(before)
    if fidelity.shared_players == "prefix":
        count = _count_common_prefix(answer[:count], explanation[:count])
    text = np.arange(count) + (patches if image_first else 0)

    def number_players(words: int) -> np.ndarray:
        image = np.arange(patches) + (0 if image_first else words)
        return np.concatenate([image, text] if image_first else [text, image])

    return number_players(len(answer)), number_players(len(explanation))


def find_unchanged_players(before: Sequence[Hashable], after: Sequence[Hashable]) -> SharedPlayers:
    """Return the players that an edit leaves, in order, without those that were inserted or changed.

    Args:
        before: Identities of the players before the edit, such as token ids, pieces, or patches.
        after: Those after it.
    """
    prefix = _count_common_prefix(before, after)
    matches = SequenceMatcher(None, before[prefix:], after[prefix:], autojunk=False).get_matching_blocks()
    blocks = [(0, 0, prefix), *((prefix + first, prefix + second, size) for first, second, size in matches)]
    numbers = [np.concatenate([np.arange(block[side], block[side] + block[2]) for block in blocks]) for side in (0, 1)]
    return numbers[0], numbers[1]


def _count_common_prefix(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


@dataclass(frozen=True, eq=False)
class SharedEstimate:
    """Shapley values of one prompt, with the players that it shares with another one.

    Attributes:
        estimate: Shapley values of shape (players, outputs), an output a token of the answer or explanation.
        shared: The players that the other prompt has too, in the same order on both sides: int64 of shape (shared,).
            The others are the query suffix.
    """

    estimate: Estimate
    shared: np.ndarray


@dataclass(frozen=True, eq=False)
class CCShap:
    """CC-SHAP of one item.

    Attributes:
        value: 1 - cosine distance of the mean ratios, in [-1, 1]: 1 where answer and explanation rest on the same
            inputs, 0 where on unrelated ones, -1 where inputs that raise the one lower the other. None with a reason
            where it is undefined.
        standard_error: Standard error that the draw of permutations adds; None with a reason.
        companions: Other comparisons of the same ratios; None where CC-SHAP is undefined.
        ratios_answer: Mean ratios of the shared players, shares in `equations`, percent in `published`.
        ratios_explanation: Those of the explanation.
        weak_answer: Tokens of the answer to which next to nothing contributes: skipped in `equations`, counted in
            `published`.
        weak_explanation: Tokens of the explanation likewise.
        with_weak: CC-SHAP with those tokens; None where it is undefined.
        reason: Why there is no value, or no standard error.
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


def compute_cc_shap(
    answer: SharedEstimate,
    explanation: SharedEstimate,
    profile: Profile,
    min_contribution: float = MIN_CONTRIBUTION,
) -> CCShap:
    """Compute CC-SHAP of an answer and its explanation.

    Ratios of an output token are its Shapley values over the sum of their magnitudes over the shared players; they
    are averaged over the tokens. In `published` they are percents, no token is skipped, and weak tokens are those
    that the released code warns of.

    Args:
        explanation: Values of the explanation, with as many shared players.
        min_contribution: For `equations`, the share of an average token's contribution below which a token is skipped.
    Returns:
        CC-SHAP; undefined where one side has no output, or nothing contributes to it.
    Raises:
        ValueError: The numbers of shared players differ.
    Source:
        Thesis 5.2; CC-SHAP's released scripts.
    """
    fidelity = get_fidelity(profile)
    sides = {"answer": answer, "explanation": explanation}
    if len(answer.shared) != len(explanation.shared):
        raise ValueError(f"{len(answer.shared)} and {len(explanation.shared)} players cannot be compared")
    strong = {name: _find_strong_outputs(side, fidelity, min_contribution) for name, side in sides.items()}
    means = {name: _average_ratios(side, side.estimate.phi, strong[name], fidelity) for name, side in sides.items()}
    weak = {name: _count_weak_outputs(side, strong[name], fidelity) for name, side in sides.items()}
    undefined = CCShap(
        None, None, None, means["answer"], means["explanation"], weak["answer"], weak["explanation"], None
    )
    reasons = [reason for name, side in sides.items() if (reason := _explain_undefined(name, side, means[name]))]
    if reasons:
        return replace(undefined, reason="; ".join(reasons))
    error, reason = _compute_standard_error(sides, means, strong, fidelity)
    with_weak = float(compute_cosine(*(compute_mean_ratios(side, profile, 0) for side in sides.values())))
    return replace(
        undefined,
        value=float(compute_cosine(means["answer"], means["explanation"])),
        standard_error=error,
        companions=compute_companions(means["answer"], means["explanation"]),
        with_weak=None if math.isnan(with_weak) else with_weak,
        reason=reason,
    )


def compute_mean_ratios(
    shared: SharedEstimate, profile: Profile = "equations", min_contribution: float = MIN_CONTRIBUTION
) -> np.ndarray:
    """Return the mean ratios of the shared players: float64 of shape (shared,), NaN where nothing contributes."""
    fidelity = get_fidelity(profile)
    strong = _find_strong_outputs(shared, fidelity, min_contribution)
    return _average_ratios(shared, shared.estimate.phi, strong, fidelity)


def _find_strong_outputs(side: SharedEstimate, fidelity: Fidelity, min_contribution: float) -> np.ndarray:
    """Return the outputs that enter CC-SHAP, bool of shape (outputs,)."""
    if not fidelity.drops_weak_outputs:
        return np.ones(side.estimate.phi.shape[1], dtype=bool)
    return find_contributing_outputs(side.estimate.phi[side.shared], min_contribution)


def _average_ratios(side: SharedEstimate, phi: np.ndarray, strong: np.ndarray, fidelity: Fidelity) -> np.ndarray:
    """Return the mean ratios of phi of shape (..., players, outputs)."""
    shared = phi[..., side.shared, :]
    if not strong.any():
        return np.full(shared.shape[:-1], np.nan)
    if fidelity.ratio_total == "shared":
        means: np.ndarray = compute_contribution_ratios(shared[..., strong]).mean(axis=-1)
        return means
    suffix = np.delete(phi, side.shared, axis=-2)
    total = np.abs(phi).sum(axis=-2, keepdims=True) - np.abs(suffix).sum(axis=-2, keepdims=True)
    percents = np.divide(100 * shared, total, out=np.full_like(shared, np.nan), where=total > 0)
    means = percents.mean(axis=-1)
    return means


def _count_weak_outputs(side: SharedEstimate, strong: np.ndarray, fidelity: Fidelity) -> int:
    """Return how many outputs next to nothing contributes to, by the rule of the profile."""
    if fidelity.drops_weak_outputs:
        return int((~strong).sum())
    suffix = np.delete(side.estimate.phi, side.shared, axis=0)
    return int((np.abs(suffix).mean(axis=0) < WARNING_LEVEL).sum()) if len(suffix) else 0


def _explain_undefined(name: str, side: SharedEstimate, means: np.ndarray) -> str | None:
    """Return why a side has no ratios, or None."""
    phi = side.estimate.phi
    if not phi.shape[1]:
        return f"the {name} has no tokens"
    if not len(side.shared):
        return "the prompts of answer and explanation share no players"
    if not np.isfinite(phi).all():
        return f"a value of the {name} is not a number"
    if not find_contributing_outputs(phi[side.shared], 0).any():
        return f"no shared player contributes to the {name}"
    if np.isnan(means).any():
        return f"no shared player contributes to a token of the {name}, and the published code divides by 0"
    if not means.any():
        return f"the ratios of the {name}'s tokens cancel out"
    return None


def _compute_standard_error(
    sides: Mapping[str, SharedEstimate],
    means: Mapping[str, np.ndarray],
    strong: Mapping[str, np.ndarray],
    fidelity: Fidelity,
) -> tuple[float | None, str | None]:
    """Return the jackknife error over parts, or why there is none."""
    fewer: dict[str, np.ndarray] = {}
    for name, side in sides.items():
        if side.estimate.exact:
            continue
        if side.estimate.parts is None:
            return None, f"the estimator of the {name} gives no independent parts"
        if len(side.estimate.parts) < 2:
            return None, f"one permutation with its reverse for the {name}; a standard error needs two"
        fewer[name] = _average_ratios(side, average_leaving_one_out(side.estimate.parts), strong[name], fidelity)
    if len(fewer) == 2 and len(fewer["answer"]) == len(fewer["explanation"]):
        # the same part of both sides is omitted at once
        error = compute_jackknife_error(compute_cosine(fewer["answer"], fewer["explanation"]))
    else:
        # the sides were drawn independently, so that their variances add up
        others = {"answer": "explanation", "explanation": "answer"}
        errors = [
            compute_jackknife_error(compute_cosine(part_means, means[others[name]]))
            for name, part_means in fewer.items()
        ]
        error = math.hypot(*errors)
    return (None, "CC-SHAP is undefined without one permutation") if math.isnan(error) else (error, None)
