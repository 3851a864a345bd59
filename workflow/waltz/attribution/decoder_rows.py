"""MM-SHAP of decoders' answers: records of attributions, item after item (thesis 4.3)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from waltz.attribution.engine import Attribution
from waltz.attribution.item_selection import select_decoder_items
from waltz.attribution.prompt_attribution import (
    PROBABILITY,
    PromptGame,
    PromptSettings,
    attribute_prompts,
)
from waltz.attribution.published import PUBLISHED_PERMUTATIONS
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
from waltz.core.errors import ItemError, UserError
from waltz.core.files import result_cache
from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.sampling import rank
from waltz.core.schema import AttributionRecord, ItemRecord
from waltz.evaluation.decoder_tasks import build_template
from waltz.evaluation.prompting.decoder_outputs import (
    LoadImage,
    choose_label,
    choose_sampling,
    select_sampling,
)
from waltz.evaluation.prompting.prompts import (
    PromptTemplate,
    RenderedPrompt,
    render_prompt,
)
from waltz.evaluation.prompting.questions import (
    Question,
    build_pairwise_questions,
    build_single_questions,
)
from waltz.model_registry import compute_fingerprint, select_decisive_fields
from waltz.models.decoders.continuations import generate_texts
from waltz.models.decoders.decoder import Decoder, PreparedImage
from waltz.models.visible_image import crops_to_middle_square
from waltz.sources.images import ImageSource, load_image

KIND = "answer-attributed"
"""Kind of the prompts whose answers are attributed."""


@dataclass(frozen=True)
class AnswerAttribution:
    """Hold a decoder, its prompts, and the settings by which its answers are attributed.

    Attributes:
        template: Prompts of the decoder, in the profile of the settings.
        stored: File of attributed items.
        value: For `equations`, the explained value of a token: a key of `continuations.OUTCOMES`.
    """

    decoder: Decoder
    template: PromptTemplate
    settings: AttributionSettings
    stored: Path
    value: str = PROBABILITY

    @property
    def prompt_settings(self) -> PromptSettings:
        """Return the settings in the form that the attribution of prompts takes."""
        settings = self.settings
        return PromptSettings(
            settings.fidelity,
            settings.seed,
            settings.estimator,
            settings.evaluations,
            permutations=PUBLISHED_PERMUTATIONS,
            standard_error=settings.standard_error,
            value=self.value,
        )

    @property
    def explained(self) -> str:
        """Return the name of the value of a token that is explained, such as `probability`."""
        return self.prompt_settings.explained_value(sees=True)


def attribute_answers_about_items(
    attribution: AnswerAttribution,
    items: Iterable[ItemRecord],
    dataset: str,
    orders: Mapping[str, bool],
    load: LoadImage,
    done: Callable[[int], object],
) -> list[AttributionRecord]:
    """Return records of the attributions of a decoder's answers about captions and foils.

    Records of setting `pairwise` have the role `caption` and explain the answer to the question
    which of caption and foil is right (T-SHAP_r). Records of setting `single` explain the answers
    to the question whether one text describes the image (T-SHAP_c, T-SHAP_f).

    `equations` explains the label that the model chooses. `published` explains a token that the
    model generates, label or not; it is drawn by the checkpoint's own generation settings.

    Args:
        items: Rows of the benchmark layout.
        orders: For each item id, whether the caption is (A) in the pairwise question.
        done: Called with 1 after each item, for a progress bar.
    Source:
        Thesis 4.3; CC-SHAP-VLM's released scripts (`published`).
    """
    records: list[AttributionRecord] = []
    for item in items:
        questions = [
            *build_pairwise_questions([item], dataset, orders),
            *build_single_questions([item], dataset),
        ]
        settings = set_item_seed(attribution.settings, dataset, item.item_id)
        item_attribution = replace(attribution, settings=settings)
        records += _attribute_item(item_attribution, questions, load)
        done(1)
    return records


def _attribute_item(
    attribution: AnswerAttribution, questions: list[Question], load: LoadImage
) -> list[AttributionRecord]:
    """Return one record for each question about an item; a question that cannot be attributed has
    an error.
    """
    records = [_name_answer(attribution, question) for question in questions]
    try:
        # A text that the model's template cannot take, such as one with control tokens, fails
        # before any pass.
        prompts = [
            render_prompt(KIND, question, attribution.template)
            for question in questions
        ]
    except ItemError as error:
        return add_error(records, error)
    records = [
        replace(record, text=prompt.text)
        for record, prompt in zip(records, prompts, strict=True)
    ]
    try:
        return _load_or_attribute_item(attribution, questions, prompts, records, load)
    except UserError as error:
        return add_error(records, error)


def _name_answer(
    attribution: AnswerAttribution, question: Question
) -> AttributionRecord:
    """Return the record of the answer to a question, without its prompt and values."""
    return AttributionRecord(
        item_id=question.item_id,
        role=question.role or "caption",
        profile=attribution.settings.profile,
        setting=question.form,
        image=question.image,
        text="",
        explained=attribution.explained,
    )


def _load_or_attribute_item(
    attribution: AnswerAttribution,
    questions: list[Question],
    prompts: list[RenderedPrompt],
    records: list[AttributionRecord],
    load: LoadImage,
) -> list[AttributionRecord]:
    """Return the records of the questions about one item with their values, from the cache of
    results if they are stored there.
    """
    decoder, settings = attribution.decoder, attribution.settings
    image = load(str(questions[0].image))
    # The key names all that decides the values: prompts, labels, image, model, device, code and
    # explained value.
    content = {
        "texts": [prompt.text for prompt in prompts],
        "labels": [
            [question.item_id, question.role, question.labels] for question in questions
        ],
        "image": result_cache.compute_array_key(image.tobytes(), image.size),
        "model": compute_fingerprint(decoder.spec),
        "entry": select_decisive_fields(decoder.spec),
        "device": decoder.device.partition(":")[0],
        "code": digest(__file__, type(decoder).__module__),
        "value": attribution.explained,
    }

    def attribute() -> list[AttributionRecord]:
        picture = decoder.prepare_image(image)
        games = [
            _build_game(attribution, question, prompt, picture)
            for question, prompt in zip(questions, prompts, strict=True)
        ]
        return _attribute_games(attribution, picture, games, records, content)

    key = {**content, "settings": settings.build_key()}
    return load_or_attribute(attribution.stored, key, records, attribute)


def _attribute_games(
    attribution: AnswerAttribution,
    picture: PreparedImage,
    games: Sequence[PromptGame | str],
    records: Sequence[AttributionRecord],
    content: Content,
) -> list[AttributionRecord]:
    """Return the records with the values of their games, or with an error if a question has no
    game.

    Args:
        games: For each question, its prompt with the explained token, or the reason why there is no
            such token.
        records: For each question, the record that names it.
        content: All that decides the values of the item's coalitions, except for the settings.
    """
    decoder = attribution.decoder
    # Games of one item advance in step, so that masked images that they share are computed once.
    usable = [game for game in games if isinstance(game, PromptGame)]
    attributions: dict[PromptGame, Attribution] = {}
    if usable:
        key = build_coalitions_key(content, attribution.settings)
        with keep_coalitions(attribution.stored, key, len(usable)) as known_values:
            attributed = attribute_prompts(
                decoder,
                picture,
                usable,
                attribution.prompt_settings,
                known_values,
                ablate=True,
            )
        attributions = dict(zip(usable, attributed, strict=True))

    attributed_records = []
    for game, record in zip(games, records, strict=True):
        if isinstance(game, str):
            attributed_records.append(replace(record, error=game))
            continue
        outputs = [decoder.decode_text([token]) for token in game.targets]
        named = replace(record, outputs=outputs)
        attributed_records.append(add_values(named, attributions[game]))
    return attributed_records


def _build_game(
    attribution: AnswerAttribution,
    question: Question,
    rendered: RenderedPrompt,
    picture: PreparedImage,
) -> PromptGame | str:
    """Return the prompt with the token that is explained, or the reason why there is no such token."""
    decoder, settings = attribution.decoder, attribution.settings
    try:
        prompt = decoder.build_prompt(rendered.text)
        if settings.fidelity.decoder_target == "label":
            _, label_id = choose_label(
                decoder, prompt, picture, question, attribution.template
            )
            return PromptGame(prompt.text, "", (label_id,), grid=settings.grid)
        # The released code draws the first token. The seed depends on the question, so that its
        # answer does not depend on the other questions of the run.
        sampling = select_sampling(
            choose_sampling(decoder), "answer", settings.fidelity
        )
        seed_name = f"{question.item_id}:{question.form}:{question.role}:{KIND}"
        seed = rank(seed_name, settings.seed) >> 1  # torch takes 63 bits
        (tokens,) = generate_texts(
            decoder, [prompt], [picture], 1, sampling, [seed], min_tokens=1
        )
        return PromptGame(prompt.text, "", tokens, grid=settings.grid)
    except UserError as error:
        return str(error)


def attribute_answers(
    decoder: Decoder,
    datasets: Iterable[DatasetFiles],
    settings: StepSettings,
    cache: Path,
    shard: slice,
) -> Iterator[DatasetResult]:
    """Attribute the answers of one decoder to one shard of the items of each data set.

    Args:
        decoder: A decoder that reads images.
    Yields:
        For each data set, `AttributionRecord`s under the name `rows`.
    """
    # The report states next to the values if the model sees only the middle of an image.
    cropped = crops_to_middle_square(lambda image: decoder.prepare_image(image).pixels)
    attributions: dict[str, AnswerAttribution] = {}
    for estimation in settings.build_settings(settings.estimation):
        attributions[estimation.profile] = AnswerAttribution(
            decoder,
            build_template(decoder, estimation.fidelity),
            estimation,
            cache,
            settings.value or PROBABILITY,
        )
    for dataset in datasets:
        # The sample and the order of captions differ from profile to profile.
        selected: dict[AttributionSettings, Sequence[ItemRecord]] = {}
        orders: dict[str, dict[str, bool]] = {}
        for profile in dataset.select_profiles(settings.estimation):
            estimation = attributions[profile].settings
            items, orders[profile] = select_decoder_items(
                dataset.rows, dataset.name, estimation.fidelity, settings
            )
            selected[estimation] = items[shard]

        attribute = partial(_attribute_dataset, attributions, dataset.name, orders)
        yield attribute_selected_items(
            decoder.spec.name, dataset, selected, attribute, {"middle_square": cropped}
        )


def _attribute_dataset(
    attributions: Mapping[str, AnswerAttribution],
    dataset: str,
    orders: Mapping[str, Mapping[str, bool]],
    settings: AttributionSettings,
    items: Sequence[ItemRecord],
    images: ImageSource,
    done: Callable[[int], object],
) -> list[AttributionRecord]:
    """Return the records of the selected items of one data set in the profile of the settings.

    Args:
        attributions: The decoder with its prompts, by profile.
        orders: The order of the captions of each item, by profile.
    """
    return attribute_answers_about_items(
        attributions[settings.profile],
        items,
        dataset,
        orders[settings.profile],
        partial(load_image, images),
        done,
    )
