"""Summary of the attributions of one model on one data set: text shares, ablations, the verbs of
CV-Probes.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import scipy

from waltz.attribution.t_shap import classify_skew
from waltz.attribution.verbs import NO_IMAGE, build_verb_table
from waltz.core.intervals import (
    Resampling,
    bound_common_error,
    build_measure,
    compute_mean,
    resample,
)
from waltz.core.measure import Measure
from waltz.core.schema import (
    OF_REGIONS,
    AttributionRecord,
    EvaluationRecord,
    MetricRecord,
    ProbeRecord,
    ReasonCount,
    ShareRecord,
)
from waltz.evaluation.metrics.pair_metrics import (
    compare_texts,
    compute_pair_metrics,
    pair_scores,
)
from waltz.evaluation.predictions import THRESHOLD, predict_pair_text
from waltz.evaluation.settings import RIGHT_PREDICTION
from waltz.fidelity import get_fidelity

TextKey = tuple[str, ...]
"""Key of a text: item, role, profile and setting."""

GROUP_COLUMNS = ["role", "profile", "setting"]
SHARE_COLUMNS = [
    *GROUP_COLUMNS,
    *("item_id", "image", "reason", "error", "requested"),
    *("t_shap", "t_shap_se", "t_shap_corrected"),
]
"""Columns of `AttributionRecord` from which shares are computed; the others, with a value for each
player, would take many times the memory.
"""
LEAST_DEVIATION = 1e-6
"""Standard deviation of T-SHAP, a share, up to which texts differ by the rounding of an estimator
alone, as those of rulers do.
"""
DECIMALS = 9
"""Decimal places to which T-SHAP is rounded before it is ranked, so that rounding errors do not
break ties.
"""
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


def build_share_records(
    model: str,
    dataset: str,
    attributions: pd.DataFrame,
    scores: Sequence[EvaluationRecord],
    resampling: Resampling,
) -> list[ShareRecord]:
    """Build the records of mean T-SHAP and of its correlation with the correctness of the model.

    Args:
        attributions: Frame of the columns `SHARE_COLUMNS`, and of `player_share`
            (`compute_player_share`).
        scores: Scored texts. A text counts as correct by its own prediction if the
            model has a probability of a match or gives answers; else a text is correct if its
            caption ranks above the foil.
    """
    correctness = _collect_correctness(scores)
    records = []
    for names, group in attributions.groupby(GROUP_COLUMNS, sort=False):
        role, profile, setting = map(str, names)
        # The evaluation has the score of an attributed text under the same setting.
        scored_setting = setting.removesuffix(OF_REGIONS)
        correct = [
            correctness.get((item_id, role, profile, scored_setting))
            for item_id in group["item_id"]
        ]
        correctness_of_group = pd.Series(correct, index=group.index, dtype=object)
        correlation = correlate_correctness_with_t_shap(
            group.assign(correct=correctness_of_group), f"{dataset} {role}", resampling
        )
        records.append(
            replace(
                summarize_attributions(model, dataset, group, resampling),
                rho=correlation.rho.value,
                rho_low=correlation.rho.ci_low,
                rho_high=correlation.rho.ci_high,
                rho_p=correlation.p,
                rho_reason=correlation.rho.reason,
            )
        )
    return records


def compute_player_share(attribution: AttributionRecord) -> float | None:
    """Return the share of players that are text, between 0 and 1; None if there are no players.

    It is the T-SHAP of a score to which all players contribute equally, and so the floor of T-SHAP.
    """
    if not attribution.tokens or not attribution.phi:
        return None
    return len(attribution.tokens) / len(attribution.phi)


def build_ablation_records(
    model: str,
    dataset: str,
    attributions: Sequence[AttributionRecord],
    resampling: Resampling,
) -> list[MetricRecord]:
    """Build the records of the pair metrics with the whole text masked, and with the whole image
    masked.

    Args:
        attributions: Attributions of captions and foils.
    """
    suffix = _get_setting_suffix(attributions)
    # Scored texts by profile and setting, the masked modality.
    ablated: dict[tuple[str, str], list[EvaluationRecord]] = defaultdict(list)
    for attribution in attributions:
        if attribution.error is None:
            for record in build_ablated_records(attribution):
                ablated[record.profile, record.setting].append(record)
    metrics = []
    for (profile, setting), records in ablated.items():
        scored = pair_scores(records, get_fidelity(profile))
        measures = compute_pair_metrics(scored, dataset, resampling)
        # `acc_r_paper` repeats a paper's rule, but no paper masks a whole modality.
        del measures["acc_r_paper"]
        for metric, measure in measures.items():
            metrics.append(
                MetricRecord(
                    model=model,
                    dataset=dataset,
                    profile=profile,
                    setting=setting + suffix,
                    metric=metric,
                    measure=measure,
                )
            )
    return metrics


def build_ablated_records(attribution: AttributionRecord) -> list[EvaluationRecord]:
    """Build two records from an attribution: the scores without the text and without the image.

    The metrics of unmasked inputs are computed from these records too. A caption and a foil of
    equal length become equal when their texts are masked. They tie, which counts half in acc_r: a
    model that sees no text prefers neither.
    """
    ablated_scores = {
        "without text": attribution.without_text,
        "without image": attribution.without_image,
    }
    records = []
    for setting, scores in ablated_scores.items():
        assert scores is not None, "ablations are computed for every score"
        record = EvaluationRecord(
            item_id=attribution.item_id,
            role=attribution.role,
            profile=attribution.profile,
            setting=setting,
            image=attribution.image,
            score=float(scores[0]),
        )
        # Only a probability of a match gives a prediction for a single text.
        if attribution.explained == "probability":
            record = _add_prediction(record, float(scores[0]))
        records.append(record)
    return records


def _add_prediction(record: EvaluationRecord, probability: float) -> EvaluationRecord:
    """Return a record with the prediction that a probability of a match gives."""
    prediction = predict_pair_text(
        probability - THRESHOLD, probability, get_fidelity(record.profile)
    )
    return replace(
        record,
        probability=probability,
        prediction=prediction,
        correct=prediction == RIGHT_PREDICTION[record.role],
    )


def build_verb_records(
    model: str,
    attributions: Sequence[AttributionRecord],
    scores: Sequence[EvaluationRecord],
    items: Sequence[ProbeRecord],
    resampling: Resampling,
) -> list[MetricRecord]:
    """Build the records of the contribution of the verb, by condition and by the model's
    prediction.

    The data set of each record is `cv-probes:` with the condition.

    Args:
        attributions: Attributions on CV-Probes.
        scores: Scored texts of CV-Probes.
    """
    suffix = _get_setting_suffix(attributions)
    attributions_of_profile: dict[str, list[AttributionRecord]] = defaultdict(list)
    for attribution in attributions:
        attributions_of_profile[attribution.profile].append(attribution)
    predictions: dict[str, dict[str, str | None]] = defaultdict(dict)
    for record in scores:
        predictions[record.profile][record.item_id] = record.prediction
    metrics = []
    for profile, of_profile in attributions_of_profile.items():
        for cell in build_verb_table(
            of_profile, predictions[profile], items, resampling
        ):
            metrics.append(
                MetricRecord(
                    model=model,
                    dataset=f"cv-probes:{cell.condition}",
                    profile=profile,
                    setting=cell.setting + suffix,
                    metric=cell.metric,
                    measure=cell.measure,
                )
            )
    return metrics


def summarize_attributions(
    model: str, dataset: str, group: pd.DataFrame, resampling: Resampling
) -> ShareRecord:
    """Summarize a model's attributions of one data set, role, profile and setting; the correlation
    with correctness stays empty.

    The interval of mean T-SHAP covers the variation between images and the sampling noise of the
    estimator: of items with their own seeds, since it resamples the estimates as they are, and of
    items with one seed by `bound_common_error`. The sampling noise is also reported separately.

    Args:
        dataset: Name of the data set, which separates its bootstrap draws from the draws of other
            data sets.
        group: Frame of `AttributionRecord`s with their `player_share`, at least one.
        resampling: Resamples, coverage, seed; images are drawn.
    Source:
        MM-SHAP (Parcalabescu & Frank, ACL 2023); thesis 4.3.
    """
    first = group.iloc[0]
    defined = group[group["t_shap"].notna()]
    # Sampling noise, over the items whose estimate has a standard error.
    sampled = defined[defined["t_shap_se"].notna()]
    record = ShareRecord(
        model=model,
        dataset=dataset,
        role=first["role"],
        profile=first["profile"],
        setting=first["setting"],
        items=len(group),
        measure=Measure(None, 0, reason=f"none of {len(group)} items has a T-SHAP"),
        standard_error_n=len(sampled),
        missing=_count_reasons(group[group["t_shap"].isna()]),
    )
    if defined.empty:
        return record

    shares = defined["t_shap"].to_numpy(np.float64)
    images = defined["image"].fillna(NO_IMAGE).tolist()
    common_error = 0.0
    if get_fidelity(str(first["profile"])).estimator_seed == "run":
        common_error = 100 * bound_common_error(
            defined["t_shap_se"].to_numpy(np.float64),
            defined["requested"].to_numpy(np.float64),
        )
    measure = compute_mean(
        (100.0 * shares).tolist(),
        images,
        dataset,
        resampling,
        common_error=common_error,
    )
    record = replace(record, measure=measure, sd=100 * float(np.std(shares)))
    if measure.value is not None:
        record = replace(record, mm_skew=classify_skew(measure.value / 100))
    corrected = _average_corrected(defined, dataset, resampling, common_error)
    record = replace(
        record,
        corrected=corrected.value,
        corrected_low=corrected.ci_low,
        corrected_high=corrected.ci_high,
    )
    record = _add_excess(record, defined, resampling, common_error)
    if sampled.empty:
        return record

    # The standard error of an item is the root of the mean squared error over items.
    squared_errors = [error**2 for error in sampled["t_shap_se"].tolist()]
    mean_square_error = float(np.mean(squared_errors))
    record = replace(record, standard_error=100 * mean_square_error**0.5)
    # Part of the variance between these items that estimation explains.
    variance = float(np.var(sampled["t_shap"].to_numpy(np.float64)))
    if variance > LEAST_DEVIATION**2:
        record = replace(record, noise=mean_square_error / variance)
    return record


def _average_corrected(
    defined: pd.DataFrame, dataset: str, resampling: Resampling, common_error: float
) -> Measure:
    """Return the mean of corrected T-SHAP in percent, or an undefined measure if the correction
    changes no item, or an item has none.
    """
    corrected = defined["t_shap_corrected"].astype(np.float64)
    is_changed = corrected != defined["t_shap"]
    if corrected.isna().any() or not is_changed.any():
        return Measure(None, 0)
    images = defined["image"].fillna(NO_IMAGE).tolist()
    # The correction of an item may leave 0 to 100.
    return compute_mean(
        (100.0 * corrected).tolist(),
        images,
        dataset,
        resampling,
        bounds=None,
        common_error=common_error,
    )


def _add_excess(
    record: ShareRecord,
    defined: pd.DataFrame,
    resampling: Resampling,
    common_error: float,
) -> ShareRecord:
    """Return a record with the mean share of players that are text, and the excess of T-SHAP over
    it.

    Both numbers of an item are subtracted before the mean is taken, so that the interval is paired.

    Args:
        defined: The attributions that have T-SHAP; the record is unchanged unless all have a share
            of players.
    """
    if defined["player_share"].isna().any():
        return record
    player_shares = defined["player_share"].to_numpy(np.float64)
    differences = 100 * (defined["t_shap"].to_numpy(np.float64) - player_shares)
    images = defined["image"].fillna(NO_IMAGE).tolist()
    excess = compute_mean(
        differences.tolist(),
        images,
        record.dataset,
        resampling,
        bounds=None,
        common_error=common_error,
    )
    return replace(
        record,
        player_share=100 * float(np.mean(player_shares)),
        excess=excess.value,
        excess_low=excess.ci_low,
        excess_high=excess.ci_high,
    )


def _count_reasons(undefined: pd.DataFrame) -> list[ReasonCount]:
    """Count the attributions without T-SHAP, by the reason why they have none."""
    # An error comes before a reason; a missing text is NaN or None.
    reasons = undefined["error"].where(undefined["error"].notna(), undefined["reason"])
    reasons = reasons.where(reasons.notna(), "no reason stated")
    counts = Counter(reasons.tolist())
    return [ReasonCount(reason, count) for reason, count in sorted(counts.items())]


def correlate_correctness_with_t_shap(
    items: pd.DataFrame, label: str, resampling: Resampling
) -> RankCorrelation:
    """Compute Spearman's correlation of correctness and T-SHAP over the items of one role.

    The interval draws images and ranks each resample again. A resample has no correlation if all
    its items are right, all are wrong, or all have the same T-SHAP.

    Args:
        items: Frame with `correct`, `t_shap` and `image` of each item; items without correctness or
            without T-SHAP are skipped.
        label: Name of the data set, which separates its bootstrap draws from the draws of other
            data sets.
    Returns:
        The correlation, or the reason why it is undefined.
    Source:
        Thesis B.2.1.
    """
    complete = items[items["correct"].notna() & items["t_shap"].notna()]
    count = len(complete)
    correct = complete["correct"].to_numpy(bool)
    shares = np.round(complete["t_shap"].to_numpy(np.float64), DECIMALS)
    reason = _explain_undefined(correct, shares, len(items))
    if reason:
        return RankCorrelation(Measure(None, count, reason=reason), None)
    correlation = scipy.stats.spearmanr(correct, shares)
    # The bootstrap draws images, not items, since items of one image are not independent.
    images = complete["image"].fillna(NO_IMAGE).tolist()
    resamples = resample(
        images, resamples=resampling.resamples, seed=resampling.seed, label=label
    )
    blocks = resamples.iterate_item_counts()
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


def _get_setting_suffix(attributions: Sequence[AttributionRecord]) -> str:
    """Return the suffix that marks settings of attributions of regions, or an empty string for
    patches.
    """
    for attribution in attributions:
        if attribution.setting.endswith(OF_REGIONS):
            return OF_REGIONS
    return ""


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
