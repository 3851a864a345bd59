"""Plausibility: how often a model ranks the caption above a foil that a language model finds as likely."""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import expit

from waltz.core.intervals import PERCENT, Measure, Resampling, compute_interval, resample
from waltz.evaluation.metrics.pair_metrics import ScoredPairs, compute_hits
from waltz.measures.items import identify_scene
from waltz.measures.rows import Row, average, build_row

MEASUREMENT = "plausibility"
ALL = "all"
RIDGE = 0.01
"""Penalty on the squares of both coefficients, so that they are finite where items can be separated."""
STEPS = 25
"""Steps of Newton's method; it ends by then for any weights."""
MIN_ITEMS = 5
"""Fewest items with a likelier caption, and with a likelier foil: else a difference of 0 lies outside the data."""
MATCHED_SHARE = 1 / 3
"""Share of the items, those of smallest difference of log-likelihood, that count as matched."""


def fit_logistic(differences: np.ndarray, hits: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Fit the log-odds of a hit as a line of a difference, by Newton's method with a small ridge.

    Args:
        differences: float64 of shape (items,).
        hits: 0 or 1, of the same shape.
        weights: Weight of each item in each fit, float64 of shape (fits, items).
    Returns:
        Intercept and slope, float64 of shape (fits, 2).
    """
    design = np.stack([np.ones(len(differences)), differences], axis=1)
    coefficients = np.zeros((len(weights), 2))
    for _ in range(STEPS):
        chances = expit(coefficients @ design.T)
        slope = (weights * (hits - chances)) @ design - RIDGE * coefficients
        curvature = np.einsum("fi,ia,ib->fab", weights * chances * (1 - chances), design, design) + RIDGE * np.eye(2)
        step = np.linalg.solve(curvature, slope[..., None])[..., 0]
        coefficients += np.clip(step, -2, 2)
    return coefficients


def measure_plausibility(
    scores: Mapping[tuple[str, str], ScoredPairs],
    language_model: str,
    filters: Mapping[str, Sequence[str]],
    how: Resampling,
) -> list[Row]:
    """Measure acc_r at equal likelihood of caption and foil, of each model on each data set and on all together.

    Args:
        scores: Scored items by model and data set; the language model's score is the mean log-likelihood of a token.
        language_model: Name of the model whose log-likelihoods are compared.
        filters: Filters of each data set's foils, by data set; none where they are not known, as of released files.
        how: Resampling of images.
    Returns:
        In percent: acc_r; `acc_r at equal likelihood`, from a logistic regression of its hits on the difference of
        the log-likelihoods; `acc_r matched`, of the third of the items with the smallest differences. Of the language
        model itself acc_r alone, with the filters as level, and the mean difference in nats a token.
    """
    rows: list[Row] = []
    likelihoods = {
        dataset: dict(zip(scored.items, scored.caption - scored.foil, strict=True))
        for (model, dataset), scored in scores.items()
        if model == language_model
    }
    pooled: dict[str, list[tuple[np.ndarray, np.ndarray, list[str]]]] = {}
    for (model, dataset), scored in scores.items():
        if dataset not in likelihoods:
            continue
        known = [place for place, item in enumerate(scored.items) if item in likelihoods[dataset]]
        own = scored.take(known)
        hits = compute_hits(own, "acc_r")
        differences = np.array([likelihoods[dataset][item] for item in own.items])
        clusters = [identify_scene(image) for image in own.images]
        place = {"model": model, "dataset": dataset}
        pooled.setdefault(model, []).append((differences, hits, clusters))
        if model == language_model:
            rows += _build_language_model_rows(differences, hits, clusters, filters.get(dataset), place, how)
        else:
            rows += _build_rows(differences, hits, clusters, place, how)
    for model, parts in pooled.items():
        differences, hits = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
        clusters = [cluster for *_, own in parts for cluster in own]
        place = {"model": model, "dataset": ALL}
        build = _build_rows(differences, hits, clusters, place, how)
        rows += build[:1] if model == language_model else build
    return rows


def measure_equal_likelihood(
    differences: np.ndarray, hits: np.ndarray, clusters: Sequence[str], label: str, how: Resampling
) -> Measure:
    """Return the share of hits, in percent, that a logistic regression gives at a difference of 0.

    Where all items are hits, or none, it is their share. Undefined, with a reason, where fewer than `MIN_ITEMS`
    differences lie on one side of 0.
    """
    sides = int((differences > 0).sum()), int((differences < 0).sum())
    if min(sides) < MIN_ITEMS:
        reason = f"{sides[0]} captions and {sides[1]} foils are the likelier text; {MIN_ITEMS} of each are needed"
        return Measure(None, len(hits), reason=reason)
    if len(set(hits.tolist())) == 1:
        return average((100 * hits).tolist(), list(clusters), label, how, PERCENT)
    draws = resample(list(clusters), resamples=how.resamples, seed=how.seed, label=label)
    weights = np.concatenate([np.ones((1, len(hits))), draws.counts[:, draws.cluster]])
    shares = 100 * expit(fit_logistic(differences, hits, weights)[:, 0])
    ends = compute_interval(shares[1:], how.confidence, draws.clusters, PERCENT)
    return Measure(float(shares[0]), len(hits), *ends)


def _build_rows(
    differences: np.ndarray, hits: np.ndarray, clusters: list[str], place: Mapping[str, str], how: Resampling
) -> list[Row]:
    label = f"{MEASUREMENT}:{place['dataset']}"
    nearest = np.argsort(np.abs(differences), kind="stable")[: int(np.ceil(MATCHED_SHARE * len(hits)))]
    matched = (100 * hits[nearest]).tolist()
    measures = {
        "acc_r": average((100 * hits).tolist(), clusters, label, how, PERCENT),
        "acc_r at equal likelihood": measure_equal_likelihood(differences, hits, clusters, label, how),
        "acc_r matched": average(matched, [clusters[index] for index in nearest], label, how, PERCENT),
    }
    return [build_row(MEASUREMENT, quantity, measure, **place) for quantity, measure in measures.items()]


def _build_language_model_rows(
    differences: np.ndarray,
    hits: np.ndarray,
    clusters: list[str],
    filters: Sequence[str] | None,
    place: Mapping[str, str],
    how: Resampling,
) -> list[Row]:
    label = f"{MEASUREMENT}:{place['dataset']}"
    filtered = {} if filters is None else {"factor": "filters", "level": ", ".join(filters) or "none"}
    return [
        build_row(
            MEASUREMENT, "acc_r", average((100 * hits).tolist(), clusters, label, how, PERCENT), **place, **filtered
        ),
        build_row(MEASUREMENT, "difference", average(differences.tolist(), clusters, label, how), **place, **filtered),
    ]
