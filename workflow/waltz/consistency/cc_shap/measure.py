"""CC-SHAP: the similarity of the attributions of a model's answer and of its explanation (thesis
5.2).
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import takewhile

import numpy as np

from waltz.attribution.shapley.estimate import Estimate, to_null
from waltz.attribution.t_shap import (
    MIN_CONTRIBUTION,
    average_leaving_one_out,
    compute_contribution_ratios,
    compute_draw_error,
    compute_jackknife_error,
    find_contributing_outputs,
)
from waltz.core.errors import UserError
from waltz.core.schema import CcShapRecord
from waltz.fidelity import EQUATIONS, Fidelity

MAX_ROUNDING = 1e-12
"""Ratios count as equal if they differ by at most this share of their largest magnitude."""
WARNING_LEVEL = 0.01
"""The released code warns of an output token if mean |phi| over the query suffix is below this
level.
"""


@dataclass(frozen=True)
class CCShapCompanions:
    """Compare the ratios of an answer with the ratios of its explanation by measures other than the
    cosine.

    All measures but the first depend on the unit of the ratios.

    Attributes:
        correlation: 1 - correlation distance, in [-1, 1]; None if all ratios of the answer, or of
            the explanation, are equal.
        mse: 1 - mean squared difference.
        variance: 1 - variance of the squared differences.
        kl: 1 - Kullback-Leibler divergence (nats) of the explanation from the answer, after a
            softmax of the ratios.
        js: 1 - Jensen-Shannon distance (square root, nats) after a softmax of the ratios; at least
            0.167.
    """

    correlation: float | None
    mse: float
    variance: float
    kl: float
    js: float


def compute_cosine(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the cosine (1 - cosine distance) of vectors of shape (..., players).

    It is in [-1, 1], and NaN where a vector is 0 or contains NaN.
    """
    # Vectors are scaled to a maximum of 1, so that squares of very small or large numbers do not
    # vanish or overflow.
    first_unit, second_unit = _scale_to_unit(first), _scale_to_unit(second)
    first_norm = np.sqrt((first_unit**2).sum(axis=-1))
    second_norm = np.sqrt((second_unit**2).sum(axis=-1))
    dot_product = (first_unit * second_unit).sum(axis=-1)
    # Rounding can exceed the bounds by a little.
    similarity: np.ndarray = np.clip(dot_product / (first_norm * second_norm), -1, 1)
    return similarity


def _scale_to_unit(vector: np.ndarray) -> np.ndarray:
    """Divide vectors of shape (..., players) by their largest magnitude; the result is NaN where it
    is 0.
    """
    scale = np.abs(vector).max(axis=-1, keepdims=True, initial=0)
    unit: np.ndarray = np.divide(
        vector, scale, out=np.full_like(vector, np.nan), where=scale > 0
    )
    return unit


def compute_cc_shap_companions(
    answer: np.ndarray, explanation: np.ndarray
) -> CCShapCompanions:
    """Compare the mean ratios of an answer with the mean ratios of its explanation.

    Args:
        answer: Ratios of the answer, float64 of shape (players,), at least one player.
        explanation: Ratios of the explanation, of the same shape.
    Source:
        CC-SHAP's released scripts; thesis 5.2 reports the cosine alone.
    """
    squares = (answer - explanation) ** 2
    # P = softmax(answer) and Q = softmax(explanation), as logarithms; M is the mean of both
    # distributions.
    log_p, log_q = _compute_log_softmax(answer), _compute_log_softmax(explanation)
    log_m = np.logaddexp(log_p, log_q) - np.log(2)
    # JS(P, Q) = (KL(P || M) + KL(Q || M)) / 2; its root is the Jensen-Shannon distance.
    js_divergence = (
        _compute_divergence(log_p, log_m) + _compute_divergence(log_q, log_m)
    ) / 2
    return CCShapCompanions(
        correlation=_compute_correlation(answer, explanation),
        mse=float(1 - squares.mean()),
        variance=float(1 - squares.var()),
        kl=1 - _compute_divergence(log_q, log_p),
        # Rounding can make the divergence of equal vectors slightly negative.
        js=float(1 - np.sqrt(max(0.0, js_divergence))),
    )


