"""Summary of the attributions of one model on one data set: text shares, ablations, the verbs of
CV-Probes.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy

from waltz.attribution.t_shap import classify_skew
from waltz.attribution.verbs import build_verb_table
from waltz.core.intervals import Resampling, build_measure, compute_mean, resample
from waltz.core.measure import Measure
from waltz.core.schema import OF_REGIONS, EvaluationRecord
from waltz.evaluation.metrics.pair_metrics import (
    compare_texts,
    compute_pair_metrics,
    pair_scores,
)
from waltz.evaluation.predictions import THRESHOLD, predict_pair_text
from waltz.evaluation.settings import RIGHT_PREDICTION
from waltz.fidelity import get_fidelity

Row = Mapping[str, Any]
NewRow = dict[str, Any]
TextKey = tuple[str, ...]
"""Key of a text: item, role, profile and setting."""

GROUP_COLUMNS = ("role", "profile", "setting")
DECIMALS = 9
"""Decimal places to which T-SHAP is rounded before it is ranked, so that rounding errors do not
break ties.
"""
MOST_WEIGHTS = 1 << 22
"""Largest number of weights in memory at once."""
MIN_CORRELATED = 3
"""Smallest number of items for which a rank correlation is computed."""


@dataclass(frozen=True)
class RankCorrelation:
    """Hold a rank correlation with its p value.

    Attributes:
        rho: Spearman's rho, -1 to 1, over the items that have both numbers.
        p: Two-sided p value for no correlation (Student's t, items taken as independent); None
            without a rho.
    """

    rho: Measure
    p: float | None


def build_share_rows(
    model: str,
    dataset: str,
    rows: Sequence[Row],
    scores: Sequence[EvaluationRecord],
    resampling: Resampling,
) -> list[NewRow]:
    """Build the rows of the layout `SHARES`: mean T-SHAP and its correlation with the correctness
    of the model.

    Args:
        rows: Rows of the attribution layout.
        scores: Scored texts. A text counts as correct by its own prediction if the
            model has a probability of a match or gives answers; else a text is correct if its
            caption ranks above the foil.
    """
    correctness = _collect_correctness(scores)
    share_rows = []
    for summary in summarize_attributions(rows, dataset, resampling):
        # The rows of this role, profile and setting, each with the correctness of its text.
        joined = []
        for row in rows:
            if all(row[name] == summary[name] for name in GROUP_COLUMNS):
                joined.append({**row, "correct": correctness.get(_get_score_key(row))})
        correlation = correlate_correctness_with_t_shap(
            joined, f"{dataset} {summary['role']}", resampling
        )
        share_rows.append(
            {
                "model": model,
                "dataset": dataset,
                **summary,
                "rho": correlation.rho.value,
                "rho_low": correlation.rho.ci_low,
                "rho_high": correlation.rho.ci_high,
                "rho_p": correlation.p,
                "rho_reason": correlation.rho.reason,
            }
        )
    return share_rows


def build_ablation_rows(
    model: str, dataset: str, rows: Sequence[Row], resampling: Resampling
) -> list[NewRow]:
    """Build rows of the layout `METRICS`: the pair metrics with the whole text masked, and with the
    whole image masked.

    Args:
        rows: Rows of the attribution layout, of caption and foil.
    """
    suffix = _get_setting_suffix(rows)
    metric_rows = []
    for profile in dict.fromkeys(row["profile"] for row in rows):
        ablated_by_setting: dict[str, list[EvaluationRecord]] = {}
        for row in rows:
            if row["profile"] == profile and row["error"] is None:
                for ablated_row in build_ablated_rows(row):
                    ablated_by_setting.setdefault(ablated_row.setting, []).append(
                        ablated_row
                    )
        for setting, ablated_rows in ablated_by_setting.items():
            measures = compute_pair_metrics(
                pair_scores(ablated_rows, profile), dataset, resampling
            )
            # `acc_r_paper` repeats a paper's rule, but no paper masks a whole modality.
            del measures["acc_r_paper"]
            for metric, measure in measures.items():
                metric_rows.append(
                    {
                        "model": model,
                        "dataset": dataset,
                        "profile": profile,
                        "metric": metric,
                        "setting": setting + suffix,
                        **asdict(measure),
                    }
                )
    return metric_rows


def build_ablated_rows(row: Row) -> list[EvaluationRecord]:
    """Build two records from an attribution: the scores without the text and without the image.

    The metrics of unmasked inputs are computed from these rows too. A caption and a foil of equal
    length become equal when their texts are masked. They tie, which counts half in acc_r: a model
    that sees no text prefers neither.
    """
    ablated_rows = []
    for masked in ("text", "image"):
        score = float(row[f"without_{masked}"][0])
        probability = prediction = is_correct = None
        # Only a probability of a match gives a prediction for a single text.
        if row["explained"] == "probability":
            probability = score
            prediction = predict_pair_text(
                score - THRESHOLD, score, get_fidelity(row["profile"])
            )
            is_correct = prediction == RIGHT_PREDICTION[row["role"]]
        ablated_rows.append(
            EvaluationRecord(
                item_id=row["item_id"],
                role=row["role"],
                profile=row["profile"],
                setting=f"without {masked}",
                image=row["image"],
                score=score,
                probability=probability,
                prediction=prediction,
                correct=is_correct,
            )
        )
    return ablated_rows


def build_verb_rows(
    model: str,
    rows: Sequence[Row],
    scores: Sequence[EvaluationRecord],
    items: Sequence[Row],
    resampling: Resampling,
) -> list[NewRow]:
    """Build rows of the layout `METRICS`: the contribution of the verb, by condition and by the
    model's prediction.

    The data set of each row is `cv-probes:` with the condition.

    Args:
        rows: Rows of the attribution layout on CV-Probes.
        scores: Scored texts of CV-Probes.
    """
    suffix = _get_setting_suffix(rows)
    predictions = {
        (record.item_id, record.profile): record.prediction for record in scores
    }
    metric_rows = []
    for profile in dict.fromkeys(row["profile"] for row in rows):
        # Each attribution with the model's prediction: match, non-match, or None.
        joined = []
        for row in rows:
            if row["profile"] != profile:
                continue
            prediction = predictions.get((row["item_id"], profile))
            matched = None if prediction is None else prediction == "match"
            joined.append({**row, "matched": matched})
        for cell in build_verb_table(joined, items, resampling):
            metric_rows.append(
                {
                    "model": model,
                    "dataset": f"cv-probes:{cell.condition}",
                    "profile": profile,
                    "metric": cell.metric,
                    "setting": cell.setting + suffix,
                    **asdict(cell.measure),
                }
            )
    return metric_rows


def summarize_attributions(
    rows: Sequence[Row], label: str, resampling: Resampling
) -> list[NewRow]:
    """Summarize a model's attributions of one data set: return one row for each role, profile and
    setting.

    The interval of mean T-SHAP covers the variation between images and the sampling noise of the
    estimator, since it resamples the estimates as they are. The sampling noise is also reported
    separately.

    Args:
        label: Name of the data set, which separates its bootstrap draws from the draws of other
            data sets.
        resampling: Resamples, coverage, seed; images are drawn.
    Returns:
        Rows with these columns: role, profile, setting; items, their number; value, n, ci_low,
        ci_high and reason of mean T-SHAP in percent; sd, the population standard deviation over
        items, in percentage points; standard_error, the root of the mean squared standard error of
        T-SHAP, in percentage points, over the standard_error_n items that have a standard error (0
        for exact values); noise, the share of the variance between these items that the standard
        errors explain, 0 to 1; mm_skew; missing, the number of items without T-SHAP, by reason.
    Source:
        MM-SHAP (Parcalabescu & Frank, ACL 2023); thesis 4.3.
    """
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in GROUP_COLUMNS)].append(row)
    summaries = []
    for names, group in groups.items():
        columns = dict(zip(GROUP_COLUMNS, names, strict=True))
        summaries.append(
            {
                **columns,
                "items": len(group),
                **_summarize_group(group, label, resampling),
            }
        )
    return summaries


def _summarize_group(rows: Sequence[Row], label: str, resampling: Resampling) -> NewRow:
    defined_rows = [row for row in rows if row["t_shap"] is not None]
    if not defined_rows:
        measure = Measure(None, 0, reason=f"none of {len(rows)} items has a T-SHAP")
        sd = skew = None
    else:
        percents = [100.0 * row["t_shap"] for row in defined_rows]
        images = [str(row["image"]) for row in defined_rows]
        measure = compute_mean(percents, images, label, resampling)
        sd = 100 * float(np.std([row["t_shap"] for row in defined_rows]))
        skew = None if measure.value is None else classify_skew(measure.value / 100)

    # Sampling noise, over the items whose estimate has a standard error.
    sampled = [row for row in defined_rows if row["t_shap_se"] is not None]
    standard_error = noise = None
    if sampled:
        mean_square_error = float(np.mean([row["t_shap_se"] ** 2 for row in sampled]))
        standard_error = 100 * mean_square_error**0.5
        variance = float(np.var([row["t_shap"] for row in sampled]))
        if variance:
            noise = mean_square_error / variance
    return {
        **asdict(measure),
        "sd": sd,
        "standard_error": standard_error,
        "standard_error_n": len(sampled),
        "noise": noise,
        "mm_skew": skew,
        "missing": _count_reasons(rows),
    }


def _count_reasons(rows: Sequence[Row]) -> list[NewRow]:
    """Count the rows without T-SHAP, by the reason why they have none."""
    counts: Counter[str] = Counter()
    for row in rows:
        if row["t_shap"] is None:
            counts[row.get("error") or row.get("reason") or "no reason stated"] += 1
    return [
        {"reason": reason, "count": count} for reason, count in sorted(counts.items())
    ]


def correlate_correctness_with_t_shap(
    rows: Sequence[Row], label: str, resampling: Resampling
) -> RankCorrelation:
    """Compute Spearman's correlation of correctness and T-SHAP over the items of one role.

    The interval draws images and ranks each resample again. A resample has no correlation if all
    its items are right, all are wrong, or all have the same T-SHAP.

    Args:
        rows: `correct`, `t_shap` and `image` of each item; items without correctness or without
            T-SHAP are skipped.
        label: Name of the data set, which separates its bootstrap draws from the draws of other
            data sets.
    Returns:
        The correlation, or the reason why it is undefined.
    Source:
        Thesis B.2.1.
    """
    complete_rows = [
        row for row in rows if row["correct"] is not None and row["t_shap"] is not None
    ]
    count = len(complete_rows)
    correct = np.array([bool(row["correct"]) for row in complete_rows])
    shares = np.round(
        np.array([row["t_shap"] for row in complete_rows], dtype=np.float64), DECIMALS
    )
    reason = _explain_undefined(correct, shares, len(rows))
    if reason:
        return RankCorrelation(Measure(None, count, reason=reason), None)
    correlation = scipy.stats.spearmanr(correct, shares)
    # The bootstrap draws images, not items, since items of one image are not independent.
    images = [str(row["image"]) for row in complete_rows]
    blocks = _draw_resamples(images, label, resampling)
    draws = np.concatenate([_compute_rho(correct, shares, counts) for counts in blocks])
    rho = build_measure(
        float(correlation.statistic),
        count,
        draws,
        resampling,
        len(set(images)),
        (-1.0, 1.0),
    )
    return RankCorrelation(rho, float(correlation.pvalue))


def _explain_undefined(
    correct: np.ndarray, shares: np.ndarray, item_count: int
) -> str | None:
    """Return the reason why a rank correlation is undefined; None if it is defined."""
    count = len(correct)
    if count < MIN_CORRELATED:
        return f"{count} of {item_count} items have both correctness and T-SHAP; three are needed"
    if correct.all():
        return f"all {count} items are right"
    if not correct.any():
        return f"all {count} items are wrong"
    if np.all(shares == shares[0]):
        return f"all {count} items have the same T-SHAP"
    return None


def _draw_resamples(
    images: Sequence[str], label: str, resampling: Resampling
) -> Iterator[np.ndarray]:
    """Yield, batch by batch, how often each item occurs in each resample of images: float64 of
    shape (batch, n).
    """
    resamples = resample(
        images, resamples=resampling.resamples, seed=resampling.seed, label=label
    )
    # An item occurs as often as its image was drawn: (batch, images) becomes (batch, n).
    size = max(1, MOST_WEIGHTS // len(images))
    for first in range(0, resampling.resamples, size):
        image_counts = resamples.counts[first : first + size]  # (batch, images)
        yield image_counts[:, resamples.cluster]


def _compute_rho(
    correct: np.ndarray, shares: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """Compute Spearman's rho of correctness and T-SHAP in each resample.

    Rho is Pearson's correlation of the ranks, where tied items share their middle rank and each
    item is weighted by the number of times that it was drawn.

    Args:
        correct: Whether each item is right, bool of shape (n,).
        shares: T-SHAP of each item, float64 of shape (n,).
        counts: Number of times that each item is in each resample, float64 of shape (resamples, n).
    Returns:
        float64 of shape (resamples,); NaN where all items are right, all are wrong, or all have the
        same T-SHAP.
    """
    order = np.argsort(shares, kind="stable")
    # Items with equal shares form a group; the group begins at this position of the sorted items.
    _, tie_starts = np.unique(shares[order], return_index=True)
    # (resamples, groups): items, and right items, of each group of ties
    weights = np.add.reduceat(counts[:, order], tie_starts, axis=1)
    right = np.add.reduceat(counts[:, order] * correct[order], tie_starts, axis=1)
    # Middle rank of a group: the number of items in lower groups, plus half of the items in the
    # group.
    ranks = np.cumsum(weights, axis=1) - weights / 2

    total = weights.sum(axis=1)  # (resamples,)
    hits = right.sum(axis=1)
    mean_rank = (weights * ranks).sum(axis=1) / total
    deviations = ranks - mean_rank[:, None]
    covariance = (right * deviations).sum(axis=1)
    # Correctness is 0 or 1: its sum of squared deviations is hits (total - hits) / total.
    variance = (weights * deviations**2).sum(axis=1) * hits * (total - hits) / total
    defined = variance > 0
    rho: np.ndarray = np.full(len(counts), np.nan)
    rho[defined] = covariance[defined] / np.sqrt(variance[defined])
    return rho


def _get_setting_suffix(rows: Sequence[Row]) -> str:
    """Return the suffix that marks settings of attributions of regions, or an empty string for
    patches.
    """
    if any(row["setting"].endswith(OF_REGIONS) for row in rows):
        return OF_REGIONS
    return ""


def _get_score_key(row: Row) -> TextKey:
    """Return the key under which the evaluation has the score of an attributed text."""
    return (
        row["item_id"],
        row["role"],
        row["profile"],
        row["setting"].removesuffix(OF_REGIONS),
    )


def _collect_correctness(
    scores: Sequence[EvaluationRecord],
) -> dict[TextKey, bool | None]:
    """Return whether the model is right about each text, by item, role, profile and setting.

    A text without a prediction counts as right if its pair is ranked right; it is None if the pair
    ties.
    """
    pairs: dict[TextKey, dict[str, EvaluationRecord]] = defaultdict(dict)
    for record in scores:
        pairs[record.item_id, record.profile, record.setting][record.role] = record
    correctness: dict[TextKey, bool | None] = {}
    for record in scores:
        is_right = record.correct
        if is_right is None:
            is_right = _is_pair_ranked_right(
                pairs[record.item_id, record.profile, record.setting]
            )
        key = (record.item_id, record.role, record.profile, record.setting)
        correctness[key] = is_right
    return correctness


def _is_pair_ranked_right(texts: Mapping[str, EvaluationRecord]) -> bool | None:
    """Return whether a caption scores above its foil; None if a score is missing or both scores
    tie.

    Args:
        texts: Scored texts of an item by role.
    """
    caption = texts.get("caption")
    foil = texts.get("foil", texts.get("mismatched"))
    if caption is None or foil is None:
        return None
    order = compare_texts(caption, foil)
    # 0 for a tie, None for a missing score.
    return order > 0 if order else None
