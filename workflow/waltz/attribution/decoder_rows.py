"""MM-SHAP of decoders' answers: rows of the attribution layout, item after item (thesis 4.3)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

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
    Row,
    StepSettings,
    build_coalitions_key,
    build_columns,
    count_outcomes,
    keep_coalitions,
)
from waltz.core.digest import digest
from waltz.core.errors import ItemError, UserError
from waltz.core.files import result_cache
from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.job_records import show_progress
from waltz.core.sampling import rank
from waltz.evaluation.decoder_tasks import build_template, choose_sampling
from waltz.evaluation.prompting.decoder_outputs import LoadImage, choose_label
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
from waltz.fidelity import get_fidelity
from waltz.model_registry import compute_fingerprint, select_decisive_fields
from waltz.models.decoders.continuations import generate_texts
from waltz.models.decoders.decoder import Decoder, PreparedImage
from waltz.models.visible_image import crops_to_middle_square
from waltz.sources.images import load_image, open_images

Item = Mapping[str, Any]
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


def compute_decoder_rows(
    attribution: AnswerAttribution,
    items: Iterable[Item],
    dataset: str,
    orders: Mapping[str, bool],
    load: LoadImage,
    done: Callable[[int], object],
) -> list[Row]:
    """Return rows of the attribution layout for the answers of a decoder about captions and foils.

    Rows of setting `pairwise` have the role `caption` and explain the answer to the question which
    of caption and foil is right (T-SHAP_r). Rows of setting `single` explain the answers to the
    question whether one text describes the image (T-SHAP_c, T-SHAP_f).

    `equations` explains the label that the model chooses. `published` explains a token that the
    model generates, label or not; it is drawn by the checkpoint's own generation settings.

    Args:
        items: Rows of the benchmark layout.
        orders: For each item id, whether the caption is (A) in the pairwise question.
        done: Called with 1 after each item, for a progress bar.
    Source:
        Thesis 4.3; CC-SHAP-VLM's released scripts (`published`).
    """
    rows: list[Row] = []
    for item in items:
        questions = [
            *build_pairwise_questions([item], dataset, orders),
            *build_single_questions([item], dataset),
        ]
        rows += _compute_item_rows(attribution, questions, load)
        done(1)
    return rows


def _compute_item_rows(
    attribution: AnswerAttribution, questions: list[Question], load: LoadImage
) -> list[Row]:
    """Return one row for each question about an item; a question that cannot be attributed has an
    error.
    """
    rows: list[Row] = [
        {
            "item_id": question.item_id,
            "role": question.role or "caption",
            "profile": attribution.settings.profile,
            "setting": question.form,
            "image": question.image,
            "explained": attribution.explained,
        }
        for question in questions
    ]
    try:
        # A text that the model's template cannot take, such as one with control tokens, fails
        # before any pass.
        prompts = [
            render_prompt(KIND, question, attribution.template)
            for question in questions
        ]
    except ItemError as error:
        return [{**row, "text": "", "error": str(error)} for row in rows]
    try:
        columns = _load_or_attribute_item(attribution, questions, prompts, load)
    except UserError as error:
        columns = [{"error": str(error)}] * len(questions)
    return [
        {**row, "text": prompt.text, **question_columns}
        for row, prompt, question_columns in zip(rows, prompts, columns, strict=True)
    ]


def _load_or_attribute_item(
    attribution: AnswerAttribution,
    questions: list[Question],
    prompts: list[RenderedPrompt],
    load: LoadImage,
) -> list[Row]:
    """Return the columns of each question about one item, from the cache of results if they are
    stored there.
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

    def compute() -> list[Row]:
        picture = decoder.prepare_image(image)
        games = [
            _build_game(attribution, question, prompt, picture)
            for question, prompt in zip(questions, prompts, strict=True)
        ]
        return _attribute_games(attribution, picture, games, content)

    key = {**content, "settings": settings.build_key()}
    rows: list[Row] = result_cache.load_or_compute_json(
        attribution.stored, key, compute
    )
    return rows


