"""Scored pairs of caption and foil, and the metrics over them, each defined once.

The score compared in acc_r and AUROC depends on the profile. `published`: the probability of a
match, in single precision as the scripts of MM-SHAP compute it; the logit of models without one
(CLIP); in setting `valse-script` the logit of a match alone. `equations`: the logit, which rounding
near 0 or 1 cannot tie. The prediction "match" differs too (`predictions.predict_pair_text`).

A caption and a foil whose scores differ by no more than their rounding are tied. A tie counts half
in acc_r, so that chance is 50 for every number of ties; in acc_r_paper it counts as in the source
of the profile.
"""

from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy

from waltz.core.errors import UserError
from waltz.core.intervals import (
    PERCENT,
    Resamples,
    Resampling,
    build_measure,
    compute_interval_of_mean,
    compute_mean,
    count_images,
    resample,
)
from waltz.core.measure import Measure
from waltz.core.rounding import compute_rounding, is_tied
from waltz.core.schema import EvaluationRecord
from waltz.evaluation.settings import FOILS, VALSE_SCRIPT
from waltz.fidelity import Fidelity

NOT_APPLICABLE = "not applicable: the model has no probability of a match"
METRICS = ("acc_r", "acc_r_paper", "acc", "p_c", "p_f", "min_pc_pf", "auroc", "ties")
"""Names of the metrics that `compute_pair_metrics` returns."""
RANKING_METRICS = ("acc_r", "acc_r_paper", "ties")
"""Names of the metrics that only compare the two scores of an item."""
TIE = "tie"


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """Hold the scores of those items of one data set whose caption and foil both have a score.

    Attributes:
        items: Ids of the items, in order.
        images: Image of each item; the id of an item without an image.
        caption: Score that ranks each caption, float64 of shape (items,).
        foil: Score that ranks each foil, of the same shape; equal to the caption's score if the two
            are tied.
        right: Whether the model predicts a match for each caption and a mismatch for each foil,
            bool of shape (items, 2); None for a score without a probability of a match.
        unscored: Number of items that were skipped because one of their texts has no score.
        tie_is_right: Whether acc_r_paper counts a tie of caption and foil as right.
    """

    items: tuple[str, ...]
    images: tuple[str, ...]
    caption: np.ndarray
    foil: np.ndarray
    right: np.ndarray | None
    unscored: int = 0
    tie_is_right: bool = False

    @cached_property
    def cluster(self) -> np.ndarray:
        """Number of each item's image in the order of their names, int64 of shape (items,)."""
        _, cluster = np.unique(np.asarray(self.images), return_inverse=True)
        return cluster

    @cached_property
    def has_sorted_items(self) -> bool:
        """Return whether the items are sorted by id."""
        return list(self.items) == sorted(self.items)

    def count_images(self) -> int:
        """Return the number of images."""
        return len(set(self.images))

    def sort_items(self) -> "ScoredPairs":
        """Return the pairs sorted by the ids of the items."""
        return self.take(sorted(range(len(self.items)), key=self.items.__getitem__))

    def share_names(
        self, names: MutableMapping[tuple[str, ...], tuple[str, ...]]
    ) -> "ScoredPairs":
        """Return the pairs with the names of items and images that are equal among `names`, to
        which new ones are added.
        """
        return replace(
            self,
            items=names.setdefault(self.items, self.items),
            images=names.setdefault(self.images, self.images),
        )

    def take(self, positions: Sequence[int]) -> "ScoredPairs":
        """Return the items at some positions, in this order."""
        index = np.asarray(positions, dtype=np.int64)
        return replace(
            self,
            items=tuple(self.items[position] for position in positions),
            images=tuple(self.images[position] for position in positions),
            caption=self.caption[index],
            foil=self.foil[index],
            right=None if self.right is None else self.right[index],
        )


