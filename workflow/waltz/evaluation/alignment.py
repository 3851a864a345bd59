"""Texts beside images by an alignment encoder: caption and foil of an item, and the conditions of CV-Probes."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from waltz.core.files import parquet
from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.job_log import show_progress
from waltz.core.schema import BENCHMARK, CONDITIONS
from waltz.evaluation.items import select, texts
from waltz.evaluation.metrics.predictions import EXPECTED, judged, prediction
from waltz.evaluation.metrics.scored_pairs import ALIGNMENT, RIGHT
from waltz.models.batches import ProgressCallback, ignore_progress
from waltz.models.encoders.alignment import PairScore, compute_pair_scores
from waltz.models.encoders.encoder import Encoder
from waltz.models.regions import ImageOrRegions, load_image_or_regions
from waltz.sources.images import ImageSource, load_image, open_images


@dataclass(frozen=True)
class Asked:
    """A text beside an image.

    Attributes:
        item_id: The item that it is of.
        role: What it is there.
        image: Name of the image.
        text: The text.
        right: The prediction that is right.
    """

    item_id: str
    role: str
    image: str
    text: str
    right: str


def score_pairs(
    encoder: Encoder,
    items: Sequence[Mapping[str, Any]],
    images: ImageSource,
    profiles: Sequence[str],
    stored: Path | None = None,
    done: ProgressCallback = ignore_progress,
) -> list[dict[str, Any]]:
    """Rows of the evaluation layout: both texts of each item in each profile.

    The profiles share the logits and differ in what is made of them (`evaluation.predictions`). A text that the model
    cannot read, or whose image cannot be opened, has a row with an error. A model without a probability of a match has
    neither prediction nor verdict.

    Args:
        encoder: A loaded encoder.
        items: Rows of the benchmark layout.
        images: Where their images lie.
        profiles: Which of `equations`, `published`.
        stored: Folder of finished blocks.
        done: Told the number of distinct (image, text) that each block finished, for a progress bar.
    """
    asked = [
        Asked(item["item_id"], role, item["image"], text, RIGHT[role]) for item in items for role, text in texts(item)
    ]
    return _rows(encoder, asked, images, profiles, lambda said, _: str(said["prediction"]), stored, done)


def score_probes(
    encoder: Encoder,
    items: Sequence[Mapping[str, Any]],
    images: ImageSource,
    profiles: Sequence[str],
    stored: Path | None = None,
    done: ProgressCallback = ignore_progress,
) -> list[dict[str, Any]]:
    """Rows of the evaluation layout: each image beside its caption, in each profile, role `caption`.

    Args:
        encoder: A loaded encoder.
        items: Rows of the layout `CONDITIONS`.
        images: Where their images lie.
        profiles: Which of `equations`, `published`.
        stored: Folder of finished blocks.
        done: Told the number of distinct (image, caption) that each block finished.
    """
    asked = [Asked(row["item_id"], "caption", row["image"], row["caption"], EXPECTED[row["match"]]) for row in items]
    return _rows(encoder, asked, images, profiles, judged, stored, done)


def _rows(
    encoder: Encoder,
    asked: Sequence[Asked],
    images: ImageSource,
    profiles: Sequence[str],
    judge: Callable[[Mapping[str, Any], str], str],
    stored: Path | None,
    done: ProgressCallback,
) -> list[dict[str, Any]]:
    """A row of each text in each profile; `judge` makes the prediction of a row that has a probability."""
    aligned = compute_pair_scores(
        encoder, [(one.image, one.text) for one in asked], _shown(encoder, images), stored, done
    )
    rows = []
    for profile in profiles:
        for one in asked:
            said = scored(aligned[one.image, one.text], encoder.probability, profile)
            if said["probability"] is not None:
                said["prediction"] = judge(said, profile)
            right = None if said["prediction"] is None else said["prediction"] == one.right
            rows.append({"item_id": one.item_id, "role": one.role, "image": one.image, **said, "correct": right})
    return rows


def scored(pair: PairScore, with_probability: bool, profile: str) -> dict[str, Any]:
    """The columns of a row that say what the model makes of a text.

    Args:
        pair: What the encoder says.
        with_probability: Whether the sigmoid of its logit is a probability of a match.
        profile: `published` or `equations`.
    """
    probability = judgement = None
    if with_probability and pair.logit is not None:
        probability = match_probability(pair.logit, profile)
        judgement = prediction(pair.logit, probability, profile)
    return {
        "profile": profile,
        "setting": ALIGNMENT,
        "score": pair.logit,
        "tokens": pair.tokens,
        "probability": probability,
        "prediction": judgement,
        "error": pair.error,
    }


def _shown(encoder: Encoder, images: ImageSource) -> Callable[[str], ImageOrRegions]:
    """What the encoder is shown of an image, by its name."""
    return lambda name: load_image_or_regions(encoder, name, lambda: load_image(images, name))


def match_probability(logit: float, profile: str) -> float:
    """Sigmoid of a logit: in single precision as the published scripts have it, or in double (`equations`)."""
    kind = np.float32 if profile == "published" else np.float64
    one = kind(1)
    with np.errstate(over="ignore"):
        return float(one / (one + np.exp(-kind(logit))))


def tally(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Texts without a score, summed over the profiles, and the most frequent errors with their counts."""
    errors = Counter(row["error"] for row in rows if row["error"] is not None)
    return {"unscored_texts": errors.total(), "errors": dict(errors.most_common(10))}


def score_datasets(
    encoder: Encoder,
    datasets: Iterable[DatasetFiles],
    profiles: Sequence[str],
    cache: Path,
    *,
    scored: str,
    sample: int | None,
    seed: int,
) -> Iterator[DatasetResult]:
    """Score the texts of data sets of captions and foils, and of CV-Probes, with one encoder.

    Args:
        encoder: The encoder.
        datasets: Files of the data sets.
        profiles: Fidelity profiles.
        cache: Folder of finished batches.
        scored: `valid` or `all` items.
        sample: Number of items a data set; None takes all.
        seed: Seed of the sample.
    Yields:
        Rows of the evaluation layout as `scores`.
    """
    for dataset in datasets:
        probes = "condition" in pq.read_schema(dataset.rows).names
        if probes:
            items = parquet.read(dataset.rows, CONDITIONS).to_pylist()
        else:
            items = select(parquet.read(dataset.rows, BENCHMARK), scored, sample, seed).to_pylist()
        score = score_probes if probes else score_pairs
        texts, label = len(items) * (1 if probes else 2), f"{encoder.spec.name} {dataset.name}"
        with open_images(dataset.images) as images, show_progress(texts, "text", label) as bar:
            rows = score(encoder, items, images, profiles, cache, bar.update)
        yield DatasetResult(dataset, {"scores": rows}, len(items), tally(rows))