def _compute_correlation(first: np.ndarray, second: np.ndarray) -> float | None:
    """Return Pearson's correlation of two vectors; None if a vector is constant up to rounding."""
    for vector in (first, second):
        if np.ptp(vector) <= MAX_ROUNDING * np.abs(vector).max():
            return None
    # Pearson's correlation is the cosine of the centered vectors.
    return float(compute_cosine(first - first.mean(), second - second.mean()))


def _compute_log_softmax(vector: np.ndarray) -> np.ndarray:
    # The maximum is subtracted, so that no exponential overflows.
    shifted = vector - vector.max()
    logs: np.ndarray = shifted - np.log(np.exp(shifted).sum())
    return logs


def _compute_divergence(logs: np.ndarray, reference: np.ndarray) -> float:
    """Return the Kullback-Leibler divergence KL(P || Q) = sum_i p_i (ln p_i - ln q_i) in nats.

    Args:
        logs: ln p, float64 of shape (players,).
        reference: ln q, of the same shape.
    """
    return float((np.exp(logs) * (logs - reference)).sum())


Token = Hashable
SharedPlayers = tuple[np.ndarray, np.ndarray]
"""Numbers of the shared players in the first and in the second game: two int64 arrays of one shape.

Entry k of both arrays is the same player."""


def find_shared_players(
    answer: Sequence[Token],
    explanation: Sequence[Token],
    suffixes: tuple[int, int],
    fidelity: Fidelity,
    *,
    patches: int = 0,
    image_first: bool = False,
) -> SharedPlayers:
    """Find the players that the prompts of an answer and of its explanation share.

    Args:
        answer: Text players of the answer's prompt, as token ids or pieces.
        explanation: Text players of the explanation's prompt.
        suffixes: Number of text players in the query suffix of each prompt.
        fidelity: In `published` all players before the suffixes count as shared, even if they
            differ. In `equations` the players with which both prompts begin are shared.
        patches: Number of image players, the same for both prompts.
        image_first: Whether image players stand before the text players.
    Returns:
        Numbers of the shared players in each game, in their order.
    Raises:
        UserError: A suffix is longer than its prompt; or, in `published`, the prompts have
            different numbers of players before their suffixes.
    """
    # Number of text players before each suffix.
    answer_count, explanation_count = (
        len(answer) - suffixes[0],
        len(explanation) - suffixes[1],
    )
    count = min(answer_count, explanation_count)
    if count < 0 or min(suffixes) < 0:
        raise UserError(
            f"query suffixes of {suffixes[0]} and {suffixes[1]} tokens do not end prompts of {len(answer)} and"
            f" {len(explanation)}; give the texts with which the prompts end"
        )
    if fidelity.shared_players == "count" and answer_count != explanation_count:
        raise UserError(
            f"{answer_count} players stand before the query suffix of the answer's prompt, {explanation_count} before"
            " the explanation's; the published CC-SHAP compares as many: change prompts or suffixes, or take the"
            " profile equations"
        )
    if fidelity.shared_players == "prefix":
        count = _count_common_prefix(answer[:count], explanation[:count])

    # A shared text player has the same number in both games. Patches behind the text have numbers
    # that depend on the length of the prompt; patches before the text have the same numbers in both
    # games.
    if image_first:
        numbers = np.concatenate([np.arange(patches), patches + np.arange(count)])
        return numbers, numbers.copy()
    answer_numbers = np.concatenate(
        [np.arange(count), len(answer) + np.arange(patches)]
    )
    explanation_numbers = np.concatenate(
        [np.arange(count), len(explanation) + np.arange(patches)]
    )
    return answer_numbers, explanation_numbers


def find_unchanged_players(
    before: Sequence[Hashable], after: Sequence[Hashable]
) -> SharedPlayers:
    """Find the players that an edit leaves unchanged, in order.

    Args:
        before: Identities of the players before the edit, such as token ids, pieces, or patches.
        after: Identities of the players after the edit.
    """
    # The common beginning is taken first, since the matcher could align repeated tokens
    # differently.
    prefix = _count_common_prefix(before, after)
    before_numbers, after_numbers = [np.arange(prefix)], [np.arange(prefix)]
    matcher = SequenceMatcher(None, before[prefix:], after[prefix:], autojunk=False)
    for block in matcher.get_matching_blocks():
        before_numbers.append(prefix + block.a + np.arange(block.size))
        after_numbers.append(prefix + block.b + np.arange(block.size))
    return np.concatenate(before_numbers), np.concatenate(after_numbers)


