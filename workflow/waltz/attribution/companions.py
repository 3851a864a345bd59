"""EMAP and perceptual score of one encoder on one data set, from its scores of every image with
every text.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TypeVar

import numpy as np
import pandas as pd
import torch
from PIL import Image

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.group_files import DatasetFiles
from waltz.core.intervals import Resampling, compute_mean
from waltz.core.jobs.records import show_progress
from waltz.core.measure import Measure
from waltz.core.records import read_records
from waltz.core.rounding import compute_ranking_credit
from waltz.core.sampling import rank
from waltz.core.schema import ItemRecord, MetricRecord
from waltz.evaluation.items import list_texts, select_items
from waltz.fidelity import EQUATIONS
from waltz.models.batches import transfer_together
from waltz.models.encoders.coalitions import join_states
from waltz.models.encoders.encoder import Encoder, States
from waltz.sources.images import load_image, open_images

T = TypeVar("T")
METRICS = (
    "emap",
    "emap_model",
    "emap_interaction",
    "perceptual_text",
    "perceptual_image",
)
"""Names of the companion measures."""
Credit = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Function that returns the credit of each of n items, 0 to 1, after its text and image were
exchanged.

It takes two arrays, int64 of shape (n,): the positions of the items that lend each item their text,
and their image. Each item keeps its label. It returns float64 of shape (n,).
"""


@dataclass(frozen=True)
class Emap:
    """Compare the accuracy of a model with its best additive approximation: a text function plus an
    image function.

    Attributes:
        model: Accuracy of the model, in percent.
        projection: Accuracy of the projection on the same items, in percent.
        interaction: Share of the variance of the scores of all pairs that the projection does not
            explain, 0 to 1; NaN where the scores are constant.
    """

    model: Measure
    projection: Measure
    interaction: float


@dataclass(frozen=True, eq=False)
class Ranking:
    """Hold an encoder's scores of all images with all texts, and the items whose caption and foil
    are ranked by them.

    Attributes:
        scores: float64 of shape (images, texts): every image with every text.
        images: int64 of shape (n,): row of each item's image.
        captions: int64 of shape (n,): column of each item's caption.
        foils: int64 of shape (n,): column of each item's foil.
        dtype: Precision of the encoder.
    """

    scores: np.ndarray
    images: np.ndarray
    captions: np.ndarray
    foils: np.ndarray
    dtype: str = "float32"

    def compute_credit(self, scores: np.ndarray) -> np.ndarray:
        """Return the credit of each item: 1 if its caption scores above its foil, 0.5 if both tie,
        else 0.

        Args:
            scores: float64 of shape (images, texts): the encoder's scores, or scores that take
                their place.
        """
        credit: np.ndarray = compute_ranking_credit(
            scores[self.images, self.captions],
            scores[self.images, self.foils],
            self.dtype,
        )
        return credit


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanionSettings:
    """Hold the settings of the companion measures, as a study states them.

    Attributes:
        scored: Which items are scored: `valid` or `all`, as in `evaluation.items`.
        sample: Number of items of each data set.
        repeats: Number of permutations of one modality.
        seed: Seed of the samples.
    """

    scored: str
    sample: int
    repeats: int
    seed: int


def compute_encoder_companions(
    encoder: Encoder,
    datasets: Iterable[DatasetFiles],
    settings: CompanionSettings,
    resampling: Resampling,
) -> list[MetricRecord]:
    """Return the companion measures of one encoder on data sets of captions and foils.

    Args:
        datasets: Files of the data sets; CV-Probes is skipped, since it has none of these measures.
    """
    records: list[MetricRecord] = []
    # Only CV-Probes has a column `condition`.
    pair_datasets = [
        dataset
        for dataset in datasets
        if "condition" not in parquet.read_schema(dataset.rows).names
    ]
    with show_progress(len(pair_datasets), "data set", encoder.spec.name) as bar:
        for dataset in pair_datasets:
            benchmark = list(read_records(dataset.rows, ItemRecord))
            items = select_items(
                benchmark, settings.scored, settings.sample, settings.seed
            )
            with open_images(dataset.images) as images:
                measures = compute_companion_measures(
                    encoder,
                    items,
                    partial(load_image, images),
                    settings.repeats,
                    resampling,
                )
            for metric, measure in measures.items():
                records.append(
                    MetricRecord(
                        model=encoder.spec.name,
                        dataset=dataset.name,
                        profile=EQUATIONS.name,
                        setting="pairs",
                        metric=metric,
                        measure=measure,
                    )
                )
            bar.update(1)
    return records