def get_cluster(record: EvaluationRecord) -> str:
    """Return the unit that resamples draw: the image of a record, or its item if it has no image."""
    return record.item_id if record.image is None else record.image


def pair_scores(records: Iterable[EvaluationRecord], fidelity: Fidelity) -> ScoredPairs:
    """Pair the scores of captions and foils of one data set in one setting.

    Args:
        records: Scored texts; records of other profiles are ignored.
        fidelity: Rules of the profile of the records.
    Raises:
        UserError: A score is not a number, or an item has no caption or no foil.
    """
    # Each text has a record; the records of an item are put together.
    texts_by_item = group_texts(records, fidelity.name)
    items: list[str] = []
    images: list[str] = []
    scores: list[tuple[float, float]] = []
    right: list[tuple[bool, bool]] = []
    for item, texts in texts_by_item.items():
        if set(texts) != {"caption", "foil"}:
            raise UserError(
                f"item {item}, profile {fidelity.name}: rows of {sorted(texts)}, not of caption and foil; run again"
            )
        caption, foil = texts["caption"], texts["foil"]
        if caption.score is None or foil.score is None:
            continue
        refuse_nan_score(caption)
        refuse_nan_score(foil)
        caption_score = get_ranking_score(caption, caption.score, fidelity)
        foil_score = get_ranking_score(foil, foil.score, fidelity)
        # Equal numbers mark the tie for every metric that follows.
        if compare_texts(caption, foil) == 0:
            foil_score = caption_score
        items.append(item)
        images.append(get_cluster(caption))
        scores.append((caption_score, foil_score))
        if caption.probability is not None:
            right.append((bool(caption.correct), bool(foil.correct)))
    # If only some items have a probability, records of two encoders are mixed in one file.
    if right and len(right) < len(items):
        raise UserError(
            f"{len(right)} of {len(items)} items have a probability; score the data set again"
        )

    # (items, 2): caption, foil
    numbers = np.array(scores, dtype=np.float64).reshape(-1, 2)
    return ScoredPairs(
        items=tuple(items),
        images=tuple(images),
        caption=numbers[:, 0],
        foil=numbers[:, 1],
        right=np.array(right, dtype=bool) if right else None,
        unscored=len(texts_by_item) - len(items),
        tie_is_right=fidelity.tied_pair_is_right,
    )


def group_texts(
    records: Iterable[EvaluationRecord], profile: str
) -> dict[str, dict[str, EvaluationRecord]]:
    """Group the records of a profile by item, then by role; a mismatched text counts as a foil."""
    texts_by_item: dict[str, dict[str, EvaluationRecord]] = {}
    for record in records:
        if record.profile != profile:
            continue
        role = "foil" if record.role in FOILS else record.role
        texts_by_item.setdefault(record.item_id, {})[role] = record
    return texts_by_item


def refuse_nan_score(record: EvaluationRecord) -> None:
    """Refuse a record whose score or probability is not a number, as in a file written by hand."""
    for value in (record.score, record.probability):
        if value is not None and np.isnan(value):
            raise UserError(
                f"item {record.item_id}, {record.role}: the score is not a number; score the data set again"
            )


def compare_texts(first: EvaluationRecord, second: EvaluationRecord) -> int | None:
    """Return 1 if the first text scores higher, -1 if the second does, and 0 if their scores differ
    by no more than their rounding; None if a text has no score.
    """
    if first.score is None or second.score is None:
        return None
    rounding = max(
        _get_rounding(first.score, first.rounding),
        _get_rounding(second.score, second.rounding),
    )
    if is_tied(first.score, second.score, rounding):
        return 0
    return 1 if first.score > second.score else -1


def _get_rounding(score: float, rounding: float | None) -> float:
    """Return the rounding of a score.

    A recorded score has an unknown precision and gets the rounding of float32.
    """
    return compute_rounding(score) if rounding is None else rounding