def _count_common_prefix(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


@dataclass(frozen=True, eq=False)
class SharedEstimate:
    """Hold the Shapley values of an answer or of an explanation, with the players that the other
    prompt shares.

    Attributes:
        estimate: Shapley values of shape (players, outputs); each token of the answer or
            explanation is an output.
        shared: Numbers of the players that the other prompt has too, in the same order for both,
            int64 of shape (shared,). All other players belong to the query suffix.
    """

    estimate: Estimate
    shared: np.ndarray


@dataclass(frozen=True, eq=False)
class CCShap:
    """Hold CC-SHAP of one item, with its error and the ratios that it compares.

    Attributes:
        value: 1 - cosine distance of the mean ratios, in [-1, 1]: 1 if answer and explanation
            depend on the same inputs, 0 if they depend on unrelated inputs, -1 if inputs that raise
            the answer lower the explanation. None with a reason if it is undefined.
        standard_error: Standard error from the random permutations; None with a reason.
        companions: Other comparisons of the same ratios; None if CC-SHAP is undefined.
        ratios_answer: Mean ratios of the answer for the shared players; shares in `equations`,
            percent in `published`.
        ratios_explanation: Mean ratios of the explanation for the same players.
        weak_answer: Number of weak tokens of the answer, to which the players contribute hardly
            anything. They are skipped in `equations`, and enter the mean in `published`.
        weak_explanation: Number of weak tokens of the explanation.
        with_weak: CC-SHAP with the weak tokens; None if it is undefined.
        reason: Why there is no value, or no standard error.
    """

    value: float | None
    standard_error: float | None
    companions: CCShapCompanions | None
    ratios_answer: np.ndarray
    ratios_explanation: np.ndarray
    weak_answer: int
    weak_explanation: int
    with_weak: float | None
    reason: str | None = None


def compute_cc_shap(
    answer: SharedEstimate,
    explanation: SharedEstimate,
    fidelity: Fidelity,
    min_contribution: float = MIN_CONTRIBUTION,
) -> CCShap:
    """Compute CC-SHAP of an answer and its explanation.

    The ratios of an output token are its Shapley values, divided by the sum of their magnitudes
    over the shared players. They are averaged over the tokens. In `published` they are percentages,
    no token is skipped, and the weak tokens are those that the released code warns of.

    Args:
        answer: Shapley values of the answer.
        explanation: Shapley values of the explanation, with the same number of shared players.
        fidelity: Rules of the ratios.
        min_contribution: For `equations`, the share of an average token's contribution below which
            a token is skipped.
    Returns:
        CC-SHAP. It is undefined if the answer or the explanation has no tokens, or nothing
        contributes to it.
    Raises:
        ValueError: The numbers of shared players differ.
    Source:
        Thesis 5.2; CC-SHAP's released scripts.
    """
    if len(answer.shared) != len(explanation.shared):
        raise ValueError(
            f"{len(answer.shared)} and {len(explanation.shared)} players cannot be compared"
        )
    answer_ratios = _prepare_ratios(answer, fidelity, min_contribution)
    explanation_ratios = _prepare_ratios(explanation, fidelity, min_contribution)
    undefined = CCShap(
        value=None,
        standard_error=None,
        companions=None,
        ratios_answer=answer_ratios.means,
        ratios_explanation=explanation_ratios.means,
        weak_answer=answer_ratios.count_weak_outputs(),
        weak_explanation=explanation_ratios.count_weak_outputs(),
        with_weak=None,
    )
    reasons = [
        answer_ratios.explain_undefined("answer"),
        explanation_ratios.explain_undefined("explanation"),
    ]
    reason = "; ".join(reason for reason in reasons if reason)
    if reason:
        return replace(undefined, reason=reason)

    error, error_reason = _compute_standard_error(answer_ratios, explanation_ratios)
    # A minimum of 0 keeps all tokens except those within rounding.
    with_weak = compute_cosine(
        compute_mean_ratios(answer, fidelity, min_contribution=0),
        compute_mean_ratios(explanation, fidelity, min_contribution=0),
    )
    return replace(
        undefined,
        # CC-SHAP = 1 - cosine distance of the mean ratios of answer and explanation = their cosine
        # (thesis 5.2).
        value=float(compute_cosine(answer_ratios.means, explanation_ratios.means)),
        standard_error=error,
        companions=compute_cc_shap_companions(
            answer_ratios.means, explanation_ratios.means
        ),
        with_weak=None if math.isnan(with_weak) else float(with_weak),
        reason=error_reason,
    )


def add_cc_shap(
    record: CcShapRecord, cc_shap: CCShap, order: np.ndarray | slice = slice(None)
) -> CcShapRecord:
    """Return a record with CC-SHAP and the other comparisons of the same ratios.

    Args:
        order: Order in which the ratios of the shared players are stored.
    """
    # The companions are columns of the record; an undefined CC-SHAP has none.
    companions = vars(cc_shap.companions) if cc_shap.companions else {}
    return replace(
        record,
        value=cc_shap.value,
        **companions,
        with_weak=cc_shap.with_weak,
        weak_answer=cc_shap.weak_answer,
        weak_explanation=cc_shap.weak_explanation,
        ratios_answer=[to_null(ratio) for ratio in cc_shap.ratios_answer[order]],
        ratios_explanation=[
            to_null(ratio) for ratio in cc_shap.ratios_explanation[order]
        ],
    )


def compute_mean_ratios(
    shared: SharedEstimate,
    fidelity: Fidelity = EQUATIONS,
    min_contribution: float = MIN_CONTRIBUTION,
) -> np.ndarray:
    """Return the mean ratios of the shared players: float64 of shape (shared,), NaN where nothing
    contributes.
    """
    return _prepare_ratios(shared, fidelity, min_contribution).means


@dataclass(frozen=True, eq=False)
class _MeanRatios:
    """Hold the mean ratios of an answer or of an explanation.

    Attributes:
        shared: The Shapley values of the answer or explanation.
        fidelity: The rules of the ratios.
        strong: The output tokens that enter the mean, bool of shape (outputs,).
        means: Mean ratios of the shared players, float64 of shape (shared,); NaN where nothing
            contributes.
    """

    shared: SharedEstimate
    fidelity: Fidelity
    strong: np.ndarray
    means: np.ndarray

    def average(self, phi: np.ndarray) -> np.ndarray:
        """Return the mean ratios of other Shapley values of the same game; see `_average_ratios`.

        Args:
            phi: float64 of shape (..., players, outputs).
        """
        return _average_ratios(phi, self.shared.shared, self.strong, self.fidelity)

    def count_weak_outputs(self) -> int:
        """Count the weak output tokens, by the rule of the profile."""
        if self.fidelity.drops_weak_outputs:
            return int((~self.strong).sum())
        # The released code warns of a token if the query suffix contributes little to it.
        # (suffix players, outputs)
        suffix = np.delete(self.shared.estimate.phi, self.shared.shared, axis=0)
        if not len(suffix):
            return 0
        return int((np.abs(suffix).mean(axis=0) < WARNING_LEVEL).sum())

    def explain_undefined(self, name: str) -> str | None:
        """Return the reason why the ratios are undefined, or None if they are defined.

        Args:
            name: `answer` or `explanation`.
        """
        phi, players = self.shared.estimate.phi, self.shared.shared
        if not phi.shape[1]:
            return f"the {name} has no tokens"
        if not len(players):
            return "the prompts of answer and explanation share no players"
        if not np.isfinite(phi).all():
            return f"a value of the {name} is not a number"
        if not find_contributing_outputs(phi[players], 0).any():
            return f"no shared player contributes to the {name}"
        if np.isnan(self.means).any():
            return f"no shared player contributes to a token of the {name}, and the published code divides by 0"
        if not self.means.any():
            return f"the ratios of the {name}'s tokens cancel out"
        return None


def _prepare_ratios(
    shared: SharedEstimate, fidelity: Fidelity, min_contribution: float
) -> _MeanRatios:
    """Find the tokens that count, and return the mean ratios over these tokens."""
    phi = shared.estimate.phi  # (players, outputs)
    strong = np.ones(phi.shape[1], dtype=bool)
    if fidelity.drops_weak_outputs:
        strong = find_contributing_outputs(phi[shared.shared], min_contribution)
    means = _average_ratios(phi, shared.shared, strong, fidelity)
    return _MeanRatios(shared, fidelity, strong, means)


def _average_ratios(
    phi: np.ndarray, players: np.ndarray, strong: np.ndarray, fidelity: Fidelity
) -> np.ndarray:
    """Return the ratios of the shared players, averaged over output tokens: float64 of shape (...,
    shared).

    Args:
        phi: Shapley values of shape (..., players, outputs).
        players: The shared players.
        strong: The output tokens that enter the mean, bool of shape (outputs,).
    """
    shared_phi = phi[..., players, :]
    if not strong.any():
        return np.full(shared_phi.shape[:-1], np.nan)
    if fidelity.ratio_total == "shared":
        # r_j = phi_j / sum_i |phi_i| over the shared players, for each token; then the mean over
        # tokens.
        ratios = compute_contribution_ratios(shared_phi[..., strong])
        means: np.ndarray = ratios.mean(axis=-1)
        return means
    # The released code computes the total over the shared players as the sum over all players minus
    # the sum over the query suffix, and the ratios in percent.
    suffix_phi = np.delete(phi, players, axis=-2)
    total = np.abs(phi).sum(axis=-2, keepdims=True) - np.abs(suffix_phi).sum(
        axis=-2, keepdims=True
    )
    percents = np.divide(
        100 * shared_phi, total, out=np.full_like(shared_phi, np.nan), where=total > 0
    )
    means = percents.mean(axis=-1)
    return means


def _compute_standard_error(
    answer: _MeanRatios, explanation: _MeanRatios
) -> tuple[float | None, str | None]:
    """Return the standard error of CC-SHAP, or the reason why it has none."""
    for name, ratios in (("answer", answer), ("explanation", explanation)):
        reason = _explain_missing_error(name, ratios.shared.estimate)
        if reason is not None:
            return None, reason

    answer_means, explanation_means = _change_means(answer), _change_means(explanation)
    is_fitted = answer.shared.estimate.pairs is not None
    is_same_kind = is_fitted == (explanation.shared.estimate.pairs is not None)
    value = float(compute_cosine(answer.means, explanation.means))
    if is_same_kind and len(answer_means) == len(explanation_means):
        # Answer and explanation were estimated with the same coalitions, so that both change
        # together.
        cosines = compute_cosine(answer_means, explanation_means)
        error = _compute_cosine_error(cosines, value, answer)
    else:
        # The coalitions were drawn independently, so that the variances of both add up.
        of_answer = compute_cosine(answer_means, explanation.means)
        of_explanation = compute_cosine(explanation_means, answer.means)
        error = math.hypot(
            _compute_cosine_error(of_answer, value, answer),
            _compute_cosine_error(of_explanation, value, explanation),
        )
    if math.isnan(error):
        return None, "CC-SHAP is undefined without one permutation, or in a draw"
    return error, None


def _explain_missing_error(name: str, estimate: Estimate) -> str | None:
    """Return the reason why an answer or explanation has no standard error; None if it has one."""
    if estimate.exact:
        return None
    if estimate.parts is None:
        return f"the estimator of the {name} gives no independent parts"
    if estimate.pairs is not None:
        if estimate.pairs < 2:
            return (
                f"fewer than two pairs of coalitions for the {name}; two give an error"
            )
    elif len(estimate.parts) < 2:
        return f"one permutation with its reverse for the {name}; a standard error needs two"
    return None


def _change_means(ratios: _MeanRatios) -> np.ndarray:
    """Return the mean ratios without each permutation in turn, in each draw of a regression, or the
    exact ones alone: (parts, shared).
    """
    estimate = ratios.shared.estimate
    if estimate.parts is None:
        return ratios.means[None]
    if estimate.pairs is not None:
        return ratios.average(estimate.parts)
    return ratios.average(average_leaving_one_out(estimate.parts))


def _compute_cosine_error(
    cosines: np.ndarray, value: float, ratios: _MeanRatios
) -> float:
    """Return the standard error of a cosine, from its values for the changed means of a side."""
    if ratios.shared.estimate.pairs is not None:
        return compute_draw_error(cosines, value)
    return compute_jackknife_error(cosines)
