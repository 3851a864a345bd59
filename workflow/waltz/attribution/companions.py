"""EMAP and perceptual score of one encoder on one data set, from its scores of every image with every text."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import torch
from PIL import Image

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.group_files import DatasetFiles
from waltz.core.intervals import Measure, Resampling, compute_mean
from waltz.core.job_records import show_progress
from waltz.core.sampling import rank
from waltz.core.schema import BENCHMARK
from waltz.evaluation.items import list_texts, select_items
from waltz.models.encoders.coalitions import join_states
from waltz.models.encoders.encoder import Encoder, States
from waltz.sources.images import load_image, open_images

T = TypeVar("T")
METRICS = ("emap", "emap_model", "emap_interaction", "perceptual_text", "perceptual_image")
Credit = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Credit of each of n items, 0 to 1, under its own label, with the text of one item and the image of another: from two
int64 of shape (n,), positions of the items that lend text and image, to float64 of shape (n,)."""


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
        datasets: Files of the data sets; CV-Probes has none of these measures.
        scored: `valid` or `all` items.
        sample: Number of items a data set.
        repeats: Number of permutations of one modality.
    """
    rows: list[dict[str, Any]] = []
    pairs = [dataset for dataset in datasets if "condition" not in parquet.read_schema(dataset.rows).names]
    with show_progress(len(pairs), "data set", encoder.spec.name) as bar:
        for dataset in pairs:
            items = select_items(parquet.read(dataset.rows, BENCHMARK), scored, sample, seed).to_pylist()
            with open_images(dataset.images) as images:
                measures = compute_companion_measures(encoder, items, partial(load_image, images), repeats, resampling)
            run = {"model": encoder.spec.name, "dataset": dataset.name, "profile": "equations", "setting": "pairs"}
            rows += [{**run, **measure} for measure in measures]
            bar.update(1)
    return rows


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
    """
    readable_images = {name: _can_open(load, name) for name in dict.fromkeys(str(item["image"]) for item in items)}
    items = [item for item in items if readable_images[str(item["image"])]]
    if not items:
        reason = "no image of its items can be had"
        return [{"metric": metric, **vars(Measure(None, 0, reason=reason))} for metric in METRICS]
    names = [name for name, readable in readable_images.items() if readable]
    pairs = [[text for _, text in list_texts(item)] for item in items]
    columns = list(dict.fromkeys(text for pair in pairs for text in pair))
    scores = compute_score_matrix(encoder, map(load, names), columns)
    item_images = [str(item["image"]) for item in items]
    images = np.array([names.index(name) for name in item_images])
    captions, foils = (np.array([columns.index(pair[side]) for pair in pairs]) for side in (0, 1))
    ids = [str(item["item_id"]) for item in items]
    emap = compute_ranking_emap(scores, images, captions, foils, how)
    interaction = Measure(emap.interaction, len(items))
    if np.isnan(emap.interaction):
        interaction = Measure(None, len(items), reason="all scores are equal")
    credit = build_ranking_credit(scores, images, captions, foils, ids, how.seed)
    drops = [
        compute_perceptual_score(credit, ids, item_images, modality, repeats, how) for modality in ("text", "image")
    ]
    measures = (emap.projection, emap.model, interaction, *drops)
    return [{"metric": metric, **vars(measure)} for metric, measure in zip(METRICS, measures, strict=True)]


def _can_open(load: Callable[[str], Image.Image], name: str) -> bool:
    try:
        load(name)
    except UserError:
        return False
    return True


@torch.inference_mode()
def compute_score_matrix(encoder: Encoder, images: Iterable[Image.Image], texts: Sequence[str]) -> np.ndarray:
    """Compute the logit of each image with each text: float64 of shape (images, texts).

    Each image and each text is encoded once. Each pair then takes one `fuse`; for late fusion this is a dot product,
    and the whole result a matrix product.

    Args:
        images: RGB images; read one batch at a time, so a generator is possible.
    Raises:
        UserError: A text is longer than the encoder reads.
    """
    encoded_texts = _encode_texts(encoder, texts)
    rows = []
    for batch in _split_into_batches(images, encoder.images_per_batch):
        states = encoder.encode_image(torch.stack([encoder.prepare_image(image) for image in batch]))
        for position in range(len(batch)):
            image_states = tuple(part[position : position + 1] for part in states)
            row = np.empty(len(texts))
            for columns, text_states in encoded_texts:
                row[columns] = _fuse_texts(encoder, text_states, image_states, len(columns))
            rows.append(row)
    return np.array(rows).reshape(len(rows), len(texts))