def compute_companion_measures(
    encoder: Encoder,
    items: Sequence[ItemRecord],
    load: Callable[[str], Image.Image],
    repeats: int,
    resampling: Resampling,
) -> dict[str, Measure]:
    """Return how much the ranking of caption above foil depends on each modality, by metric.

    Items without a readable image, or with a text that the encoder cannot read, are skipped and do
    not count in n.

    - emap, emap_model: accuracy of the additive projection, and of the model on the same items, in percent;
      emap_interaction: the share of the scores' variance that the projection misses, 0 to 1.
    - perceptual_text, perceptual_image: accuracy lost when that modality is permuted, in percentage points.
    """
    image_names = dict.fromkeys(item.image for item in items)
    readable = {name for name in image_names if _can_read(load, name)}
    items = [item for item in items if item.image in readable]
    if not items:
        return _list_undefined("no image of its items can be had")
    items = [item for item in items if _can_read_texts(encoder, item)]
    if not items:
        return _list_undefined("no item has texts that the encoder reads")

    # Every distinct image is scored with every distinct text, as EMAP requires.
    item_images = [item.image for item in items]
    item_texts: list[str] = []
    for item in items:
        item_texts += [item.caption, item.foil]
    # Number of each item's image, (n,), and of its caption and foil, (n, 2), among the distinct
    # ones.
    images, names = pd.factorize(np.array(item_images, dtype=object))
    text_numbers, texts = pd.factorize(np.array(item_texts, dtype=object))
    captions, foils = text_numbers.reshape(-1, 2).T
    scores = compute_score_matrix(encoder, map(load, names), texts.tolist())
    ranking = Ranking(scores, images, captions, foils, encoder.spec.dtype)
    # EMAP: the accuracy that is left to the best sum of a function of the text and a function of
    # the image.
    emap = compute_ranking_emap(ranking, resampling)
    interaction = Measure(emap.interaction, len(items))
    if np.isnan(emap.interaction):
        interaction = Measure(None, len(items), reason="all scores are equal")
    # Perceptual score: the accuracy that is lost when the texts, or the images, are permuted among
    # the items.
    ids = [item.item_id for item in items]
    credit = build_ranking_credit(ranking, ids, resampling.seed)
    text_drop = compute_perceptual_score(
        credit, ids, item_images, "text", repeats, resampling
    )
    image_drop = compute_perceptual_score(
        credit, ids, item_images, "image", repeats, resampling
    )
    return {
        "emap": emap.projection,
        "emap_model": emap.model,
        "emap_interaction": interaction,
        "perceptual_text": text_drop,
        "perceptual_image": image_drop,
    }


def _list_undefined(reason: str) -> dict[str, Measure]:
    return dict.fromkeys(METRICS, Measure(None, 0, reason=reason))


def _can_read_texts(encoder: Encoder, item: ItemRecord) -> bool:
    return all(_can_read(encoder.tokenize, text) for _, text in list_texts(item))


def _can_read(read: Callable[[str], object], name: str) -> bool:
    try:
        read(name)
    except UserError:
        return False
    return True


@torch.inference_mode()
def compute_score_matrix(
    encoder: Encoder, images: Iterable[Image.Image], texts: Sequence[str]
) -> np.ndarray:
    """Compute the logit of each image with each text: float64 of shape (images, texts).

    Each image and each text is encoded once. Then `fuse` scores each pair; for encoders of late
    fusion it is a dot product.

    Args:
        images: RGB images. They are read one batch at a time, so that a generator needs little
            memory.
    Raises:
        UserError: A text is longer than the encoder reads.
    """
    encoded_texts = _encode_texts(encoder, texts)
    rows = []  # one for each image, float64 of shape (texts,)
    for batch in _split_into_batches(images, encoder.images_per_batch):
        states = encoder.encode_image(
            torch.stack([encoder.prepare_image(image) for image in batch])
        )
        for position in range(len(batch)):
            # One image meets all texts, which are grouped by length because texts are not padded.
            image_states = tuple(part[position : position + 1] for part in states)
            row = np.empty(len(texts))
            for columns, text_states in encoded_texts:
                row[columns] = _fuse_texts(
                    encoder, text_states, image_states, len(columns)
                )
            rows.append(row)
    return np.array(rows).reshape(len(rows), len(texts))


