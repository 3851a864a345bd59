"""EMAP: accuracy of a model without interactions of image and text (Hessel & Lee 2020)."""

from dataclasses import dataclass

import numpy as np

from waltz.core.intervals import Measure, Resampling, compute_mean


@dataclass(frozen=True)
class Emap:
    """Accuracy of a model and of its projection on functions of the text plus functions of the image.

    Attributes:
        model: Accuracy of the model, in percent.
        projection: Accuracy of the projection on the same items, in percent.
        interaction: Share of the scores' variance over all pairs that the projection misses, 0 to 1; NaN where the
            scores are constant.
    """

    model: Measure
    projection: Measure
    interaction: float


def compute_additive_projection(scores: np.ndarray, image_weights: np.ndarray, text_weights: np.ndarray) -> np.ndarray:
    """Compute the sum of an image function and a text function that is nearest to the scores of all pairs.

    Args:
        scores: float64 of shape (images, texts): every image with every text.
        image_weights: float64 of shape (images,): relative frequency of each image in the data set; sums to 1.
        text_weights: float64 of shape (texts,): the same for texts.
    Returns:
        float64 of shape (images, texts): mean of the row plus mean of the column minus the mean of all.
    Source:
        Hessel & Lee (EMNLP 2020).
    """
    image_means, text_means = scores @ text_weights, image_weights @ scores
    additive: np.ndarray = image_means[:, None] + text_means[None, :] - image_weights @ image_means
    return additive


def compute_ranking_emap(
    scores: np.ndarray, images: np.ndarray, captions: np.ndarray, foils: np.ndarray, how: Resampling
) -> Emap:
    """Compute EMAP of pairwise ranking (acc_r): a caption has to score above its foil, a tie is wrong.

    Caption and foil share their image, so the projection ranks them by the text alone: its accuracy is what is
    possible without the image.

    Args:
        scores: float64 of shape (images, texts): every image with every text.
        images: int64 of shape (n,): row of each item's image.
        captions: int64 of shape (n,): column of each item's caption.
        foils: The same for its foil.
        how: Resamples, coverage, seed.
    """
    additive, interaction = _project(scores, images, np.concatenate([captions, foils]))
    hits = [
        score_table[images, captions] - score_table[images, foils] > tolerance
        for score_table, tolerance in ((scores, 0.0), (additive, _compute_tolerance(scores)))
    ]
    return _build_emap(hits, images, interaction, how)


def compute_matching_emap(
    scores: np.ndarray, images: np.ndarray, texts: np.ndarray, match: np.ndarray, threshold: float, how: Resampling
) -> Emap:
    """Compute EMAP of alignment: a text matches an image if its score is at least the threshold.

    Args:
        scores: float64 of shape (images, texts): every image with every text.
        images: int64 of shape (n,): row of each item's image.
        texts: int64 of shape (n,): column of each item's text.
        match: bool of shape (n,): whether they match.
        threshold: 0 for logits, 0.5 for probabilities.
        how: Resamples, coverage, seed.
    """
    additive, interaction = _project(scores, images, texts)
    hits = [
        (score_table[images, texts] >= threshold - tolerance) == match
        for score_table, tolerance in ((scores, 0.0), (additive, _compute_tolerance(scores)))
    ]
    return _build_emap(hits, images, interaction, how)


def _project(scores: np.ndarray, images: np.ndarray, texts: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the projection and the share of variance that it misses."""
    rows, columns = (
        np.bincount(places, minlength=size) / len(places)
        for places, size in zip((images, texts), scores.shape, strict=True)
    )
    additive = compute_additive_projection(scores, rows, columns)
    mean = rows @ scores @ columns
    variance = rows @ (scores - mean) ** 2 @ columns
    residual_variance = rows @ (scores - additive) ** 2 @ columns
    constant = variance <= _compute_tolerance(scores) ** 2
    return additive, float("nan") if constant else float(residual_variance / variance)


def _compute_tolerance(scores: np.ndarray) -> float:
    """Return the rounding error allowed between equal means, so that equal texts tie in the projection too."""
    return float(1e-12 * np.abs(scores).max())


def _build_emap(hits: list[np.ndarray], images: np.ndarray, interaction: float, how: Resampling) -> Emap:
    clusters = [str(image) for image in images]
    own, projected = (compute_mean((100.0 * right).tolist(), clusters, "emap", how) for right in hits)
    return Emap(own, projected, interaction)
