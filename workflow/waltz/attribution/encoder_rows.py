"""MM-SHAP of encoders: rows of the attribution layout, item after item, each stored as soon as it
is computed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from waltz.attribution.item_selection import (
    select_attributed_items,
    select_attributed_questions,
)
from waltz.attribution.mm_shap import attribute_texts, name_explained_value
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.attribution.stored_rows import (
    Row,
    StepSettings,
    build_coalitions_key,
    build_columns,
    count_outcomes,
    keep_coalitions,
)
from waltz.core.digest import digest
from waltz.core.errors import UserError
from waltz.core.files import parquet, result_cache
from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.job_records import show_progress
from waltz.evaluation.items import list_texts
from waltz.evaluation.settings import ALIGNMENT
from waltz.evaluation.vqa import ANSWER, ANSWERING
from waltz.fidelity import get_fidelity
from waltz.model_registry import compute_fingerprint
from waltz.models.encoders.coalitions import Outcome
from waltz.models.encoders.encoder import Encoder
from waltz.models.encoders.vqa import (
    AnsweringEncoder,
    answer_question,
    build_answer_probability,
)
from waltz.models.regions import ImageOrRegions, label_setting, load_image_or_regions
from waltz.models.visible_image import crops_to_middle_square
from waltz.sources.images import ImageSource, load_image, open_images

Item = Mapping[str, Any]


def attribute_datasets(
    encoder: Encoder,
    datasets: Iterable[DatasetFiles],
    settings: StepSettings,
    cache: Path,
    shard: slice,
) -> Iterator[DatasetResult]:
    """Attribute the scores that one encoder gives to one shard of the items of each data set.

    Yields:
        For each data set, rows of the attribution layout under the name `rows`.
    """
    facts = {"middle_square": crops_to_middle_square(encoder.prepare_image)}
    for dataset in datasets:
        items: dict[str, list[Row]] = {}
        for profile in dataset.select_profiles(settings.estimation):
            selected = select_attributed_items(
                dataset.rows,
                get_fidelity(profile),
                settings.scored,
                settings.scored_sample,
                settings.sample,
                settings.seed,
            )
            items[profile] = selected[shard]
        yield _attribute_dataset(
            compute_text_rows, encoder, dataset, items, settings, cache, facts
        )


def attribute_questions(
    encoder: AnsweringEncoder,
    datasets: Iterable[DatasetFiles],
    settings: StepSettings,
    cache: Path,
    shard: slice,
) -> Iterator[DatasetResult]:
    """Attribute the answers that one encoder gives to one shard of the questions of each data set.

    Args:
        encoder: An encoder with an answering head.
        datasets: Files of the data sets, with size and choice of the questions.
    Yields:
        For each data set, rows of the attribution layout under the name `rows`.
    """
    for dataset in datasets:
        source = parquet.read_table(dataset.rows).to_pylist()
        items: dict[str, list[Row]] = {}
        for profile in settings.estimation:
            selected = select_attributed_questions(
                source,
                dataset.name,
                dataset.settings,
                get_fidelity(profile),
                settings.sample,
                settings.seed,
            )
            items[profile] = selected[shard]
        yield _attribute_dataset(
            compute_answer_rows, encoder, dataset, items, settings, cache, {}
        )


def _attribute_dataset(
    compute_rows: Callable[..., list[Row]],
    encoder: Encoder,
    dataset: DatasetFiles,
    items: Mapping[str, Sequence[Row]],
    settings: StepSettings,
    cache: Path,
    facts: Mapping[str, Any],
) -> DatasetResult:
    """Return the rows of one data set, with the number of its items and counts for its run record.

    Args:
        compute_rows: `compute_text_rows` or `compute_answer_rows`.
        items: The selected items, by profile.
        facts: Further facts of the run record.
    """
    rows: list[Row] = []
    total = sum(len(selected) for selected in items.values())
    label = f"{encoder.spec.name} {dataset.name}"
    with (
        open_images(dataset.images) as images,
        show_progress(total, "item", label) as bar,
    ):
        for profile, selected in items.items():
            rows += compute_rows(
                encoder,
                selected,
                images,
                settings.build_settings(profile),
                cache,
                bar.update,
            )
    return DatasetResult(
        dataset, {"rows": rows}, total, {**facts, **count_outcomes(rows)}
    )


def compute_text_rows(
    encoder: Encoder,
    items: Iterable[Item],
    images: ImageSource,
    settings: AttributionSettings,
    stored: Path,
    done: Callable[[int], object],
) -> list[Row]:
    """Return a row of the attribution layout for every text of every item; an item without its
    image has an error.

    Args:
        items: Rows of the benchmark or of CV-Probes.
        done: Called with 1 after each item, for a progress bar.
    """
    content = _describe_encoder(encoder)
    rows: list[Row] = []
    for item in items:
        role_texts = dict(list_texts(item))
        texts = list(role_texts.values())
        # An item that fails keeps its rows, with the reason.
        try:
            image = _load_image(encoder, item["image"], images)
            columns = _load_or_attribute_texts(
                encoder, image, texts, settings, stored, content
            )
        except UserError as error:
            columns = [{"error": str(error)}] * len(texts)
        for (role, text), text_columns in zip(role_texts.items(), columns, strict=True):
            row = _name_text(item, role, text, settings)
            row["setting"] = label_setting(encoder, ALIGNMENT)
            row["explained"] = name_explained_value(encoder)
            rows.append({**row, **text_columns})
        done(1)
    return rows


def compute_answer_rows(
    encoder: AnsweringEncoder,
    items: Iterable[Item],
    images: ImageSource,
    settings: AttributionSettings,
    stored: Path,
    done: Callable[[int], object],
) -> list[Row]:
    """Return a row of the attribution layout for each answer of an encoder, with role `answer`,
    setting `answering`.

    The explained value is the probability, among all answers, of the answer that the unmasked input
    gets.

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
        row = _name_text(item, ANSWER, question, settings)
        row["setting"] = label_setting(encoder, ANSWERING)
        row["explained"] = "probability"
        try:
            image = _load_image(encoder, item["image"], images)
            # A masked input is scored by the probability of the answer to the unmasked input, even
            # where the encoder would answer the masked input differently.
            answer = answer_question(encoder, encoder.prepare_image(image), question)
            answer_content = {**content, "answer": answer.index}
            outcome = build_answer_probability(answer)
            (columns,) = _load_or_attribute_texts(
                encoder, image, [question], settings, stored, answer_content, outcome
            )
            rows.append({**row, "outputs": [answer.text], **columns})
        except UserError as error:
            rows.append({**row, "error": str(error)})
        done(1)
    return rows


