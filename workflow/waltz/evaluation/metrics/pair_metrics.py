"""Metrics over scored pairs of caption and foil, each defined once.

What is compared in acc_r and AUROC differs by profile. `published`: the probability of a match, in single precision as
the scripts of MM-SHAP compute it, and the logit of models without one (CLIP). `equations`: the logit, which no rounding
near 0 or 1 makes tie. What counts as "match" differs too (`predictions.prediction`).
"""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

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
from waltz.evaluation.metrics.predictions import NOT_APPLICABLE
from waltz.evaluation.metrics.scored_pairs import ALIGNMENT, SINGLE, Pairs

METRICS = ("acc_r", "acc", "p_c", "p_f", "min_pc_pf", "auroc")
"""Every metric of `measures`."""
NUMBERS = 2_000_000
"""Most weights that AUROC holds at once: 16 MB."""


def measures(scored: Pairs, label: str, how: Resampling) -> dict[str, Measure]:
    """Every metric of one data set, in percent, on the same resamples of its images.

    - acc_r: share of items whose caption ranks strictly above its foil; a tie is wrong.
    - p_c: share of captions taken for a match; p_f: share of foils taken for a mismatch (`prediction`).
    - acc: mean of p_c and p_f. min_pc_pf: the smaller of the two, in each resample anew.
    - auroc: share of all (caption, foil) of the data set in which the caption ranks above the foil, ties counting half.

    Args:
        scored: The items.
        label: Name of the data set, which separates its draws from others'.
        how: Resamples, coverage, seed.
    Source:
        VALSE (Parcalabescu et al., ACL 2022, section 4.2); thesis 3.4 and 4.4.
    """
    if not scored.items:
        return dict.fromkeys(METRICS, Measure(None, 0, reason=f"none of {scored.unscored} items could be scored"))
    drawn = resample(scored.images, resamples=how.resamples, seed=how.seed, label=label)
    n, found = len(scored.items), sampled(scored, drawn)
    without = Measure(None, n, reason=NOT_APPLICABLE)
    known = {
        metric: Measure(value, n, *compute_interval(draws, how.confidence, drawn.clusters, PERCENT))
        for metric, (value, draws) in found.items()
    }
    return {metric: known.get(metric, without) for metric in METRICS}


def sampled(scored: Pairs, drawn: Resamples) -> dict[str, tuple[float, np.ndarray]]:
    """Value and draws, in percent, of each metric that the scores have; see `measures`."""
    found = {}
    for metric in ("acc_r",) if scored.right is None else ("acc_r", "acc", "p_c", "p_f"):
        values = 100 * hits(scored, metric)
        found[metric] = (float(np.mean(values)), drawn.compute_means(values))
    if scored.right is not None:
        (p_c, p_c_draws), (p_f, p_f_draws) = found["p_c"], found["p_f"]
        found["min_pc_pf"] = (min(p_c, p_f), np.minimum(p_c_draws, p_f_draws))
    found["auroc"] = (100 * auroc(scored.caption, scored.foil), 100 * auroc_draws(scored, drawn))
    return found


def hits(scored: Pairs, metric: str) -> np.ndarray:
    """Per item, 1 where it is right under acc_r, p_c or p_f, and the share of its two texts that are under acc.

    Returns:
        float64 of shape (items,).
    """
    if metric == "acc_r":
        ranked: np.ndarray = (scored.caption > scored.foil).astype(np.float64)
        return ranked
    assert scored.right is not None, NOT_APPLICABLE
    right = scored.right.astype(np.float64)
    found: np.ndarray = {"acc": right.mean(axis=1), "p_c": right[:, 0], "p_f": right[:, 1]}[metric]
    return found


def auroc(captions: np.ndarray, foils: np.ndarray) -> float:
    """Area under the ROC curve of scores that shall tell captions from foils, a share.

    Args:
        captions: Scores of the positive texts, none of them NaN.
        foils: Scores of the negative texts.
    """
    wins = stats.mannwhitneyu(captions, foils, method="asymptotic").statistic
    return float(wins) / (len(captions) * len(foils))


def auroc_draws(scored: Pairs, drawn: Resamples) -> np.ndarray:
    """AUROC of each resample, a share: float64 of shape (resamples,); NaN where there is one image only."""
    if drawn.clusters == 1:
        return np.full(len(drawn.counts), np.nan)
    order = np.argsort(scored.foil, kind="stable")
    below, upto = (np.searchsorted(scored.foil[order], scored.caption, side) for side in ("left", "right"))
    step = max(1, NUMBERS // len(scored.items))
    draws = []
    for first in range(0, len(drawn.counts), step):
        weights = drawn.counts[first : first + step][:, drawn.cluster]
        reached = np.pad(np.cumsum(weights[:, order], axis=1), ((0, 0), (1, 0)))
        beaten = (reached[:, below] + reached[:, upto]) / 2
        draws.append((weights * beaten).sum(axis=1) / weights.sum(axis=1) ** 2)
    return np.concatenate(draws)


def acc_r(rows: Sequence[Mapping[str, object]], label: str, how: Resampling) -> Measure:
    """acc_r of rows that say for each item which of its texts the model prefers (settings `perplexity`, `pairwise`).

    Args:
        rows: Rows of the evaluation layout, one an item (role `caption`).
        label: Name of the data set, which separates its bootstrap draws from others'.
        how: Resamples, coverage, seed.
    Returns:
        Percent of the scored items; the same as `measures` gives.
    Raises:
        ValueError: The rows judge each text for itself, so that `correct` would give p_c.
    """
    if any(row.get("setting") in (ALIGNMENT, SINGLE) for row in rows):
        raise ValueError("rows that judge each text for itself: take acc_r from `measures`")
    return share_correct(rows, label, how)


def share_correct(rows: Sequence[Mapping[str, object]], label: str, how: Resampling) -> Measure:
    """Share of rows that are correct.

    Rows without a score (`correct` is null) are left out, and counted in the reason where none is left.

    Args:
        rows: Rows of the evaluation layout, one an item; those without an image are resampled one by one.
        label: Name of the data set, which separates its bootstrap draws from others'.
        how: Resamples, coverage, seed.
    Returns:
        Percent of the scored items.
    """
    scored = [row for row in rows if row["correct"] is not None]
    if not scored:
        return Measure(None, 0, reason=f"none of {len(rows)} items could be scored")
    right = [100.0 * bool(row["correct"]) for row in scored]
    clusters = [str(row["item_id"] if row["image"] is None else row["image"]) for row in scored]
    return compute_mean(right, clusters, label, how)


def average(parts: Sequence[Measure]) -> Measure:
    """Mean over data sets, each weighing the same; they are independent.

    Returns:
        The mean; without a value where one part has none.
    """
    n = sum(part.n for part in parts)
    values = [part.value for part in parts if part.value is not None]
    if not parts or len(values) < len(parts):
        reasons = {part.reason for part in parts}
        reason = f"{len(parts) - len(values)} of {len(parts)} data sets have no value"
        reason = NOT_APPLICABLE if reasons == {NOT_APPLICABLE} else reason
        return Measure(None, n, reason=reason)
    return Measure(float(np.mean(values)), n, *compute_interval_of_mean(parts))