def is_tied_choice(record: EvaluationRecord) -> bool:
    """Return whether a record that chooses between caption and foil prefers neither by more than
    its rounding.

    The score of such a record is the caption's logit minus the foil's.
    """
    if record.prediction == TIE:
        return True
    if record.score is None:
        return False
    return is_tied(record.score, 0.0, record.rounding or 0.0)


def pair_choices(
    records: Iterable[EvaluationRecord], fidelity: Fidelity
) -> ScoredPairs:
    """Convert choices between caption and foil to pairs of scores.

    The caption ranks above its foil if the model chose it. If the model prefers neither, the two
    are tied.

    Args:
        records: Records of one setting with one record for each item, as in `pairwise`; records of
            other profiles are ignored.
        fidelity: Rules of the profile of the records.
    """
    items: list[str] = []
    images: list[str] = []
    credits: list[float] = []
    unscored = 0
    for record in records:
        if record.profile != fidelity.name:
            continue
        if record.correct is None:
            unscored += 1
            continue
        items.append(record.item_id)
        images.append(get_cluster(record))
        credits.append(0.5 if is_tied_choice(record) else float(record.correct))
    # A choice has no score of either text: 1 ranks above 0, and both have 0.5 in a tie.
    caption = np.array(credits, dtype=np.float64)
    return ScoredPairs(
        tuple(items), tuple(images), caption, 1 - caption, None, unscored
    )


def get_ranking_score(
    record: EvaluationRecord, logit: float, fidelity: Fidelity
) -> float:
    """Return the score that ranks a text: its probability if the profile compares probabilities,
    else its logit.

    A text without a probability, and a text that VALSE's script scores, is ranked by its logit in
    every profile.
    """
    if record.setting == VALSE_SCRIPT or record.probability is None:
        return logit
    if fidelity.match_by == "probability":
        return record.probability
    return logit


def compute_pair_metrics(
    scored: ScoredPairs, label: str, resampling: Resampling
) -> dict[str, Measure]:
    """Compute all metrics of one data set, in percent, on the same resamples of its images.

    - acc_r: share of items whose caption ranks above its foil; a tie counts half.
    - acc_r_paper: the same share, where a tie counts as right or wrong as `scored` says.
    - ties: share of items whose caption and foil rank equally.
    - p_c: share of captions predicted as a match; p_f: share of foils predicted as a mismatch. Both are recalls; the
      papers call them precision.
    - acc: mean of p_c and p_f. min_pc_pf: the smaller of p_c and p_f, in each resample.
    - auroc: share of all pairs of a caption and a foil of the data set in which the caption ranks above the foil; a tie
      counts half.

    Args:
        scored: The scored items.
        label: Name of the data set, which separates its draws from the draws of other data sets.
        resampling: Resamples and coverage of the intervals.
    Source:
        VALSE (Parcalabescu et al., ACL 2022, section 4.2); thesis 3.5.4, where Eq. 3.1 counts a tie
        as right and divides by |C| + |F|, a misprint for the number of pairs.
    """
    if not scored.items:
        return dict.fromkeys(
            METRICS,
            Measure(None, 0, reason=f"none of {scored.unscored} items could be scored"),
        )
    # All metrics share the resamples, so that their differences can be compared.
    resamples = resample(
        scored.cluster,
        resamples=resampling.resamples,
        seed=resampling.seed,
        label=label,
    )
    n = len(scored.items)
    draws_of_metric = compute_metric_draws(scored, resamples)
    measures = {}
    for metric in METRICS:
        if metric not in draws_of_metric:
            measures[metric] = Measure(None, n, reason=NOT_APPLICABLE)
            continue
        value, draws = draws_of_metric[metric]
        measures[metric] = build_measure(
            value, n, draws, resampling, resamples.clusters, PERCENT
        )
    if scored.right is not None:
        measures["min_pc_pf"] = _measure_minimum(measures["p_c"], measures["p_f"])
    return measures