def _encode_texts(
    encoder: Encoder, texts: Sequence[str]
) -> list[tuple[list[int], States]]:
    """Return groups of encoded texts of one length, each with the positions of its texts; one group
    for late fusion.
    """
    ids = [encoder.tokenize(text).ids for text in texts]
    by_length: dict[int, list[int]] = defaultdict(list)
    for position, text_ids in enumerate(ids):
        by_length[len(text_ids)].append(position)
    encoded_texts = []
    for positions in by_length.values():
        states = []
        for batch in _split_into_batches(positions, encoder.texts_per_batch):
            batch_ids = torch.tensor(
                [ids[position] for position in batch], device=encoder.device
            )
            states.append(encoder.encode_text(batch_ids))
        encoded_texts.append((positions, join_states(states)))
    if not encoder.late or not encoded_texts:
        return encoded_texts
    # The vectors of late fusion all have one width, so that one product scores all texts.
    all_positions: list[int] = []
    for positions, _ in encoded_texts:
        all_positions += positions
    return [
        (all_positions, join_states([text_states for _, text_states in encoded_texts]))
    ]


def _fuse_texts(
    encoder: Encoder, text_states: States, image_states: States, count: int
) -> np.ndarray:
    """Return the logits of one image with texts of one length: float64 of shape (count,)."""
    logits = []
    for first in range(0, count, encoder.pairs_per_batch):
        text = tuple(
            part[first : first + encoder.pairs_per_batch] for part in text_states
        )
        image = tuple(
            part.expand(len(text[0]), *part.shape[1:]) for part in image_states
        )
        logits.append(encoder.fuse(text, image))
    return np.concatenate(transfer_together(logits))


