"""Scores of texts and images by an alignment encoder: caption and foil of an item, and the
conditions of CV-Probes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from waltz.core.files import parquet
from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.job_records import show_progress
from waltz.core.rounding import compute_logit_rounding
from waltz.core.schema import BENCHMARK, CONDITIONS
from waltz.evaluation.items import list_texts, select_items
from waltz.evaluation.predictions import predict_pair_text, predict_probe_text
from waltz.evaluation.settings import (
    ALIGNMENT,
    EXPECTED_PREDICTION,
    RIGHT_PREDICTION,
    ScoringSettings,
)
from waltz.fidelity import Fidelity, get_fidelity
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
    """Return a row of the evaluation layout for each text of each item, in each profile.

    The profiles share the logits and differ in the prediction. A text that the model cannot read,
    or whose image cannot be opened, has a row with an error. A model without a probability of a
    match has no predictions.

    Args:
        encoder: A loaded encoder.
        items: Rows of the benchmark layout, with caption and foil, or of CV-Probes, with one
            caption each.
        images: Images by name.
        profiles: Names of the profiles.
        stored: File of finished blocks; None stores nothing.
        done: Called with the number of distinct pairs of image and text in each finished block.
    """
    instances = [
        (item, role, text) for item in items for role, text in list_texts(item)
    ]
    # Each distinct image and text is scored once, for all profiles.
    scores = compute_pair_scores(
        encoder,
        [(item["image"], text) for item, _, text in instances],
        lambda name: load_image_or_regions(
            encoder, name, lambda: load_image(images, name)
        ),
        stored,
        done,
    )
    rows = []
    for fidelity in map(get_fidelity, profiles):
        for item, role, text in instances:
            pair = scores[item["image"], text]
            columns = build_score_columns(
                pair, encoder.probability, fidelity, encoder.spec.dtype
            )
            columns["correct"] = None
            if columns["prediction"] is not None:
                # In CV-Probes a caption may not match its image, so that the item states what is
                # right.
                is_probe = "condition" in item
                if is_probe:
                    columns["prediction"] = predict_probe_text(columns, fidelity)
                expected = (
                    EXPECTED_PREDICTION[item["match"]]
                    if is_probe
                    else RIGHT_PREDICTION[role]
                )
                columns["correct"] = columns["prediction"] == expected
            rows.append(
                {
                    "item_id": item["item_id"],
                    "role": role,
                    "image": item["image"],
                    **columns,
                }
            )
    return rows


def build_score_columns(
    pair: PairScore, with_probability: bool, fidelity: Fidelity, dtype: str
) -> dict[str, Any]:
    """Return the columns of a row that hold the score and the prediction of the model.

    Args:
        pair: Score of an image and a text.
        with_probability: Whether the sigmoid of the logit is a probability of a match.
        fidelity: The rules of the prediction.
        dtype: Precision of the network.
    """
    rounding = probability = prediction = None
    if pair.logit is not None:
        rounding = compute_logit_rounding(pair.logit, dtype)
        if with_probability:
            probability = compute_match_probability(pair.logit, fidelity)
            prediction = predict_pair_text(pair.logit, probability, fidelity)
    return {
        "profile": fidelity.name,
        "setting": ALIGNMENT,
        "score": pair.logit,
        "rounding": rounding,
        "tokens": pair.tokens,
        "probability": probability,
        "prediction": prediction,
        "error": pair.error,
    }


def compute_match_probability(logit: float, fidelity: Fidelity) -> float:
    """Return the probability of a match, the sigmoid of a logit.

    It is computed in single precision as in the published scripts, or in double precision
    (`equations`).
    """
    # The scripts of MM-SHAP compare probabilities in single precision.
    precision = np.float32 if fidelity.match_by == "probability" else np.float64
    unit = precision(1)
    # exp overflows for a very negative logit, and 1 / (1 + inf) is the right 0.
    with np.errstate(over="ignore"):
        return float(unit / (unit + np.exp(-precision(logit))))


def count_unscored(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Count the texts without a score, summed over the profiles, and list the most frequent errors."""
    errors = Counter(row["error"] for row in rows if row["error"] is not None)
    return {"unscored_texts": errors.total(), "errors": dict(errors.most_common(10))}


def score_datasets(
    encoder: Encoder,
    datasets: Iterable[DatasetFiles],
    cache: Path,
    settings: ScoringSettings,
) -> Iterator[DatasetResult]:
    """Score captions and foils, and the captions of CV-Probes, with one encoder.

    Args:
        encoder: A loaded encoder.
        datasets: Files of the data sets.
        cache: File of finished blocks.
        settings: Profiles and items.
    Yields:
        For each data set, rows of the evaluation layout under the name `scores`.
    """
    for dataset in datasets:
        # CV-Probes has another layout, and all its items are scored.
        if "condition" in parquet.read_schema(dataset.rows).names:
            items = parquet.read_rows(dataset.rows, CONDITIONS)
        else:
            benchmark = parquet.read(dataset.rows, BENCHMARK)
            items = select_items(
                benchmark, settings.scored, settings.sample, settings.seed
            ).to_pylist()
        profiles = dataset.select_profiles(settings.profiles)
        n_texts = sum(len(list_texts(item)) for item in items)
        label = f"{encoder.spec.name} {dataset.name}"
        with (
            open_images(dataset.images) as images,
            show_progress(n_texts, "text", label) as bar,
        ):
            rows = score_items(encoder, items, images, profiles, cache, bar.update)
        yield DatasetResult(dataset, {"scores": rows}, len(items), count_unscored(rows))
