"""Scored pairs of caption and foil, and the metrics over them, each defined once.

The score compared in acc_r and AUROC depends on the profile. `published`: the probability of a match, in single
precision as the scripts of MM-SHAP compute it, and the logit of models without one (CLIP). `equations`: the logit,
which rounding near 0 or 1 cannot tie. The prediction "match" differs too (`predictions.predict_pair_text`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from waltz.core.errors import UserError
from waltz.core.intervals import (
    PERCENT,
    Measure,
    Resamples,
    Resampling,
    compute_interval,
    compute_interval_of_mean,
    compute_mean,
    resample,
)
from waltz.evaluation.settings import FOILS
from waltz.fidelity import get_fidelity

NOT_APPLICABLE = "not applicable: the model has no probability of a match"
METRICS = ("acc_r", "acc", "p_c", "p_f", "min_pc_pf", "auroc", "ties")
"""Metrics of `compute_pair_metrics`."""
MOST_WEIGHTS = 2_000_000
"""Most weights that AUROC holds in memory: 16 MB."""


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """The items of one data set whose caption and foil have a score.

    Attributes:
        items: Ids, in order.
        images: Image of each item; its id where it has none.
        caption: Score that ranks each caption, float64 of shape (items,).
        foil: Score that ranks each foil, of the same shape.
        right: Whether the model predicts a match for each caption and a mismatch for each foil, bool of shape
            (items, 2); None for a score without a probability of a match.
        unscored: Number of items skipped because one of their texts has no score.
        tie_is_right: Whether a caption that scores as high as its foil is right in acc_r.
    """

    items: tuple[str, ...]
    images: tuple[str, ...]
    caption: np.ndarray
    foil: np.ndarray
    right: np.ndarray | None
    unscored: int = 0
    tie_is_right: bool = False

    def take(self, positions: Sequence[int]) -> "ScoredPairs":
        """Return the items at some positions, in this order."""
        index = np.asarray(positions, dtype=np.int64)
        return ScoredPairs(
            tuple(self.items[position] for position in positions),
            tuple(self.images[position] for position in positions),
            self.caption[index],
            self.foil[index],
            None if self.right is None else self.right[index],
            self.unscored,
            self.tie_is_right,
        )


def get_cluster(row: Mapping[str, Any]) -> str:
    """Return the image of a row of the evaluation layout, or its item where it has none: what resamples draw."""
    return str(row["item_id"] if row["image"] is None else row["image"])


def pair_scores(rows: Iterable[Mapping[str, Any]], profile: str) -> ScoredPairs:
    """Pair the rows of one data set, of one setting.

    Args:
        rows: Rows of the evaluation layout; those of other profiles are ignored.
    Raises:
        UserError: A score is not a number, or an item has no caption or no foil.
    """
    texts_by_item: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        if row["profile"] == profile:
            texts_by_item.setdefault(row["item_id"], {})["foil" if row["role"] in FOILS else row["role"]] = row
    items: list[tuple[str, str]] = []
    scores: list[tuple[float, float]] = []
    right: list[tuple[bool, bool]] = []
    for item, texts in texts_by_item.items():
        if set(texts) != {"caption", "foil"}:
            raise UserError(
                f"item {item}, profile {profile}: rows of {sorted(texts)}, not of caption and foil; run again"
            )
        if any(text["score"] is None for text in texts.values()):
            continue
        pair = (texts["caption"], texts["foil"])
        ranking = [_get_ranking_score(text, profile) for text in pair]
        items.append((item, get_cluster(pair[0])))
        scores.append((ranking[0], ranking[1]))
        if pair[0].get("probability") is not None:
            right.append((bool(pair[0]["correct"]), bool(pair[1]["correct"])))
    if right and len(right) < len(items):
        raise UserError(f"{len(right)} of {len(items)} items have a probability; score the data set again")
    numbers = np.array(scores, dtype=np.float64).reshape(-1, 2)
    return ScoredPairs(
        tuple(item for item, _ in items),
        tuple(image for _, image in items),
        numbers[:, 0],
        numbers[:, 1],
        np.array(right, dtype=bool) if right else None,
        len(texts_by_item) - len(items),
        get_fidelity(profile).tied_pair_is_right,
    )


def pair_choices(rows: Iterable[Mapping[str, Any]], profile: str) -> ScoredPairs:
    """Return choices between caption and foil as pairs whose caption ranks above its foil where it was chosen.

    Args:
        rows: Rows of the evaluation layout of one setting with one row per item, as in `pairwise`; those of other
            profiles are ignored.
    """
    profile_rows = [row for row in rows if row["profile"] == profile]
    decided = [row for row in profile_rows if row["correct"] is not None]
    right = np.array([bool(row["correct"]) for row in decided], dtype=np.float64)
    items = tuple(str(row["item_id"]) for row in decided)
    return ScoredPairs(
        items, tuple(map(get_cluster, decided)), right, 1 - right, None, len(profile_rows) - len(decided)
    )


def _get_ranking_score(row: Mapping[str, Any], profile: str) -> float:
    """Return the score that ranks a text in a profile."""
    probability = row.get("probability") if get_fidelity(profile).match_by == "probability" else None
    value = float(row["score"] if probability is None else probability)
    if np.isnan(value) or np.isnan(row["score"]):
        raise UserError(f"item {row['item_id']}, {row['role']}: the score is not a number; score the data set again")
    return value


def compute_pair_metrics(scored: ScoredPairs, label: str, resampling: Resampling) -> dict[str, Measure]:
    """Compute all metrics of one data set, in percent, on the same resamples of its images.

    - acc_r: share of items whose caption ranks above its foil; `scored` says whether a tie is right.
    - ties: share of items whose caption and foil rank equally.
    - p_c: share of captions predicted as a match; p_f: share of foils predicted as a mismatch.
    - acc: mean of p_c and p_f. min_pc_pf: the smaller of the two, in each resample.
    - auroc: share of all (caption, foil) of the data set whose the caption ranks above the foil, ties counting half.

    Args:
        label: Name of the data set, which separates its draws from others'.
    Source:
        VALSE (Parcalabescu et al., ACL 2022, section 4.2); thesis 3.5.4, where Eq. 3.1 counts a tie as right and
        divides by |C| + |F|, a misprint for the number of pairs.
    """
    if not scored.items:
        return dict.fromkeys(METRICS, Measure(None, 0, reason=f"none of {scored.unscored} items could be scored"))
    resamples = resample(scored.images, resamples=resampling.resamples, seed=resampling.seed, label=label)
    n, draws_of_metric = len(scored.items), compute_metric_draws(scored, resamples)
    not_applicable = Measure(None, n, reason=NOT_APPLICABLE)
    measures = {
        metric: Measure(value, n, *compute_interval(draws, resampling.confidence, resamples.clusters, PERCENT))
        for metric, (value, draws) in draws_of_metric.items()
    }
    return {metric: measures.get(metric, not_applicable) for metric in METRICS}


def compute_metric_draws(scored: ScoredPairs, resamples: Resamples) -> dict[str, tuple[float, np.ndarray]]:
    """Return value and draws, in percent, of each metric that the scores define; see `compute_pair_metrics`."""
    values_and_draws = {}
    for metric in ("acc_r", "ties") if scored.right is None else ("acc_r", "ties", "acc", "p_c", "p_f"):
        values = 100 * compute_hits(scored, metric)
        values_and_draws[metric] = (float(np.mean(values)), resamples.compute_means(values))
    if scored.right is not None:
        (p_c, p_c_draws), (p_f, p_f_draws) = values_and_draws["p_c"], values_and_draws["p_f"]
        values_and_draws["min_pc_pf"] = (min(p_c, p_f), np.minimum(p_c_draws, p_f_draws))
    auroc = compute_auroc(scored.caption, scored.foil)
    values_and_draws["auroc"] = (100 * auroc, 100 * compute_auroc_draws(scored, resamples))
    return values_and_draws


def compute_hits(scored: ScoredPairs, metric: str) -> np.ndarray:
    """Return 1 for each item that is right under acc_r, p_c or p_f, or tied; under acc the share of its right texts.

    Returns:
        float64 of shape (items,).
    """
    if metric in ("acc_r", "ties"):
        is_tied = scored.caption == scored.foil
        is_above = scored.caption > scored.foil
        is_hit = is_tied if metric == "ties" else is_above | is_tied if scored.tie_is_right else is_above
        ranking_hits: np.ndarray = is_hit.astype(np.float64)
        return ranking_hits
    assert scored.right is not None, NOT_APPLICABLE
    right = scored.right.astype(np.float64)
    item_hits: np.ndarray = {"acc": right.mean(axis=1), "p_c": right[:, 0], "p_f": right[:, 1]}[metric]
    return item_hits


def compute_auroc(captions: np.ndarray, foils: np.ndarray) -> float:
    """Return the area under the ROC curve of scores that separate captions from foils, a share.

    Args:
        captions: Scores of the positive texts, none of them NaN.
        foils: Scores of the negative texts.
    """
    wins = scipy.stats.mannwhitneyu(captions, foils, method="asymptotic").statistic
    return float(wins) / (len(captions) * len(foils))


def compute_auroc_draws(scored: ScoredPairs, resamples: Resamples) -> np.ndarray:
    """Return AUROC of each resample, a share: float64 of shape (resamples,); NaN where there is only one image."""
    if resamples.clusters == 1:
        return np.full(len(resamples.counts), np.nan)
    order = np.argsort(scored.foil, kind="stable")
    below, upto = (np.searchsorted(scored.foil[order], scored.caption, side) for side in ("left", "right"))
    step = max(1, MOST_WEIGHTS // len(scored.items))
    draws = []
    for first in range(0, len(resamples.counts), step):
        weights = resamples.counts[first : first + step][:, resamples.cluster]
        reached = np.pad(np.cumsum(weights[:, order], axis=1), ((0, 0), (1, 0)))
        beaten = (reached[:, below] + reached[:, upto]) / 2
        draws.append((weights * beaten).sum(axis=1) / weights.sum(axis=1) ** 2)
    return np.concatenate(draws)


def compute_accuracy(rows: Sequence[Mapping[str, object]], label: str, resampling: Resampling) -> Measure:
    """Compute the share of rows that are correct, in percent of those with a score.

    Of rows that choose between caption and foil (`pairwise`, `perplexity`) it is acc_r.

    Args:
        rows: Rows of the evaluation layout, one per item; rows without an image are resampled individually.
        label: Name of the data set, which separates its bootstrap draws from others'.
    """
    scored = [row for row in rows if row["correct"] is not None]
    if not scored:
        return Measure(None, 0, reason=f"none of {len(rows)} items could be scored")
    right = [100.0 * bool(row["correct"]) for row in scored]
    return compute_mean(right, list(map(get_cluster, scored)), label, resampling)


def average_measures(parts: Sequence[Measure]) -> Measure:
    """Return the mean over independent data sets with equal weights; without a value where one part has none."""
    n = sum(part.n for part in parts)
    values = [part.value for part in parts if part.value is not None]
    if not parts or len(values) < len(parts):
        reasons = {part.reason for part in parts}
        reason = f"{len(parts) - len(values)} of {len(parts)} data sets have no value"
        reason = NOT_APPLICABLE if reasons == {NOT_APPLICABLE} else reason
        return Measure(None, n, reason=reason)
    return Measure(float(np.mean(values)), n, *compute_interval_of_mean(parts))