def _measure_minimum(p_c: Measure, p_f: Measure) -> Measure:
    """Return the smaller of p_c and p_f, from whose ends of intervals its own follow.

    Of two numbers that are about equal, the smaller is mostly the one that came out too small by
    chance, so that an interval around it would lie too low. The smaller of both lower ends is too
    large only if both are; the smaller of both upper ends is too small if the end of the smaller
    number is, or that of the other lies below it.
    """
    # Of two equal numbers, p_c.
    smaller = min(p_c, p_f, key=lambda measure: measure.value or 0.0)
    if p_c.ci_low is None or p_f.ci_low is None:
        return smaller
    if p_c.ci_high is None or p_f.ci_high is None:
        return smaller
    low = min(p_c.ci_low, p_f.ci_low)
    high = min(p_c.ci_high, p_f.ci_high)
    return replace(smaller, ci_low=low, ci_high=high)


def compute_metric_draws(
    scored: ScoredPairs, resamples: Resamples
) -> dict[str, tuple[float, np.ndarray]]:
    """Return the value and the draws, in percent, of each metric that the scores define; see
    `compute_pair_metrics`.
    """
    metrics: tuple[str, ...] = RANKING_METRICS
    if scored.right is not None:
        metrics = (*RANKING_METRICS, "acc", "p_c", "p_f")
    values_and_draws = {}
    for metric in metrics:
        # (items,), in percent
        values = 100 * compute_hits(scored, metric)
        values_and_draws[metric] = (
            float(np.mean(values)),
            resamples.compute_means(values),
        )
    if scored.right is not None:
        # p_c can be smaller in one resample and p_f in another, so that the minimum is taken in
        # each resample.
        p_c, p_c_draws = values_and_draws["p_c"]
        p_f, p_f_draws = values_and_draws["p_f"]
        values_and_draws["min_pc_pf"] = (
            min(p_c, p_f),
            np.minimum(p_c_draws, p_f_draws),
        )
    auroc = compute_auroc(scored.caption, scored.foil)
    values_and_draws["auroc"] = (
        100 * auroc,
        100 * compute_auroc_draws(scored, resamples),
    )
    return values_and_draws


def compute_hits(scored: ScoredPairs, metric: str) -> np.ndarray:
    """Return the contribution of each item to acc_r, acc_r_paper, ties, p_c, p_f or acc, whose mean
    is the metric.

    Returns:
        Numbers between 0 and 1, float64 of shape (items,).
    """
    if metric in RANKING_METRICS:
        return _compute_ranking_hits(scored, metric)
    assert scored.right is not None, NOT_APPLICABLE
    right = scored.right.astype(np.float64)  # (items, 2): caption, foil
    item_hits: np.ndarray = {
        "acc": right.mean(axis=1),
        "p_c": right[:, 0],
        "p_f": right[:, 1],
    }[metric]
    return item_hits


def _compute_ranking_hits(scored: ScoredPairs, metric: str) -> np.ndarray:
    """Return the contribution of each item to one of `RANKING_METRICS`; see `compute_hits`."""
    is_above: np.ndarray = (scored.caption > scored.foil).astype(np.float64)
    is_tied: np.ndarray = (scored.caption == scored.foil).astype(np.float64)
    if metric == "ties":
        return is_tied
    # In acc_r a tie counts half, so that chance is 50; in acc_r_paper it is right (thesis Eq. 3.1)
    # or wrong (the released code).
    credit_of_tie = 0.5 if metric == "acc_r" else float(scored.tie_is_right)
    hits: np.ndarray = is_above + credit_of_tie * is_tied
    return hits


def compute_auroc(captions: np.ndarray, foils: np.ndarray) -> float:
    """Return the area under the ROC curve of scores that separate captions from foils, a share.

    Args:
        captions: Scores of the positive texts, none of them NaN.
        foils: Scores of the negative texts.
    """
    # Mann-Whitney's U is the number of pairs of caption and foil in which the caption is higher; a
    # tie counts half.
    wins = scipy.stats.mannwhitneyu(captions, foils, method="asymptotic").statistic
    return float(wins) / (len(captions) * len(foils))