def _encode_texts(encoder: Encoder, texts: Sequence[str]) -> list[tuple[list[int], States]]:
    """Return the encoded texts with their positions, grouped by length, or all together for late fusion."""
    ids = [encoder.tokenize(text).ids for text in texts]
    by_length: dict[int, list[int]] = {}
    for position, text_ids in enumerate(ids):
        by_length.setdefault(len(text_ids), []).append(position)
    encoded_texts = []
    for positions in by_length.values():
        batches = [
            encoder.encode_text(torch.tensor([ids[position] for position in batch], device=encoder.device))
            for batch in _split_into_batches(positions, encoder.texts_per_batch)
        ]
        encoded_texts.append((positions, join_states(batches)))
    if encoder.late and encoded_texts:
        all_positions = [position for positions, _ in encoded_texts for position in positions]
        return [(all_positions, join_states([states for _, states in encoded_texts]))]
    return encoded_texts


def _fuse_texts(encoder: Encoder, text_states: States, image_states: States, count: int) -> np.ndarray:
    """Compute the logits of one image with texts of one length."""
    logits = []
    for first in range(0, count, encoder.pairs_per_batch):
        text = tuple(part[first : first + encoder.pairs_per_batch] for part in text_states)
        image = tuple(part.expand(len(text[0]), *part.shape[1:]) for part in image_states)
        logits.append(encoder.fuse(text, image).double().cpu().numpy())
    return np.concatenate(logits)


def _split_into_batches(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(rows)
    while batch := list(islice(iterator, size)):
        yield batch


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
    Source:
        Hessel & Lee (EMNLP 2020).
    """
    texts = np.concatenate([captions, foils])
    rows, columns = (
        np.bincount(positions, minlength=size) / len(positions)
        for positions, size in zip((images, texts), scores.shape, strict=True)
    )
    additive = compute_additive_projection(scores, rows, columns)
    # means that are equal but for rounding tie, so that equal texts tie in the projection too
    tolerance = float(1e-12 * np.abs(scores).max())
    clusters = [str(image) for image in images]
    model, projection = (
        compute_mean((100.0 * (table[images, captions] - table[images, foils] > least)).tolist(), clusters, "emap", how)
        for table, least in ((scores, 0.0), (additive, tolerance))
    )
    mean = rows @ scores @ columns
    variance = rows @ (scores - mean) ** 2 @ columns
    residual_variance = rows @ (scores - additive) ** 2 @ columns
    interaction = float("nan") if variance <= tolerance**2 else float(residual_variance / variance)
    return Emap(model, projection, interaction)


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


def compute_perceptual_score(
    credit: Credit, item_ids: Sequence[str], images: Sequence[str], modality: str, repeats: int, how: Resampling
) -> Measure:
    """Compute the perceptual score: accuracy minus its mean over permutations of one modality, in percentage points.

    Args:
        credit: Credit of the model, from `build_ranking_credit`.
        item_ids: The items, each once.
        images: Image of each item; intervals draw images.
        modality: The permuted modality: `text` or `image`.
        repeats: Number of permutations.
        how: Resamples, coverage, seed; the seed also draws the permutations.
    Source:
        Gat, Schwartz & Schwing (NeurIPS 2021), equation 2; thesis 4.4.5.
    """
    own = np.arange(len(item_ids))
    donors = draw_donors(item_ids, repeats, how.seed)
    correct = 100 * np.asarray(credit(own, own), dtype=np.float64)
    permuted = 100 * np.array([credit(donor, own) if modality == "text" else credit(own, donor) for donor in donors])
    losses = correct - permuted.mean(axis=0)
    return compute_mean(losses.tolist(), images, f"perceptual:{modality}", how, (-100.0, 100.0))


def draw_donors(item_ids: Sequence[str], repeats: int, seed: int) -> np.ndarray:
    """Draw uniform permutations of one modality that depend on the items' ids, not on their order.

    An item may keep its own modality, as in any permutation.

    Returns:
        int64 of shape (repeats, n): the position of the item whose modality each item receives.
    """
    by_name = sorted(range(len(item_ids)), key=item_ids.__getitem__)
    donors = np.empty((repeats, len(item_ids)), dtype=np.int64)
    for repeat in range(repeats):
        ranks = {position: (rank(f"{repeat}:{item_ids[position]}", seed), item_ids[position]) for position in by_name}
        donors[repeat, by_name] = sorted(by_name, key=ranks.__getitem__)
    return donors


def build_ranking_credit(
    scores: np.ndarray, images: np.ndarray, captions: np.ndarray, foils: np.ndarray, item_ids: Sequence[str], seed: int
) -> Credit:
    """Return the credit of a model that chooses the caption among two texts; a tie earns nothing.

    An item's label is the place of its caption, drawn by seed and id; texts of another item keep their own places, so
    that a model that uses the text alone is correct half of the time once texts are permuted. Scores, images, captions
    and foils are those of `compute_ranking_emap`.
    """
    first = np.array([rank(f"first:{item_id}", seed) % 2 == 0 for item_id in item_ids])

    def credit(texts: np.ndarray, lenders: np.ndarray) -> np.ndarray:
        caption, foil = (scores[images[lenders], columns[texts]] for columns in (captions, foils))
        chooses_first = (caption > foil) == first[texts]
        earned: np.ndarray = ((chooses_first == first) & (caption != foil)).astype(np.float64)
        return earned

    return credit
