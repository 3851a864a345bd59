"""EMAP and perceptual score of one encoder on one data set, from its scores of every image with every text."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow.parquet as pq
import torch
from PIL import Image

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.group_files import DatasetFiles
from waltz.core.intervals import PERCENT, Measure, Resampling, bootstrap_means, compute_interval, compute_mean
from waltz.core.job_records import show_progress
from waltz.core.sampling import rank
from waltz.core.schema import BENCHMARK
from waltz.evaluation.items import list_texts, select_items
from waltz.models.encoders.encoder import Encoder, States
from waltz.sources.images import load_image, open_images

MODALITIES = ("text", "image")
COMPANION_METRICS = ("emap", "emap_model", "emap_interaction", *(f"perceptual_{modality}" for modality in MODALITIES))


def compute_companion_measures(
    encoder: Encoder,
    items: Sequence[Mapping[str, Any]],
    load: Callable[[str], Image.Image],
    repeats: int,
    how: Resampling,
) -> list[dict[str, Any]]:
    """Compute rows of metric and the fields of a measure, for the ranking of caption above foil.

    Items without a readable image are skipped and do not count in n.

    - emap, emap_model: accuracy of the additive projection, and of the model on the same items, in percent;
      emap_interaction: the share of the scores' variance that the projection misses, 0 to 1.
    - perceptual_text, perceptual_image: accuracy lost when that modality is permuted, in percentage points.

    Args:
        encoder: A loaded encoder.
        items: Rows of the benchmark with caption and foil.
        load: From the name of an image to the image.
        repeats: Number of permutations of one modality.
        how: Resamples, coverage, seed.
    """
    readable_images = {name: _can_open(load, name) for name in dict.fromkeys(str(item["image"]) for item in items)}
    items = [item for item in items if readable_images[str(item["image"])]]
    if not items:
        reason = "no image of its items can be had"
        return [{"metric": metric, **vars(Measure(None, 0, reason=reason))} for metric in COMPANION_METRICS]
    names = [name for name, readable in readable_images.items() if readable]
    pairs = [[text for _, text in list_texts(item)] for item in items]
    columns = list(dict.fromkeys(text for pair in pairs for text in pair))
    scores = compute_score_matrix(encoder, map(load, names), columns)
    images = np.array([names.index(str(item["image"])) for item in items])
    captions, foils = (np.array([columns.index(pair[side]) for pair in pairs]) for side in (0, 1))
    ids = [str(item["item_id"]) for item in items]
    emap = compute_ranking_emap(scores, images, captions, foils, how)
    interaction = Measure(emap.interaction, len(items))
    if np.isnan(emap.interaction):
        interaction = Measure(None, len(items), reason="all scores are equal")
    measures = {"emap": emap.projection, "emap_model": emap.model, "emap_interaction": interaction}
    credit = build_ranking_credit(scores, images, captions, foils, ids, how.seed)
    item_images = [str(item["image"]) for item in items]
    for modality in MODALITIES:
        score = compute_perceptual_score(credit, ids, item_images, modality, repeats, 0.5, how)
        measures[f"perceptual_{modality}"] = score.drop
    return [{"metric": metric, **vars(measure)} for metric, measure in measures.items()]


def _can_open(load: Callable[[str], Image.Image], name: str) -> bool:
    try:
        load(name)
    except UserError:
        return False
    return True


def compute_companions(
    encoder: Encoder,
    datasets: Iterable[DatasetFiles],
    *,
    scored: str,
    sample: int,
    repeats: int,
    seed: int,
    resampling: Resampling,
) -> list[dict[str, Any]]:
    """Return the companion measures of one encoder on data sets of captions and foils, as rows of the metrics layout.

    Args:
        encoder: The encoder.
        datasets: Files of the data sets; CV-Probes has none of these measures.
        scored: `valid` or `all` items.
        sample: Number of items a data set.
        repeats: Number of permutations of one modality.
        seed: Seed of the sample.
        resampling: How intervals are computed.
    """
    rows: list[dict[str, Any]] = []
    pairs = [dataset for dataset in datasets if "condition" not in pq.read_schema(dataset.rows).names]
    with show_progress(len(pairs), "data set", encoder.spec.name) as bar:
        for dataset in pairs:
            items = select_items(parquet.read(dataset.rows, BENCHMARK), scored, sample, seed).to_pylist()
            with open_images(dataset.images) as images:
                measures = compute_companion_measures(encoder, items, partial(load_image, images), repeats, resampling)
            run = {"model": encoder.spec.name, "dataset": dataset.name, "profile": "equations", "setting": "pairs"}
            rows += [{**run, **measure} for measure in measures]
            bar.update(1)
    return rows


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


Row = TypeVar("Row")


@torch.inference_mode()
def compute_score_matrix(encoder: Encoder, images: Iterable[Image.Image], texts: Sequence[str]) -> np.ndarray:
    """Compute the logit of each image with each text.

    Each image and each text is encoded once. Each pair then takes one `fuse`; for late fusion this is a dot product,
    and the whole result a matrix product.

    Args:
        encoder: A loaded encoder.
        images: RGB images; read one batch at a time, so a generator is possible.
        texts: Texts.
    Returns:
        float64 of shape (images, texts).
    Raises:
        UserError: A text is longer than the encoder reads.
    """
    encoded_texts = _encode_texts(encoder, texts)
    rows = []
    for batch in _split_into_batches(images, encoder.images_per_batch):
        states = encoder.encode_image(torch.stack([encoder.prepare_image(image) for image in batch]))
        for place in range(len(batch)):
            image_states = tuple(part[place : place + 1] for part in states)
            row = np.empty(len(texts))
            for columns, text_states in encoded_texts:
                row[columns] = _fuse_texts(encoder, text_states, image_states, len(columns))
            rows.append(row)
    return np.array(rows).reshape(len(rows), len(texts))


def _encode_texts(encoder: Encoder, texts: Sequence[str]) -> list[tuple[list[int], States]]:
    """Return the encoded texts with their places, grouped by length."""
    ids = [encoder.tokenize(text).ids for text in texts]
    by_length: dict[int, list[int]] = {}
    for place, text_ids in enumerate(ids):
        by_length.setdefault(len(text_ids), []).append(place)
    encoded_texts = []
    for places in by_length.values():
        batches = [
            encoder.encode_text(torch.tensor([ids[place] for place in batch], device=encoder.device))
            for batch in _split_into_batches(places, encoder.texts_per_batch)
        ]
        encoded_texts.append((places, _concatenate(batches)))
    if encoder.late and encoded_texts:
        return [
            (
                [place for places, _ in encoded_texts for place in places],
                _concatenate([states for _, states in encoded_texts]),
            )
        ]
    return encoded_texts


def _fuse_texts(encoder: Encoder, text_states: States, image_states: States, count: int) -> np.ndarray:
    """Compute the logits of one image with texts of one length."""
    logits = []
    for first in range(0, count, encoder.pairs_per_batch):
        text = tuple(part[first : first + encoder.pairs_per_batch] for part in text_states)
        image = tuple(part.expand(len(text[0]), *part.shape[1:]) for part in image_states)
        logits.append(encoder.fuse(text, image).double().cpu().numpy())
    return np.concatenate(logits)


def _concatenate(parts: Sequence[States]) -> States:
    return tuple(torch.cat(pieces) for pieces in zip(*parts, strict=True))


def _split_into_batches(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    batch: list[Row] = []
    for row in rows:
        batch.append(row)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
