"""Summary of the attributions of one model on one data set: text shares, ablations, the verbs of CV-Probes."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from waltz.attribution.t_shap import classify_skew
from waltz.attribution.verbs import build_verb_table
from waltz.core.intervals import Measure, Resampling, compute_interval, compute_mean, resample
from waltz.core.schema import OF_REGIONS
from waltz.evaluation.metrics.pair_metrics import compute_pair_metrics, pair_scores
from waltz.evaluation.predictions import THRESHOLD, predict_pair_text
from waltz.evaluation.settings import RIGHT_PREDICTION

Row = Mapping[str, Any]

GROUP_COLUMNS = ("role", "profile", "setting")
DECIMALS = 9
"""Decimal places of T-SHAP that are ranked: shares that differ by rounding alone tie."""
MOST_WEIGHTS = 1 << 22
"""Largest number of weights in memory at once."""


@dataclass(frozen=True)
class RankCorrelation:
    """A rank correlation.

    Attributes:
        rho: Spearman's rho, -1 to 1, on items that have both numbers.
        p: Two-sided p value for no correlation (Student's t, items taken as independent); None without a rho.
    """

    rho: Measure
    p: float | None


def build_share_rows(
    model: str, dataset: str, rows: Sequence[Row], scores: Sequence[Row], how: Resampling
) -> list[dict[str, Any]]:
    """Build rows of the layout `SHARES` from rows of the attribution layout and of the evaluation layout.

    Correctness, for the correlation, is that of the evaluation in the same setting: of the text itself where the model
    has a probability of a match or answers, else whether the caption ranks above the foil.
    """
    right = _collect_correctness(scores)
    share_rows = []
    for summary in summarize_attributions(rows, dataset, how):
        joined = [
            {**row, "correct": right.get(_get_score_key(row))}
            for row in rows
            if all(row[name] == summary[name] for name in GROUP_COLUMNS)
        ]
        correlation = correlate_correctness_with_t_shap(joined, f"{dataset} {summary['role']}", how)
        rho = {
            "rho": correlation.rho.value,
            "rho_low": correlation.rho.ci_low,
            "rho_high": correlation.rho.ci_high,
            "rho_p": correlation.p,
            "rho_reason": correlation.rho.reason,
        }
        share_rows.append({"model": model, "dataset": dataset, **summary, **rho})
    return share_rows


def build_ablation_rows(model: str, dataset: str, rows: Sequence[Row], how: Resampling) -> list[dict[str, Any]]:
    """Build rows of the layout `METRICS`: the metrics of pairs with all of the text, or all of the image, masked.

    Args:
        rows: Rows of the attribution layout, of caption and foil.
    """
    metric_rows = []
    for profile in dict.fromkeys(row["profile"] for row in rows):
        masked: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            if row["profile"] == profile and row["error"] is None:
                for ablated_row in build_ablated_rows(row):
                    masked.setdefault(ablated_row["setting"], []).append(ablated_row)
        for setting, ablated_rows in masked.items():
            scored = replace(pair_scores(ablated_rows, profile), tie_is_right=False)
            for metric, measure in compute_pair_metrics(scored, dataset, how).items():
                metric_row = {"model": model, "dataset": dataset, "profile": profile, "metric": metric}
                metric_row["setting"] = setting + _get_setting_suffix(rows)
                metric_rows.append({**metric_row, **vars(measure)})
    return metric_rows


def build_ablated_rows(row: Row) -> list[dict[str, Any]]:
    """Build rows of the evaluation layout from an attribution: the scores without the text and without the image.

    The metrics of whole inputs apply to them. A caption and a foil of equal length are the same once their texts are
    masked: they tie, which is wrong in acc_r in both profiles, since a model that sees no text prefers neither.
    """
    ablated_rows = []
    for masked in ("text", "image"):
        score, prediction = float(row[f"without_{masked}"][0]), None
        probability = score if row["explained"] == "probability" else None
        if probability is not None:
            prediction = predict_pair_text(score - THRESHOLD, score, row["profile"])
        ablated_rows.append(
            {
                "item_id": row["item_id"],
                "role": row["role"],
                "profile": row["profile"],
                "setting": f"without {masked}",
                "image": row["image"],
                "score": score,
                "tokens": None,
                "probability": probability,
                "prediction": prediction,
                "correct": None if prediction is None else prediction == RIGHT_PREDICTION[row["role"]],
                "error": None,
            }
        )
    return ablated_rows


def build_verb_rows(
    model: str, rows: Sequence[Row], scores: Sequence[Row], items: Sequence[Row], how: Resampling
) -> list[dict[str, Any]]:
    """Build rows of the layout `METRICS`: the contribution of the verb, by condition and by the model's prediction.

    Args:
        rows: Rows of the attribution layout on CV-Probes.
        scores: Rows of the evaluation layout on CV-Probes.
    """
    predictions = {(row["item_id"], row["profile"]): row["prediction"] for row in scores}
    metric_rows = []
    for profile in dict.fromkeys(row["profile"] for row in rows):
        joined = []
        for row in rows:
            if row["profile"] == profile:
                prediction = predictions.get((row["item_id"], profile))
                joined.append({**row, "matched": None if prediction is None else prediction == "match"})
        for cell in build_verb_table(joined, items, how):
            condition = cell.pop("condition")
            cell["setting"] += _get_setting_suffix(rows)
            metric_rows.append({"model": model, "dataset": f"cv-probes:{condition}", "profile": profile, **cell})
    return metric_rows


def summarize_attributions(rows: Sequence[Row], label: str, how: Resampling) -> list[dict[str, Any]]:
    """Return a row for each role, profile and setting of a model's attributions of one data set.

    The interval covers both the variation between images and the estimator's sampling noise, since it resamples the
    estimates as they are. The sampling noise is also reported separately.

    Args:
        label: Name of the data set, which separates its bootstrap draws from others'.
        how: Resamples, coverage, seed; images are drawn.
    Returns:
        Rows of role, profile, setting; items; value, n, ci_low, ci_high and reason of mean T-SHAP in percent; sd, the
        population standard deviation over items, in percentage points; standard_error, the root of the mean squared
        standard error of an item's T-SHAP, in percentage points, over standard_error_n items that have one (0 for exact
        values); noise, the share of the variance over those items that it makes up, 0 to 1; mm_skew; missing, how many
        items have no T-SHAP for which reason.
    Source:
        MM-SHAP (Parcalabescu & Frank, ACL 2023); thesis 4.3.
    """
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in GROUP_COLUMNS), []).append(row)
    return [
        {**dict(zip(GROUP_COLUMNS, names, strict=True)), "items": len(group), **_summarize_group(group, label, how)}
        for names, group in groups.items()
    ]


def _summarize_group(rows: Sequence[Row], label: str, how: Resampling) -> dict[str, Any]:
    defined_rows = [row for row in rows if row["t_shap"] is not None]
    measure = Measure(None, 0, reason=f"none of {len(rows)} items has a T-SHAP")
    if defined_rows:
        percents = [100.0 * row["t_shap"] for row in defined_rows]
        measure = compute_mean(percents, [str(row["image"]) for row in defined_rows], label, how)
    sampled = [row for row in defined_rows if row["t_shap_se"] is not None]
    squares = float(np.mean([row["t_shap_se"] ** 2 for row in sampled])) if sampled else None
    variance = float(np.var([row["t_shap"] for row in sampled])) if sampled else 0.0
    missing = Counter(
        row.get("error") or row.get("reason") or "no reason stated" for row in rows if row["t_shap"] is None
    )
    return {
        **vars(measure),
        "sd": 100 * float(np.std([row["t_shap"] for row in defined_rows])) if defined_rows else None,
        "standard_error": None if squares is None else 100 * squares**0.5,
        "standard_error_n": len(sampled),
        "noise": squares / variance if squares is not None and variance else None,
        "mm_skew": None if measure.value is None else classify_skew(measure.value / 100),
        "missing": [{"reason": reason, "count": count} for reason, count in sorted(missing.items())],
    }


def correlate_correctness_with_t_shap(rows: Sequence[Row], label: str, how: Resampling) -> RankCorrelation:
    """Compute Spearman's correlation of correctness and T-SHAP over the items of one role.

    The interval draws images and ranks each resample anew; resamples in which all items are right, wrong or equal have
    no correlation.

    Args:
        rows: `correct`, `t_shap` and `image` of each item; those where one of the two is null are skipped.
        label: Name of the data set, which separates its bootstrap draws from others'.
    Returns:
        The correlation, or the reason why there is none.
    Source:
        Thesis B.2.1.
    """
    complete_rows = [row for row in rows if row["correct"] is not None and row["t_shap"] is not None]
    correct = np.array([bool(row["correct"]) for row in complete_rows])
    shares = np.round(np.array([row["t_shap"] for row in complete_rows], dtype=np.float64), DECIMALS)
    reason = _explain_undefined(correct, shares, len(rows))
    if reason:
        return RankCorrelation(Measure(None, len(complete_rows), reason=reason), None)
    correlation = scipy.stats.spearmanr(correct, shares)
    images = [str(row["image"]) for row in complete_rows]
    draws = np.concatenate([_compute_rho(correct, shares, counts) for counts in _draw_resamples(images, label, how)])
    ends = compute_interval(draws, how.confidence, len(set(images)), (-1.0, 1.0))
    return RankCorrelation(Measure(float(correlation.statistic), len(complete_rows), *ends), float(correlation.pvalue))


def _explain_undefined(correct: np.ndarray, shares: np.ndarray, item_count: int) -> str | None:
    if len(correct) < 3:
        return f"{len(correct)} of {item_count} items have both correctness and T-SHAP; three are needed"
    if correct.all() or not correct.any():
        return f"all {len(correct)} items are {'right' if correct.all() else 'wrong'}"
    if np.all(shares == shares[0]):
        return f"all {len(correct)} items have the same T-SHAP"
    return None


def _draw_resamples(images: Sequence[str], label: str, how: Resampling) -> Iterator[np.ndarray]:
    """Yield the number of times that each item is in each resample of images, float64 of shape (batch, n)."""
    resamples = resample(images, resamples=how.resamples, seed=how.seed, label=label)
    size = max(1, MOST_WEIGHTS // len(images))
    for first in range(0, how.resamples, size):
        yield resamples.counts[first : first + size][:, resamples.cluster]


def _compute_rho(correct: np.ndarray, shares: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Compute Spearman's rho of each resample: Pearson's of middle ranks, each item weighted by its count."""
    order = np.argsort(shares, kind="stable")
    _, firsts = np.unique(shares[order], return_index=True)
    weights = np.add.reduceat(counts[:, order], firsts, axis=1)
    right = np.add.reduceat(counts[:, order] * correct[order], firsts, axis=1)
    ranks = np.cumsum(weights, axis=1) - weights / 2
    total, hits = weights.sum(axis=1), right.sum(axis=1)
    mean_rank = (weights * ranks).sum(axis=1) / total
    deviations = ranks - mean_rank[:, None]
    covariance = (right * deviations).sum(axis=1)
    variance = (weights * deviations**2).sum(axis=1) * hits * (total - hits) / total
    defined = variance > 0
    rho: np.ndarray = np.full(len(counts), np.nan)
    rho[defined] = covariance[defined] / np.sqrt(variance[defined])
    return rho