def _split_into_batches(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(rows)
    while batch := list(islice(iterator, size)):
        yield batch


def compute_ranking_emap(ranking: Ranking, resampling: Resampling) -> Emap:
    """Return EMAP of pairwise ranking (acc_r), where a caption has to score above its foil, and a
    tie counts half.

    Caption and foil share their image, so that the projection ranks them by the text alone. The
    accuracy of the projection is therefore what the model reaches without the image.

    Source:
        Hessel & Lee (EMNLP 2020).
    """
    scores = ranking.scores
    n_images, n_texts = scores.shape
    texts = np.concatenate([ranking.captions, ranking.foils])
    # Relative frequency of each image and of each text in the data set; both arrays sum to 1.
    image_weights = np.bincount(ranking.images, minlength=n_images) / len(
        ranking.images
    )
    text_weights = np.bincount(texts, minlength=n_texts) / len(texts)
    additive = compute_additive_projection(scores, image_weights, text_weights)

    clusters = [str(image) for image in ranking.images]
    model_credit = 100.0 * ranking.compute_credit(scores)
    projection_credit = 100.0 * ranking.compute_credit(additive)
    model = compute_mean(model_credit.tolist(), clusters, "emap", resampling)
    projection = compute_mean(projection_credit.tolist(), clusters, "emap", resampling)

    mean = image_weights @ scores @ text_weights
    # Variance over all pairs, and the part of it that the projection does not explain.
    variance = image_weights @ (scores - mean) ** 2 @ text_weights
    residual_variance = image_weights @ (scores - additive) ** 2 @ text_weights
    # Scores that differ by less than this differ by rounding alone, and have no variance to
    # explain.
    rounding = float(1e-12 * np.abs(scores).max())
    interaction = float("nan")
    if variance > rounding**2:
        interaction = float(residual_variance / variance)
    return Emap(model, projection, interaction)


def compute_additive_projection(
    scores: np.ndarray, image_weights: np.ndarray, text_weights: np.ndarray
) -> np.ndarray:
    """Return the additive scores (image function plus text function) that approximate the scores of
    all pairs best.

    Args:
        scores: float64 of shape (images, texts): every image with every text.
        image_weights: float64 of shape (images,): relative frequency of each image in the data set;
            sums to 1.
        text_weights: float64 of shape (texts,): the same for texts.
    Returns:
        float64 of shape (images, texts): mean of the row plus mean of the column minus the mean of
        all.
    Source:
        Hessel & Lee (EMNLP 2020).
    """
    # The weighted least-squares fit of additive scores: row mean + column mean - grand mean.
    image_means = scores @ text_weights  # (images,)
    text_means = image_weights @ scores  # (texts,)
    additive: np.ndarray = (
        image_means[:, None] + text_means[None, :] - image_weights @ image_means
    )
    return additive


def compute_perceptual_score(
    credit: Credit,
    item_ids: Sequence[str],
    images: Sequence[str],
    modality: str,
    repeats: int,
    resampling: Resampling,
) -> Measure:
    """Return the perceptual score of one modality: the accuracy that its permutation costs, in
    percentage points.

    Args:
        credit: Credit of the model, from `build_ranking_credit`.
        item_ids: The items, each once.
        images: Image of each item; intervals draw images.
        modality: The permuted modality: `text` or `image`.
        repeats: Number of permutations.
        resampling: Resamples, coverage, seed; the seed also draws the permutations.
    Source:
        Gat, Schwartz & Schwing (NeurIPS 2021), equation 2; thesis 4.4.5.
    """
    positions = np.arange(len(item_ids))
    # (items,)
    correct = 100 * np.asarray(credit(positions, positions), dtype=np.float64)
    permuted_credits = []
    for donors in draw_donors(item_ids, repeats, resampling.seed):
        if modality == "text":
            permuted_credits.append(credit(donors, positions))
        else:
            permuted_credits.append(credit(positions, donors))
    # Gat et al., equation 2: accuracy minus the mean accuracy over permutations.
    permuted = 100 * np.array(permuted_credits)  # (repeats, items)
    losses = correct - permuted.mean(axis=0)
    return compute_mean(
        losses.tolist(), images, f"perceptual:{modality}", resampling, (-100.0, 100.0)
    )


def draw_donors(item_ids: Sequence[str], repeats: int, seed: int) -> np.ndarray:
    """Draw uniform permutations of the items, which decide from which item each item receives its
    text or image.

    They depend on the ids of the items, not on their order. An item may receive its own text or
    image.

    Returns:
        int64 of shape (repeats, n): the position of the item whose modality each item receives.
    """
    # The items in the order of their ids receive from the items in the order of their hashes.
    by_name = sorted(range(len(item_ids)), key=item_ids.__getitem__)
    donors = np.empty((repeats, len(item_ids)), dtype=np.int64)
    for repeat in range(repeats):

        def get_rank(position: int, repeat: int = repeat) -> tuple[int, str]:
            item_id = item_ids[position]
            return rank(f"{repeat}:{item_id}", seed), item_id

        donors[repeat, by_name] = sorted(by_name, key=get_rank)
    return donors


def build_ranking_credit(
    ranking: Ranking, item_ids: Sequence[str], seed: int
) -> Credit:
    """Return a function that scores how a model chooses the caption among two texts; a tie earns
    half.

    The label of an item is the position of its caption, first or second, which the seed and the id
    decide. The texts that another item lends keep their positions. A model that uses the text alone
    is therefore right half of the time once the texts are permuted.
    """
    caption_is_first = np.array(
        [rank(f"first:{item_id}", seed) % 2 == 0 for item_id in item_ids]
    )

    def credit(texts: np.ndarray, lenders: np.ndarray) -> np.ndarray:
        # texts[i] and lenders[i]: the items that lend item i its two texts and its image.
        images = ranking.images[lenders]
        caption_scores = ranking.scores[images, ranking.captions[texts]]
        foil_scores = ranking.scores[images, ranking.foils[texts]]
        earned = compute_ranking_credit(caption_scores, foil_scores, ranking.dtype)
        # If the lent caption stands at the other position than the item's caption, choosing the
        # lent foil is right.
        return np.where(caption_is_first[texts] == caption_is_first, earned, 1 - earned)

    return credit