def _attribute_games(
    attribution: AnswerAttribution,
    picture: PreparedImage,
    games: Sequence[PromptGame | str],
    content: Item,
) -> list[Row]:
    """Return the columns of each game, or an error for a question without a game.

    Args:
        games: For each question, its prompt with the explained token, or the reason why there is no
            such token.
        content: All that decides the values of the item's coalitions, except for the settings.
    """
    decoder = attribution.decoder
    # Games of one item advance in step, so that masked images that they share are computed once.
    usable = [game for game in games if isinstance(game, PromptGame)]
    columns: dict[PromptGame, Row] = {}
    if usable:
        key = build_coalitions_key(content, attribution.settings)
        with keep_coalitions(attribution.stored, key, len(usable)) as known_values:
            attributions = attribute_prompts(
                decoder,
                picture,
                usable,
                attribution.prompt_settings,
                known_values,
                ablate=True,
            )
        for game, result in zip(usable, attributions, strict=True):
            outputs = [decoder.decode_text([token]) for token in game.targets]
            columns[game] = {"outputs": outputs, **build_columns(result)}
    return [
        columns[game] if isinstance(game, PromptGame) else {"error": game}
        for game in games
    ]


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
            label = choose_label(
                decoder, prompt, picture, question, attribution.template
            )[1]
            return PromptGame(prompt.text, "", (label,), grid=settings.grid)
        # The released code draws the first token. The seed depends on the question, so that its
        # answer does not depend on the other questions of the run.
        sampling = choose_sampling(decoder, settings.fidelity)
        seed = (
            rank(
                f"{question.item_id}:{question.form}:{question.role}:{KIND}",
                settings.seed,
            )
            >> 1
        )
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
        For each data set, rows of the attribution layout under the name `rows`.
    """
    # The report states next to the values if the model sees only the middle of an image.
    cropped = crops_to_middle_square(lambda image: decoder.prepare_image(image).pixels)
    attributions = {}
    for profile in settings.estimation:
        template = build_template(decoder, get_fidelity(profile))
        attributions[profile] = AnswerAttribution(
            decoder,
            template,
            settings.build_settings(profile),
            cache,
            settings.value or PROBABILITY,
        )
    for dataset in datasets:
        rows, total = _attribute_dataset(attributions, dataset, settings, shard)
        yield DatasetResult(
            dataset,
            {"rows": rows},
            total,
            {"middle_square": cropped, **count_outcomes(rows)},
        )


def _attribute_dataset(
    attributions: Mapping[str, AnswerAttribution],
    dataset: DatasetFiles,
    settings: StepSettings,
    shard: slice,
) -> tuple[list[Row], int]:
    """Return the rows of one data set, and the number of its items.

    Args:
        attributions: The decoder with its settings, for each profile.
    """
    # The sample and the order of captions differ from profile to profile.
    items: dict[str, list[Row]] = {}
    orders: dict[str, dict[str, bool]] = {}
    for profile in dataset.select_profiles(settings.estimation):
        selected, orders[profile] = select_decoder_items(
            dataset.rows,
            dataset.name,
            get_fidelity(profile),
            settings.scored,
            settings.scored_sample,
            settings.sample,
            settings.seed,
        )
        items[profile] = selected[shard]
    total = sum(len(selected) for selected in items.values())
    rows: list[Row] = []
    decoder = next(iter(attributions.values())).decoder
    label = f"{decoder.spec.name} {dataset.name}"
    with (
        open_images(dataset.images) as images,
        show_progress(total, "item", label) as bar,
    ):
        load = partial(load_image, images)
        for profile, selected in items.items():
            rows += compute_decoder_rows(
                attributions[profile],
                selected,
                dataset.name,
                orders[profile],
                load,
                bar.update,
            )
    return rows, total
