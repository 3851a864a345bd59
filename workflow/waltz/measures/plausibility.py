"""Plausibility: how often a model ranks the caption above a foil that a language model finds as
likely.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from waltz.core.intervals import PERCENT, Resampling, build_measure, resample
from waltz.core.measure import Measure
from waltz.core.schema import MeasurementRecord
from waltz.evaluation.metrics.pair_metrics import ScoredPairs, compute_hits
from waltz.measures.items import identify_scene
from waltz.measures.rows import average, build_row

MEASUREMENT = "plausibility"
ALL = "all"
RIDGE = 0.01
"""Penalty on the squares of both coefficients, so that they are finite where items can be
separated.
"""
STEPS = 25
"""Number of steps of Newton's method, enough for any weights to converge."""
MAX_STEP = 2.0
"""Largest change of a coefficient in one step: a longer one would leave the region in which the
curvature holds.
"""
MIN_ITEMS = 5
"""Smallest number of items with a likelier caption, and of items with a likelier foil.

With fewer items, a difference of 0 lies outside the data."""
MATCHED_SHARE = 1 / 3
"""Share of the items that count as matched: the items with the smallest difference of
log-likelihood.
"""


@dataclass(frozen=True, slots=True, eq=False)
class JudgedItems:
    """Hold the items that both a model and the language model scored.

    Attributes:
        differences: Log-likelihood of the caption less log-likelihood of the foil, in nats a token, float64
            of shape (items,).
        hits: 1 where the model ranks the caption above the foil, 1/2 for a tie, else 0, float64 of
            the same shape.
        clusters: The scene of each item.
    """

    differences: np.ndarray
    hits: np.ndarray
    clusters: list[str]

    def take(self, indices: np.ndarray) -> "JudgedItems":
        """Return the items at some positions."""
        return JudgedItems(
            self.differences[indices],
            self.hits[indices],
            [self.clusters[index] for index in indices],
        )

    def average_hits(self, label: str, resampling: Resampling) -> Measure:
        """Return the mean of the hits, acc_r in percent, with its interval over scenes."""
        return average(
            (100 * self.hits).tolist(), self.clusters, label, resampling, PERCENT
        )


