"""Perceptual score: drop of accuracy when one modality is permuted among the items (Gat et al. 2021)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from waltz.core.intervals import PERCENT, Measure, Resampling, bootstrap_means, compute_interval
from waltz.core.sampling import rank

Credit = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Credit of each of n items, 0 to 1, under its own label, with the text of one item and the image of another: from two
int64 of shape (n,), places of the items that lend text and image, to float64 of shape (n,)."""


@dataclass(frozen=True)
class PerceptualScore:
    """Dependence of a model's accuracy on one modality.

    Attributes:
        accuracy: In percent, on the items as they are.
        drop: Accuracy minus its mean over the permutations, in percentage points.
        by_model: The drop in percent of the accuracy: the model-normalised score.
        by_task: The drop in percent of the error of the majority label: the task-normalised score.
        permuted: Accuracy of each permutation, in percent.
        spread: Standard deviation of the score `drop` over the permutations, in percentage points; None for one.
    """

    accuracy: Measure
    drop: Measure
    by_model: Measure
    by_task: Measure
    permuted: tuple[float, ...]
    spread: float | None


def compute_perceptual_score(
    credit: Credit,
    item_ids: Sequence[str],
    images: Sequence[str],
    modality: str,
    repeats: int,
    majority: float | None,
    how: Resampling,
) -> PerceptualScore:
    """Compute the perceptual score of one modality.

    Args:
        credit: Credit of the model; from `build_ranking_credit` or `build_matching_credit`.
        item_ids: The items, each once.
        images: Image of each item; intervals draw images.
        modality: The permuted modality: `text` or `image`.
        repeats: Number of permutations, at least 1; the score is the mean drop over them.
        majority: Accuracy of always giving the commonest label, a share; None where there are no labels.
        how: Resamples, coverage, seed; the seed also draws the permutations.
    Raises:
        ValueError: There are no items, no permutation, an unknown modality, or an id repeats.
    Source:
        Gat, Schwartz & Schwing (NeurIPS 2021), equation 2; thesis 4.4.5.
    """
    if modality not in ("text", "image") or repeats < 1 or not item_ids:
        raise ValueError(f"cannot deal {modality!r} of {len(item_ids)} items {repeats} times")
    own = np.arange(len(item_ids))
    donors = draw_donors(item_ids, repeats, how.seed)
    correct = 100 * np.asarray(credit(own, own), dtype=np.float64)
    permuted = 100 * np.array([credit(donor, own) if modality == "text" else credit(own, donor) for donor in donors])
    losses = correct - permuted.mean(axis=0)
    # One label gives accuracy and drop the same draws of images, as their quotient needs.
    draws = [
        bootstrap_means(values.tolist(), images, resamples=how.resamples, seed=how.seed, label=f"perceptual:{modality}")
        for values in (correct, losses)
    ]
    accuracy, drop = float(correct.mean()), float(losses.mean())
    n, clusters = len(item_ids), len(set(images))
    loss = Measure(drop, n, *compute_interval(draws[1], how.confidence, clusters, (-100.0, 100.0)))
    return PerceptualScore(
        Measure(accuracy, n, *compute_interval(draws[0], how.confidence, clusters, PERCENT)),
        loss,
        _normalize_by_model(accuracy, drop, n, draws, clusters, how),
        _normalize_by_task(loss, majority),
        tuple(permuted.mean(axis=1).tolist()),
        float(permuted.mean(axis=1).std(ddof=1)) if repeats > 1 else None,
    )


def draw_donors(item_ids: Sequence[str], repeats: int, seed: int) -> np.ndarray:
    """Draw uniform permutations of one modality that depend on the items' ids, not on their order.

    An item may keep its own modality, as in any permutation.

    Returns:
        int64 of shape (repeats, n): the place of the item whose modality each item receives.
    Raises:
        ValueError: An id repeats.
    """
    if len(set(item_ids)) != len(item_ids):
        raise ValueError("item ids repeat")
    by_name = sorted(range(len(item_ids)), key=item_ids.__getitem__)
    donors = np.empty((repeats, len(item_ids)), dtype=np.int64)
    for repeat in range(repeats):
        ranks = {place: (rank(f"{repeat}:{item_ids[place]}", seed), item_ids[place]) for place in by_name}
        donors[repeat, by_name] = sorted(by_name, key=ranks.__getitem__)
    return donors


def build_ranking_credit(
    scores: np.ndarray, images: np.ndarray, captions: np.ndarray, foils: np.ndarray, item_ids: Sequence[str], seed: int
) -> Credit:
    """Return the credit of a model that chooses the caption among two texts; a tie earns nothing.

    An item's label is the place of its caption, drawn by seed and id; texts of another item keep their own places, so
    that a model that uses the text alone is correct half of the time once texts are permuted.

    Args:
        scores: float64 of shape (images, texts): every image with every text.
        images: int64 of shape (n,): row of each item's image.
        captions: int64 of shape (n,): column of each item's caption.
        foils: The same for its foil.
        item_ids: The items.
        seed: Seed of the places.
    """
    first = np.array([rank(f"first:{item_id}", seed) % 2 == 0 for item_id in item_ids])

    def credit(texts: np.ndarray, lenders: np.ndarray) -> np.ndarray:
        caption, foil = (scores[images[lenders], columns[texts]] for columns in (captions, foils))
        chooses_first = (caption > foil) == first[texts]
        earned: np.ndarray = ((chooses_first == first) & (caption != foil)).astype(np.float64)
        return earned

    return credit


def build_matching_credit(
    scores: np.ndarray, images: np.ndarray, texts: np.ndarray, match: np.ndarray, threshold: float
) -> Credit:
    """Return the credit of a model that predicts a match of text and image where the score reaches the threshold.

    Args:
        scores: float64 of shape (images, texts): every image with every text.
        images: int64 of shape (n,): row of each item's image.
        texts: int64 of shape (n,): column of each item's text.
        match: bool of shape (n,): whether they match.
        threshold: 0 for logits, 0.5 for probabilities.
    """

    def credit(readers: np.ndarray, lenders: np.ndarray) -> np.ndarray:
        earned: np.ndarray = ((scores[images[lenders], texts[readers]] >= threshold) == match).astype(np.float64)
        return earned

    return credit


def _normalize_by_model(
    accuracy: float, drop: float, n: int, draws: Sequence[np.ndarray], clusters: int, how: Resampling
) -> Measure:
    if not accuracy:
        return Measure(None, n, reason="no item is right: there is no accuracy to lose")
    shares = 100 * np.divide(draws[1], draws[0], out=np.full_like(draws[0], np.nan), where=draws[0] > 0)
    bounds = (100 * (accuracy - 100) / accuracy, 100.0)
    return Measure(100 * drop / accuracy, n, *compute_interval(shares, how.confidence, clusters, bounds))


def _normalize_by_task(drop: Measure, majority: float | None) -> Measure:
    if majority is None:
        return Measure(None, drop.n, reason="the accuracy of the commonest label is not known")
    if majority >= 1:
        return Measure(None, drop.n, reason="all items have one label")
    value, low, high = (
        None if end is None else end / (1 - majority) for end in (drop.value, drop.ci_low, drop.ci_high)
    )
    return Measure(value, drop.n, low, high)