def compute_auroc_draws(scored: ScoredPairs, resamples: Resamples) -> np.ndarray:
    """Return the AUROC of each resample, a share: float64 of shape (resamples,); NaN if there is
    only one image.
    """
    if resamples.clusters == 1:
        return np.full(len(resamples.counts), np.nan)  # one image has no variance

    # Rank of each caption among the sorted foils: the number of foils below it, and up to it.
    order = np.argsort(scored.foil, kind="stable")
    sorted_foils = scored.foil[order]
    n_below = np.searchsorted(sorted_foils, scored.caption, side="left")
    n_up_to = np.searchsorted(sorted_foils, scored.caption, side="right")

    auroc = []
    # (block, items): how often each item was drawn, with its image.
    for weights in resamples.iterate_item_counts():
        # cumulated[r, k] is the weight of the k lowest foils in resample r.
        cumulated = np.pad(np.cumsum(weights[:, order], axis=1), ((0, 0), (1, 0)))
        # A foil with the caption's own score lies between the two ranks and counts half.
        beaten = (cumulated[:, n_below] + cumulated[:, n_up_to]) / 2
        n_pairs = weights.sum(axis=1) ** 2
        auroc.append((weights * beaten).sum(axis=1) / n_pairs)
    return np.concatenate(auroc)


def compute_accuracy(
    records: Sequence[EvaluationRecord], label: str, resampling: Resampling
) -> Measure:
    """Compute the share of correct records among the records with a verdict, in percent.

    For records that choose between caption and foil (`pairwise`, `perplexity`), this share is
    acc_r_paper.

    Args:
        records: One record for each item; records without an image are resampled individually.
        label: Name of the data set, which separates its bootstrap draws from the draws of other
            data sets.
    """
    right: list[float] = []
    clusters: list[str] = []
    for record in records:
        if record.correct is not None:
            right.append(100.0 * record.correct)
            clusters.append(get_cluster(record))
    if not right:
        return Measure(None, 0, reason=f"none of {len(records)} items could be scored")
    return compute_mean(right, clusters, label, resampling)


def compute_choice_metrics(
    records: Sequence[EvaluationRecord],
    fidelity: Fidelity,
    label: str,
    resampling: Resampling,
) -> dict[str, Measure]:
    """Compute acc_r and acc_r_paper of records that choose between caption and foil, in percent.

    Args:
        records: Records of one profile, one for each item.
        fidelity: Rules of the profile.
        label: Name of the data set, which separates its bootstrap draws from the draws of other
            data sets.
    """
    accuracy = compute_accuracy(records, label, resampling)
    if accuracy.value is None:
        return {"acc_r": accuracy, "acc_r_paper": accuracy}
    # A tie is half right in acc_r; `correct` counts it as wrong, which acc_r_paper keeps.
    choices = pair_choices(records, fidelity)
    # Both metrics are computed on the same records, in percent.
    hits = (100 * compute_hits(choices, "acc_r")).tolist()
    return {
        "acc_r": compute_mean(hits, choices.images, label, resampling),
        "acc_r_paper": accuracy,
    }


def average_measures(parts: Sequence[Measure]) -> Measure:
    """Return the mean of a metric over independent data sets with equal weights; no value if one
    data set has none.
    """
    n = sum(part.n for part in parts)
    values = [part.value for part in parts if part.value is not None]
    missing = len(parts) - len(values)
    if missing or not parts:
        reason = f"{missing} of {len(parts)} data sets have no value"
        if {part.reason for part in parts} == {NOT_APPLICABLE}:
            reason = NOT_APPLICABLE
        return Measure(None, n, reason=reason)
    interval = compute_interval_of_mean(parts)
    return Measure(float(np.mean(values)), n, *interval, images=count_images(parts))