def fit_logistic(
    differences: np.ndarray, hits: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Return logistic regressions of hits on a difference, fitted by Newton's method with a small
    ridge.

    Args:
        differences: float64 of shape (items,).
        hits: 0 or 1, of the same shape.
        weights: Weight of each item in each fit, float64 of shape (fits, items).
    Returns:
        Intercept and slope, float64 of shape (fits, 2).
    """
    # (items, 2): intercept and difference
    design = np.stack([np.ones(len(differences)), differences], axis=1)
    coefficients = np.zeros((len(weights), 2))
    for _ in range(STEPS):
        chances = expit(coefficients @ design.T)  # (fits, items): probability of a hit
        # First and negative second derivative of the penalized log-likelihood: (fits, 2) and (fits,
        # 2, 2).
        gradient = (weights * (hits - chances)) @ design - RIDGE * coefficients
        variances = weights * chances * (1 - chances)
        curvature = np.einsum(
            "fi,ia,ib->fab", variances, design, design
        ) + RIDGE * np.eye(2)
        step = np.linalg.solve(curvature, gradient[..., None])[..., 0]
        coefficients += np.clip(step, -MAX_STEP, MAX_STEP)
    return coefficients


def measure_plausibility(
    scores: Mapping[tuple[str, str], ScoredPairs],
    language_model: str,
    filters: Mapping[str, Sequence[str]],
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return acc_r at equal likelihood of caption and foil, for each model on each data set and on
    all together.

    Args:
        scores: Scored items by model and data set; the language model's score is the mean
            log-likelihood of a token.
        language_model: Name of the model whose log-likelihoods are compared.
        filters: Filters of each data set's foils, by data set; none where they are not known, as of
            released files.
        resampling: Resampling of images.
    Returns:
        In percent: acc_r; `acc_r at equal likelihood`, from a logistic regression of its hits on
        the difference of the log-likelihoods; `acc_r matched`, over the third of the items with the
        smallest differences. The language model itself has only acc_r, with the filters as level,
        and the mean difference in nats a token.
    """
    # Difference of log-likelihoods of each item, by data set.
    differences_of: dict[str, dict[str, float]] = {}
    for (model, dataset), scored in scores.items():
        if model == language_model:
            differences_of[dataset] = dict(
                zip(scored.items, scored.caption - scored.foil, strict=True)
            )

    # Of each data set, then of all together: scenes are pooled by name, so that one scene is one
    # cluster.
    rows: list[MeasurementRecord] = []
    judged_of: dict[str, list[JudgedItems]] = {}
    for (model, dataset), scored in scores.items():
        # Data sets that the language model did not score have no likelihoods to compare.
        if dataset not in differences_of:
            continue
        judged = _judge_items(scored, differences_of[dataset])
        judged_of.setdefault(model, []).append(judged)
        if model == language_model:
            rows += _build_language_model_rows(
                judged, model, dataset, filters.get(dataset), resampling
            )
        else:
            rows += _build_rows(judged, model, dataset, resampling)

    for model, parts in judged_of.items():
        pooled = _join_items(parts)
        if model == language_model:
            acc_r = pooled.average_hits(f"{MEASUREMENT}:{ALL}", resampling)
            rows.append(
                build_row(MEASUREMENT, "acc_r", acc_r, model=model, dataset=ALL)
            )
        else:
            rows += _build_rows(pooled, model, ALL, resampling)
    return rows


def _join_items(parts: Sequence[JudgedItems]) -> JudgedItems:
    """Return the items of several data sets, one after the other."""
    clusters: list[str] = []
    for part in parts:
        clusters += part.clusters
    differences = np.concatenate([part.differences for part in parts])
    return JudgedItems(
        differences, np.concatenate([part.hits for part in parts]), clusters
    )


def _judge_items(scored: ScoredPairs, differences: Mapping[str, float]) -> JudgedItems:
    """Return the items that have a difference of log-likelihoods, with the hits of a model."""
    positions = [
        position for position, item in enumerate(scored.items) if item in differences
    ]
    judged = scored.take(positions)
    return JudgedItems(
        np.array([differences[item] for item in judged.items]),
        compute_hits(judged, "acc_r"),
        [identify_scene(image) for image in judged.images],
    )


def measure_equal_likelihood(
    judged: JudgedItems, label: str, resampling: Resampling
) -> Measure:
    """Return the percent of hits that a logistic regression predicts for a difference of 0.

    If all items are hits, or none is, the measure is their share without a fit. If fewer than
    `MIN_ITEMS` differences lie on one side of 0, the measure is undefined, with a reason.
    """
    hits = judged.hits
    captions = int((judged.differences > 0).sum())
    foils = int((judged.differences < 0).sum())
    # A regression says nothing of a difference of 0 if nearly all differences have one sign.
    if min(captions, foils) < MIN_ITEMS:
        reason = f"{captions} captions and {foils} foils are the likelier text; {MIN_ITEMS} of each are needed"
        return Measure(None, len(hits), reason=reason)
    # The log-odds of a share of 0 or 1 are infinite, and no line can be fitted.
    if len(set(hits.tolist())) == 1:
        return judged.average_hits(label, resampling)

    draws = resample(
        judged.clusters,
        resamples=resampling.resamples,
        seed=resampling.seed,
        label=label,
    )
    # Row 0 fits all items, each further row one resample: (1 + resamples, items).
    weights = np.concatenate([np.ones((1, len(hits))), draws.count_items()])
    intercepts = fit_logistic(judged.differences, hits, weights)[:, 0]
    # At a difference of 0 the log-odds are the intercept.
    shares = 100 * expit(intercepts)
    return build_measure(
        float(shares[0]), len(hits), shares[1:], resampling, draws.clusters, PERCENT
    )


def _build_rows(
    judged: JudgedItems, model: str, dataset: str, resampling: Resampling
) -> list[MeasurementRecord]:
    """Return the rows of a model on one data set, or on all together."""
    label = f"{MEASUREMENT}:{dataset}"
    # The third of the items whose two texts the language model finds most alike.
    n_matched = int(np.ceil(MATCHED_SHARE * len(judged.hits)))
    nearest = np.argsort(np.abs(judged.differences), kind="stable")[:n_matched]
    matched = judged.take(nearest)
    measures = {
        "acc_r": judged.average_hits(label, resampling),
        "acc_r at equal likelihood": measure_equal_likelihood(
            judged, label, resampling
        ),
        "acc_r matched": matched.average_hits(label, resampling),
    }
    return [
        build_row(MEASUREMENT, quantity, measure, model=model, dataset=dataset)
        for quantity, measure in measures.items()
    ]


def _build_language_model_rows(
    judged: JudgedItems,
    model: str,
    dataset: str,
    filters: Sequence[str] | None,
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return the rows of the language model on one data set, with the filters of its foils as
    level.
    """
    label = f"{MEASUREMENT}:{dataset}"
    factor, level = "", ""
    if filters is not None:
        factor, level = "filters", ", ".join(filters) or "none"
    measures = {
        "acc_r": judged.average_hits(label, resampling),
        "difference": average(
            judged.differences.tolist(), judged.clusters, label, resampling
        ),
    }
    return [
        build_row(
            MEASUREMENT, quantity, measure, factor, level, model=model, dataset=dataset
        )
        for quantity, measure in measures.items()
    ]
