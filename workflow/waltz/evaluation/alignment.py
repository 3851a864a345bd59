"""Scores of texts and images by an alignment encoder: caption and foil of an item, and the conditions of CV-Probes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from waltz.core.files import parquet
from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.job_records import show_progress
from waltz.core.schema import BENCHMARK, CONDITIONS
from waltz.evaluation.items import list_texts, select_items
from waltz.evaluation.predictions import predict_pair_text, predict_probe_text
from waltz.evaluation.settings import ALIGNMENT, EXPECTED_PREDICTION, RIGHT_PREDICTION
from waltz.fidelity import get_fidelity
from waltz.models.batches import ProgressCallback, ignore_progress
from waltz.models.encoders.alignment import PairScore, compute_pair_scores
from waltz.models.encoders.encoder import Encoder
from waltz.models.regions import load_image_or_regions
from waltz.sources.images import ImageSource, load_image, open_images


def score_items(
    encoder: Encoder,
    items: Sequence[Mapping[str, Any]],
    images: ImageSource,
    profiles: Sequence[str],
    stored: Path | None = None,
    done: ProgressCallback = ignore_progress,
) -> list[dict[str, Any]]:
    """Return rows of the evaluation layout: the texts of each item in each profile.

    The profiles share the logits and differ in the prediction. A text that the model cannot read, or whose image cannot
    be opened, has a row with an error. A model without a probability of a match has no predictions.

    Args:
        items: Rows of the benchmark layout, with caption and foil, or of CV-Probes, with one caption each.
        done: Receives the number of distinct (image, text) of each finished block.
    """
    instances = [(item, role, text) for item in items for role, text in list_texts(item)]
    aligned = compute_pair_scores(
        encoder,
        [(item["image"], text) for item, _, text in instances],
        lambda name: load_image_or_regions(encoder, name, lambda: load_image(images, name)),
        stored,
        done,
    )
    rows = []
    for profile in profiles:
        for item, role, text in instances:
            columns = build_score_columns(aligned[item["image"], text], encoder.probability, profile)
            is_probe = "condition" in item
            if is_probe and columns["probability"] is not None:
                columns["prediction"] = predict_probe_text(columns, profile)
            right = EXPECTED_PREDICTION[item["match"]] if is_probe else RIGHT_PREDICTION[role]
            correct = None if columns["prediction"] is None else columns["prediction"] == right
            names = {"item_id": item["item_id"], "role": role, "image": item["image"]}
            rows.append({**names, **columns, "correct": correct})
    return rows


def build_score_columns(pair: PairScore, with_probability: bool, profile: str) -> dict[str, Any]:
    """Return the columns of a row that hold the model's score and prediction.

    Args:
        with_probability: Whether the sigmoid of the logit is a probability of a match.
    """
    probability = prediction = None
    if with_probability and pair.logit is not None:
        probability = compute_match_probability(pair.logit, profile)
        prediction = predict_pair_text(pair.logit, probability, profile)
    return {
        "profile": profile,
        "setting": ALIGNMENT,
        "score": pair.logit,
        "tokens": pair.tokens,
        "probability": probability,
        "prediction": prediction,
        "error": pair.error,
    }


def compute_match_probability(logit: float, profile: str) -> float:
    """Return the sigmoid of a logit: in single precision as in the published scripts, or in double (`equations`)."""
    precision = np.float32 if get_fidelity(profile).match_by == "probability" else np.float64
    unit = precision(1)
    with np.errstate(over="ignore"):
        return float(unit / (unit + np.exp(-precision(logit))))


def count_unscored(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Count texts without a score, summed over the profiles, and the most frequent errors."""
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
    """Score captions and foils, and CV-Probes, with one encoder; yield rows of the evaluation layout as `scores`.

    Args:
        scored: `valid` or `all` items.
        sample: Number of items per data set; None takes all.
    """
    for dataset in datasets:
        if "condition" in parquet.read_schema(dataset.rows).names:
            items = parquet.read_rows(dataset.rows, CONDITIONS)
        else:
            items = select_items(parquet.read(dataset.rows, BENCHMARK), scored, sample, seed).to_pylist()
        texts, label = sum(len(list_texts(item)) for item in items), f"{encoder.spec.name} {dataset.name}"
        with open_images(dataset.images) as images, show_progress(texts, "text", label) as bar:
            rows = score_items(encoder, items, images, dataset.select_profiles(profiles), cache, bar.update)
        yield DatasetResult(dataset, {"scores": rows}, len(items), count_unscored(rows))
