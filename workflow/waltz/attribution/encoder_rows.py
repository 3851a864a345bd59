"""MM-SHAP of encoders: rows of the attribution layout, item after item, each stored as soon as it is computed."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from waltz.attribution import mm_shap
from waltz.attribution.item_selection import select_attributed_items, select_attributed_questions
from waltz.attribution.mm_shap import Attribution, attribute_texts, name_explained_value
from waltz.attribution.shapley.estimate import AttributionSettings, to_null
from waltz.core.digest import digest
from waltz.core.errors import UserError
from waltz.core.files import parquet, result_cache
from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.job_records import show_progress
from waltz.evaluation.items import list_texts
from waltz.evaluation.settings import ALIGNMENT
from waltz.evaluation.vqa import ANSWER, ANSWERING
from waltz.model_registry import compute_fingerprint
from waltz.models.encoders.coalitions import Outcome
from waltz.models.encoders.encoder import Encoder
from waltz.models.encoders.vqa import AnsweringEncoder, answer_question, build_answer_probability
from waltz.models.games import pack_values, unpack_values
from waltz.models.regions import ImageOrRegions, label_setting, load_image_or_regions
from waltz.models.visible_image import crops_to_middle_square
from waltz.sources.images import ImageSource, load_image, open_images

Row = dict[str, Any]


def attribute_datasets(
    encoder: Encoder,
    datasets: Iterable[DatasetFiles],
    estimation: Mapping[str, Mapping[str, Any]],
    cache: Path,
    *,
    scored: str,
    scored_sample: int | None,
    sample: int | None,
    seed: int,
    shard: slice,
) -> Iterator[DatasetResult]:
    """Attribute the scores of one encoder on one shard of the items of data sets.

    Args:
        scored: `valid` or `all` items are scored.
        scored_sample: Number of items a data set that are scored; None for all.
        sample: Number of these that are attributed; None for all.
    Yields:
        Rows of the attribution layout as `rows`.
    """
    facts = {"middle_square": crops_to_middle_square(encoder.prepare_image)}
    for dataset in datasets:
        items = {
            profile: select_attributed_items(dataset.rows, profile, scored, scored_sample, sample, seed)[shard]
            for profile in dataset.select_profiles(estimation)
        }
        rows = _compute_dataset_rows(compute_text_rows, encoder, dataset, items, estimation, seed, cache)
        yield DatasetResult(dataset, {"rows": rows}, sum(map(len, items.values())), facts | count_outcomes(rows))


def attribute_questions(
    encoder: AnsweringEncoder,
    datasets: Iterable[DatasetFiles],
    estimation: Mapping[str, Mapping[str, Any]],
    cache: Path,
    *,
    sample: int | None,
    seed: int,
    shard: slice,
) -> Iterator[DatasetResult]:
    """Attribute the answers of one encoder on one shard of the questions of data sets.

    Args:
        encoder: An encoder with an answering head.
        datasets: Files of the data sets, with size and choice of the questions.
        sample: Number of questions that are attributed; None for all.
    Yields:
        Rows of the attribution layout as `rows`.
    """
    for dataset in datasets:
        source = parquet.read_table(dataset.rows).to_pylist()
        items = {
            profile: select_attributed_questions(source, dataset.name, dataset.settings, profile, sample, seed)[shard]
            for profile in estimation
        }
        rows = _compute_dataset_rows(compute_answer_rows, encoder, dataset, items, estimation, seed, cache)
        yield DatasetResult(dataset, {"rows": rows}, sum(map(len, items.values())), count_outcomes(rows))


def _compute_dataset_rows(
    compute_rows: Callable[..., list[Row]],
    encoder: Encoder,
    dataset: DatasetFiles,
    items: Mapping[str, Sequence[Mapping[str, Any]]],
    estimation: Mapping[str, Mapping[str, Any]],
    seed: int,
    cache: Path,
) -> list[Row]:
    """Return the rows of one data set whose items are selected by profile."""
    rows: list[Row] = []
    label = f"{encoder.spec.name} {dataset.name}"
    with open_images(dataset.images) as images, show_progress(sum(map(len, items.values())), "item", label) as bar:
        for profile, selected in items.items():
            settings = AttributionSettings(profile, seed=seed, **estimation[profile])
            rows += compute_rows(encoder, selected, images, settings, cache, bar.update)
    return rows


def compute_text_rows(
    encoder: Encoder,
    items: Iterable[Mapping[str, Any]],
    images: ImageSource,
    settings: AttributionSettings,
    stored: Path,
    done: Callable[[int], object],
) -> list[Row]:
    """Return rows of the attribution layout for every text of every item; those whose image is missing have an error.

    Args:
        items: Rows of the benchmark or of CV-Probes.
        done: Called with 1 after each item, for a progress bar.
    """
    content = _describe_encoder(encoder)
    rows: list[Row] = []
    for item in items:
        role_texts = dict(list_texts(item))
        common = [
            {
                "item_id": item["item_id"],
                "role": role,
                "profile": settings.profile,
                "setting": label_setting(encoder, ALIGNMENT),
                "image": item["image"],
                "text": text,
                "explained": name_explained_value(encoder),
            }
            for role, text in role_texts.items()
        ]
        try:
            image = _load_image(encoder, item["image"], images)
            columns = _load_or_attribute_texts(encoder, image, list(role_texts.values()), settings, stored, content)
        except UserError as error:
            columns = [{"error": str(error)}] * len(common)
        rows += [{**row, **own} for row, own in zip(common, columns, strict=True)]
        done(1)
    return rows


def compute_answer_rows(
    encoder: AnsweringEncoder,
    items: Iterable[Mapping[str, Any]],
    images: ImageSource,
    settings: AttributionSettings,
    stored: Path,
    done: Callable[[int], object],
) -> list[Row]:
    """Return rows of the attribution layout for the answers that an encoder gives: role `answer`, setting `answering`.

    What is explained is the probability among all answers of the one that is given to the whole input.

    Args:
        items: Rows of item_id, image and question.
        done: Called with 1 after each item, for a progress bar.
    Source:
        MM-SHAP (Parcalabescu & Frank, ACL 2023) and its released scripts; thesis 4.3 and 4.4.
    """
    content = _describe_encoder(encoder)
    rows: list[Row] = []
    for item in items:
        question = item["question"]
        row = {
            "item_id": item["item_id"],
            "role": ANSWER,
            "profile": settings.profile,
            "setting": label_setting(encoder, ANSWERING),
            "image": item["image"],
            "text": question,
            "explained": "probability",
        }
        try:
            image = _load_image(encoder, item["image"], images)
            answer = answer_question(encoder, encoder.prepare_image(image), question)
            (columns,) = _load_or_attribute_texts(
                encoder,
                image,
                [question],
                settings,
                stored,
                {**content, "answer": answer.index},
                build_answer_probability(answer),
            )
            rows.append({**row, "outputs": [answer.text], **columns})
        except UserError as error:
            rows.append({**row, "error": str(error)})
        done(1)
    return rows


def count_outcomes(rows: Sequence[Row]) -> dict[str, int]:
    """Return counts of evaluations and failures of a data set, for its run record."""
    return {
        "budget": sum(row.get("budget") or 0 for row in rows),
        "evaluations": sum(row.get("evaluated") or 0 for row in rows),
        "rows_with_error": sum(row.get("error") is not None for row in rows),
        "rows_without_t_shap": sum(row.get("t_shap") is None for row in rows),
    }


@contextmanager
def keep_coalitions(folder: Path, content: Mapping[str, Any], games: int) -> Iterator[list[dict[bytes, np.ndarray]]]:
    """Yield the stored values of each game by coalition, and store them with the values that the block adds.

    Args:
        content: Everything that decides the values but the number of evaluations, so that a larger one begins where a
            smaller one ended.
    """
    key = result_cache.compute_key(**content)
    packed = [result_cache.load(folder, f"{key}-{game}") for game in range(games)]
    known_values = [{} if values is None else unpack_values(values) for values in packed]
    yield known_values
    for game, values in enumerate(known_values):
        if values:
            result_cache.save(folder, f"{key}-{game}", pack_values(values))


def _describe_encoder(encoder: Encoder) -> dict[str, Any]:
    """Return what a key of stored results holds of an encoder."""
    spec = encoder.spec
    return {
        "model": compute_fingerprint(spec),
        "entry": [spec.kind, spec.weights, spec.dtype, spec.masked_token],
        "code": digest(mm_shap.__file__),
    }


def _load_image(encoder: Encoder, name: str, images: ImageSource) -> ImageOrRegions:
    return load_image_or_regions(encoder, name, lambda: load_image(images, name))


def _load_or_attribute_texts(
    encoder: Encoder,
    image: ImageOrRegions,
    texts: Sequence[str],
    settings: AttributionSettings,
    stored: Path,
    encoder_content: Mapping[str, Any],
    outcome: Outcome | None = None,
) -> list[Row]:
    """Return columns of the attribution layout of each text with one image, computed or stored."""
    content = {
        "texts": list(texts),
        "image": result_cache.compute_array_key(image.tobytes(), image.size),
        **encoder_content,
    }

    def compute() -> list[Row]:
        # Other estimators request other coalitions together, and what is computed together can differ in its last
        # digits.
        names = ("profile", "estimator", "seed", "grid")
        coalitions = {**content, **{name: getattr(settings, name) for name in names}}
        with keep_coalitions(stored, coalitions, len(texts)) as known_values:
            attributions = attribute_texts(encoder, image, texts, settings, known_values, outcome)
        return [_build_columns(attribution) for attribution in attributions]

    rows: list[Row] = result_cache.load_or_compute_json(stored, {**content, "settings": asdict(settings)}, compute)
    return rows


def _build_columns(attribution: Attribution) -> Row:
    """Return the columns of one attribution; NaN becomes null, its reason stays."""
    return {
        "score": attribution.score,
        "tokens": list(attribution.tokens),
        "spans": [dict(span) for span in attribution.spans],
        "grid": attribution.grid,
        "phi": attribution.phi.tolist(),
        "base_value": attribution.base_value.tolist(),
        "value": attribution.value.tolist(),
        "t_shap": to_null(attribution.t_shap),
        "t_shap_se": to_null(attribution.t_shap_se),
        "reason": attribution.reason,
        "estimator": attribution.estimator,
        "budget": attribution.requested,
        "evaluated": attribution.evaluated,
        "residual": attribution.residual,
        "without_text": attribution.without_text.tolist(),
        "without_image": attribution.without_image.tolist(),
        "seed": attribution.seed,
    }
