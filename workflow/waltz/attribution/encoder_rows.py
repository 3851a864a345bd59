"""MM-SHAP of encoders: records of attributions, item after item, each stored as soon as it is
computed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from waltz.attribution.item_selection import (
    select_attributed_items,
    select_attributed_questions,
)
from waltz.attribution.mm_shap import attribute_texts, name_explained_value
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.attribution.stored_rows import (
    Content,
    StepSettings,
    add_error,
    add_values,
    attribute_selected_items,
    build_coalitions_key,
    keep_coalitions,
    load_or_attribute,
    set_item_seed,
)
from waltz.core.digest import digest
from waltz.core.errors import UserError
from waltz.core.files import parquet, result_cache
from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.schema import AttributionRecord, ItemRecord, ProbeRecord
from waltz.evaluation.items import list_texts
from waltz.evaluation.settings import ALIGNMENT
from waltz.evaluation.vqa import ANSWER, ANSWERING, VqaItem
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
from waltz.sources.images import ImageSource, load_image


def attribute_datasets(
    encoder: Encoder,
    datasets: Iterable[DatasetFiles],
    settings: StepSettings,
    cache: Path,
    shard: slice,
) -> Iterator[DatasetResult]:
    """Attribute the scores that one encoder gives to one shard of the items of each data set.

    Yields:
        For each data set, `AttributionRecord`s under the name `rows`.
    """
    facts = {"middle_square": crops_to_middle_square(encoder.prepare_image)}
    for dataset in datasets:
        attribute = partial(attribute_texts_of_items, encoder, cache, dataset.name)
        selected: dict[AttributionSettings, Sequence[ItemRecord | ProbeRecord]] = {}
        profiles = dataset.select_profiles(settings.estimation)
        for estimation in settings.build_settings(profiles):
            items = select_attributed_items(dataset.rows, estimation.fidelity, settings)
            selected[estimation] = items[shard]
        yield attribute_selected_items(
            encoder.spec.name, dataset, selected, attribute, facts
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
        For each data set, `AttributionRecord`s under the name `rows`.
    """
    for dataset in datasets:
        attribute = partial(attribute_answers_of_items, encoder, cache, dataset.name)
        source = parquet.read_table(dataset.rows).to_pylist()
        selected: dict[AttributionSettings, Sequence[VqaItem]] = {}
        for estimation in settings.build_settings(settings.estimation):
            items = select_attributed_questions(
                source, dataset.name, dataset.settings, estimation.fidelity, settings
            )
            selected[estimation] = items[shard]
        yield attribute_selected_items(
            encoder.spec.name, dataset, selected, attribute, {}
        )


def attribute_texts_of_items(
    encoder: Encoder,
    cache: Path,
    dataset: str,
    settings: AttributionSettings,
    items: Iterable[ItemRecord | ProbeRecord],
    images: ImageSource,
    done: Callable[[int], object],
) -> list[AttributionRecord]:
    """Return a record for every text of every item; an item without its image has an error.

    Args:
        cache: File of stored attributions.
        dataset: Name of the data set in the study.
        items: Items of a benchmark or of CV-Probes.
        done: Called with 1 after each item, for a progress bar.
    """
    content = _describe_encoder(encoder)
    records: list[AttributionRecord] = []
    for item in items:
        texts = []
        for role, text in list_texts(item):
            texts.append(
                AttributionRecord(
                    item_id=item.item_id,
                    role=role,
                    profile=settings.profile,
                    setting=label_setting(encoder, ALIGNMENT),
                    image=item.image,
                    text=text,
                    explained=name_explained_value(encoder),
                )
            )
        # An item that fails keeps its records, with the reason.
        try:
            image = _load_image(encoder, item.image, images)
            item_settings = set_item_seed(settings, dataset, item.item_id)
            records += _load_or_attribute_texts(
                encoder, image, texts, item_settings, cache, content
            )
        except UserError as error:
            records += add_error(texts, error)
        done(1)
    return records


def attribute_answers_of_items(
    encoder: AnsweringEncoder,
    cache: Path,
    dataset: str,
    settings: AttributionSettings,
    items: Iterable[VqaItem],
    images: ImageSource,
    done: Callable[[int], object],
) -> list[AttributionRecord]:
    """Return a record for each answer of an encoder, with role `answer` and setting `answering`.

    The explained value is the probability, among all answers, of the answer that the unmasked input
    gets.

    Args:
        cache: File of stored attributions.
        dataset: Name of the data set in the study.
        items: The questions.
        done: Called with 1 after each item, for a progress bar.
    Source:
        MM-SHAP (Parcalabescu & Frank, ACL 2023) and its released scripts; thesis 4.3 and 4.4.
    """
    content = _describe_encoder(encoder)
    records: list[AttributionRecord] = []
    for item in items:
        question = item.question
        record = AttributionRecord(
            item_id=item.item_id,
            role=ANSWER,
            profile=settings.profile,
            setting=label_setting(encoder, ANSWERING),
            image=item.image,
            text=question,
            explained="probability",
        )
        try:
            image = _load_image(encoder, item.image, images)
            # A masked input is scored by the probability of the answer to the unmasked input, even
            # where the encoder would answer the masked input differently.
            answer = answer_question(encoder, encoder.prepare_image(image), question)
            answer_content = {**content, "answer": answer.index}
            outcome = build_answer_probability(answer)
            item_settings = set_item_seed(settings, dataset, item.item_id)
            (record,) = _load_or_attribute_texts(
                encoder, image, [record], item_settings, cache, answer_content, outcome
            )
            records.append(replace(record, outputs=[answer.text]))
        except UserError as error:
            records += add_error([record], error)
        done(1)
    return records


def _describe_encoder(encoder: Encoder) -> Content:
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
    records: Sequence[AttributionRecord],
    settings: AttributionSettings,
    cache: Path,
    encoder_content: Content,
    outcome: Outcome | None = None,
) -> list[AttributionRecord]:
    """Return the records of texts with one image, with their values, from the cache of results if
    they are stored there.
    """
    texts = [record.text for record in records]
    # The key names all that decides the values: image, texts, model, code and settings.
    content = {
        "texts": texts,
        "image": result_cache.compute_array_key(image.tobytes(), image.size),
        **encoder_content,
    }

    def attribute() -> list[AttributionRecord]:
        key = build_coalitions_key(content, settings)
        with keep_coalitions(cache, key, len(texts)) as known_values:
            attributions = attribute_texts(
                encoder, image, texts, settings, known_values, outcome
            )
        return list(map(add_values, records, attributions))

    key = {**content, "settings": settings.build_key()}
    return load_or_attribute(cache, key, records, attribute)
