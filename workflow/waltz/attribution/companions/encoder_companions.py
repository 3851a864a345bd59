"""EMAP and perceptual score of one encoder on one data set, from its scores of every image with every text."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from PIL import Image

from waltz.attribution.companions.emap import compute_ranking_emap
from waltz.attribution.companions.perceptual_score import build_ranking_credit, compute_perceptual_score
from waltz.attribution.companions.score_matrix import compute_score_matrix
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.group_files import DatasetFiles
from waltz.core.intervals import Measure, Resampling
from waltz.core.job_records import show_progress
from waltz.core.schema import BENCHMARK
from waltz.evaluation.items import list_texts, select_items
from waltz.models.encoders.encoder import Encoder
from waltz.sources.images import load_image, open_images

MODALITIES = ("text", "image")
METRICS = ("emap", "emap_model", "emap_interaction", *(f"perceptual_{modality}" for modality in MODALITIES))


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
        return [{"metric": metric, **vars(Measure(None, 0, reason=reason))} for metric in METRICS]
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