def _name_text(item: Item, role: str, text: str, settings: AttributionSettings) -> Row:
    """Return the columns that name one text of an item."""
    return {
        "item_id": item["item_id"],
        "role": role,
        "profile": settings.profile,
        "image": item["image"],
        "text": text,
    }


def _describe_encoder(encoder: Encoder) -> Row:
    """Return the facts about an encoder that belong to a key of stored results."""
    spec = encoder.spec
    return {
        "model": compute_fingerprint(spec),
        "entry": [spec.kind, spec.weights, spec.dtype, spec.masked_token],
        "code": digest(__file__),
    }


def _load_image(encoder: Encoder, name: str, images: ImageSource) -> ImageOrRegions:
    return load_image_or_regions(encoder, name, lambda: load_image(images, name))


def _load_or_attribute_texts(
    encoder: Encoder,
    image: ImageOrRegions,
    texts: Sequence[str],
    settings: AttributionSettings,
    stored: Path,
    encoder_content: Item,
    outcome: Outcome | None = None,
) -> list[Row]:
    """Return the columns of each text with one image, from the cache of results if they are stored
    there.
    """
    # The key names all that decides the values: image, texts, model, code and settings.
    content = {
        "texts": list(texts),
        "image": result_cache.compute_array_key(image.tobytes(), image.size),
        **encoder_content,
    }

    def compute() -> list[Row]:
        with keep_coalitions(
            stored, build_coalitions_key(content, settings), len(texts)
        ) as known_values:
            attributions = attribute_texts(
                encoder, image, texts, settings, known_values, outcome
            )
        return [build_columns(attribution) for attribution in attributions]

    key = {**content, "settings": settings.build_key()}
    rows: list[Row] = result_cache.load_or_compute_json(stored, key, compute)
    return rows