def _get_setting_suffix(rows: Sequence[Row]) -> str:
    """Return the suffix of the settings of a model's attributions of regions, else an empty string."""
    return OF_REGIONS if any(row["setting"].endswith(OF_REGIONS) for row in rows) else ""


def _get_score_key(row: Row) -> tuple[str, ...]:
    """Return the key of an attributed text among the evaluation's scores."""
    return (row["item_id"], row["role"], row["profile"], row["setting"].removesuffix(OF_REGIONS))


def _collect_correctness(scores: Sequence[Row]) -> dict[tuple[str, ...], bool | None]:
    """Collect the correctness of each text by item, role, profile and setting."""
    right: dict[tuple[str, ...], bool | None] = {}
    ranked: dict[tuple[str, ...], dict[str, float | None]] = {}
    for row in scores:
        ranked.setdefault((row["item_id"], row["profile"], row["setting"]), {})[row["role"]] = row["score"]
    for row in scores:
        key = tuple(row[name] for name in ("item_id", *GROUP_COLUMNS))
        right[key] = row["correct"]
        if row["correct"] is None:
            role_scores = ranked[row["item_id"], row["profile"], row["setting"]]
            caption, foil = role_scores.get("caption"), role_scores.get("foil", role_scores.get("mismatched"))
            right[key] = None if caption is None or foil is None else caption > foil
    return right
