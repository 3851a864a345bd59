"""CC-SHAP with counterfactual edits: do contributions to the explanation move more than those to the answer?

Thesis 5.3, 5.4 and C.13 to C.22 show single items and say that a word inserted into the input leaves the contributions
to the answer nearly as they were, while those to the explanation change. Here this is measured.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from waltz.attribution.ratios import LEAST, Profile
from waltz.consistency.cc_shap import Contributions, mean_ratios
from waltz.consistency.companions import cosine
from waltz.consistency.shared_players import stayed
from waltz.core.intervals import Bounds, Measure, Resampling, compute_interval, resample

Verdict = Literal["supports", "refutes", "undecided"]

NOTICEABLE = 0.05
"""Cosine distance that explanations must move further than answers, for the claim to be worth making."""
FEWEST = 5
"""Clusters below which an interval says too little for a verdict."""


@dataclass(frozen=True, eq=False)
class Explained:
    """An input with what its players contribute to the answer and to the explanation of it.

    Attributes:
        answer: Contributions to the answer.
        explanation: Contributions to the explanation.
        players: What the shared players are, in their order: token ids or pieces; (row, column) of patches.
    """

    answer: Contributions
    explanation: Contributions
    players: Sequence[Hashable]


@dataclass(frozen=True, eq=False)
class Moved:
    """How far one item's contributions moved with an edit, over the players that both inputs share.

    Attributes:
        answer: Cosine distance between the mean ratios of the answer before and after, in [0, 2]; None with a reason.
        explanation: That of the explanation.
        inserted_answer: Share of the answer's contributions, after the edit, that the inserted players carry, in
            [0, 1].
        inserted_explanation: Share of the explanation's.
        stayed: Places of the players that stayed, among the shared ones before and after.
        reason: Why a number is missing.
    """

    answer: float | None
    explanation: float | None
    inserted_answer: float | None
    inserted_explanation: float | None
    stayed: tuple[np.ndarray, np.ndarray]
    reason: str | None = None


@dataclass(frozen=True)
class Claim:
    """What items say about the claim that answers' contributions stay while explanations' change.

    Attributes:
        answer: Mean distance that answers' contributions moved.
        explanation: Mean distance of the explanations'.
        difference: Mean of explanation minus answer, item by item.
        verdict: `supports` where the interval of the difference lies above `NOTICEABLE`, `refutes` where it lies below;
            `undecided` else, and with fewer clusters than `FEWEST`; None without items.
        left_out: Items without distances.
    """

    answer: Measure
    explanation: Measure
    difference: Measure
    verdict: Verdict | None
    left_out: int


def moved(before: Explained, after: Explained, profile: Profile = "equations", least: float = LEAST) -> Moved:
    """Compare contributions before and after an edit.

    Ratios are taken over the players that stayed, so that what an inserted word draws to itself moves nothing.

    Args:
        before: The item as it is.
        after: The edited item.
        profile: As of `cc_shap`.
        least: As of `cc_shap`.
    """
    places = stayed(before.players, after.players)
    found = Moved(None, None, None, None, places)
    if not len(places[0]):
        return replace(found, reason="no player stayed")
    gone = []
    distances: dict[str, float | None] = {}
    shares: dict[str, float | None] = {}
    for name in ("answer", "explanation"):
        sides: tuple[Contributions, Contributions] = getattr(before, name), getattr(after, name)
        means = [
            mean_ratios(replace(side, shared=side.shared[place]), profile, least)
            for side, place in zip(sides, places, strict=True)
        ]
        distances[name] = _number(1 - cosine(*means))
        whole = np.abs(mean_ratios(sides[1], profile, least))
        shares[name] = _number(1 - whole[places[1]].sum() / whole.sum()) if whole.any() else None
        if distances[name] is None:
            gone.append(f"nothing contributes to the {name} before or after the edit")
    return replace(
        found,
        answer=distances["answer"],
        explanation=distances["explanation"],
        inserted_answer=shares["answer"],
        inserted_explanation=shares["explanation"],
        reason="; ".join(gone) or None,
    )


def claim_of(rows: Sequence[Mapping[str, Any]], label: str, how: Resampling) -> Claim:
    """Whether items support the claim that edits move contributions to explanations more than those to answers.

    Args:
        rows: Rows of the layout `EDITED` of one model, data set, profile and seed, or of several seeds: those of one
            image, or of one item of text, are drawn together.
        label: Name of model and data set, which separates the bootstrap draws from others'.
        how: Resamples, coverage, seed.
    """
    nowhere = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    items = [
        Moved(row["answer"], row["explanation"], row["inserted_answer"], row["inserted_explanation"], nowhere)
        for row in rows
    ]
    return claim(items, [row["image"] or row["item_id"] for row in rows], label, how)


def claim(items: Sequence[Moved], clusters: Sequence[str], label: str, how: Resampling) -> Claim:
    """Put items together.

    Noise in the contributions, which permutations leave, moves both; the answer's, of a single token, more. So where
    few permutations are drawn the difference comes out too low.

    Args:
        items: Edited items.
        clusters: The image, or the unedited item, of each.
        label: Name of model and data set, which separates the bootstrap draws from others'.
        how: Resamples, coverage and seed; clusters are drawn.
    Raises:
        ValueError: There are not as many clusters as items.
    """
    pairs = [
        (one.answer, one.explanation, cluster)
        for one, cluster in zip(items, clusters, strict=True)
        if one.answer is not None and one.explanation is not None
    ]
    left_out = len(items) - len(pairs)
    if not pairs:
        nothing = Measure(None, 0, reason=f"none of {len(items)} items has contributions before and after an edit")
        return Claim(nothing, nothing, nothing, None, left_out)
    drawn = [cluster for *_, cluster in pairs]
    draws = resample(drawn, resamples=how.resamples, seed=how.seed, label=label)
    answer, explanation = (np.array([pair[side] for pair in pairs], dtype=np.float64) for side in (0, 1))

    def measure(values: np.ndarray, bounds: Bounds) -> Measure:
        ends = compute_interval(draws.compute_means(values), how.confidence, draws.clusters, bounds)
        return Measure(float(values.mean()), len(values), *ends)

    difference = measure(explanation - answer, (-2.0, 2.0))
    verdict = _verdict(difference.ci_low, difference.ci_high)
    return Claim(
        answer=measure(answer, (0.0, 2.0)),
        explanation=measure(explanation, (0.0, 2.0)),
        difference=difference,
        verdict=verdict if draws.clusters >= FEWEST else "undecided",
        left_out=left_out,
    )


def _verdict(low: float | None, high: float | None) -> Verdict:
    """What the interval of the difference says."""
    if low is None or high is None:
        return "undecided"
    if low > NOTICEABLE:
        return "supports"
    return "refutes" if high < NOTICEABLE else "undecided"


def _number(value: float | np.ndarray) -> float | None:
    return float(value) if np.isfinite(value) else None
