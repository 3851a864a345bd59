"""MM-SHAP of decoders' answers: rows of the attribution layout, item after item (thesis 4.3)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from waltz.attribution.encoder_rows import count_outcomes, keep_coalitions
from waltz.attribution.item_selection import select_decoder_items
from waltz.attribution.prompt_attribution import (
    PROBABILITY,
    PromptGame,
    PromptSettings,
    attribute_prompts,
    build_columns,
)
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.attribution.shapley.estimators import PUBLISHED_PERMUTATIONS
from waltz.core.digest import digest
from waltz.core.errors import UserError
from waltz.core.files import result_cache
from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.job_records import show_progress
from waltz.core.sampling import rank
from waltz.evaluation.decoder_tasks import build_template, choose_sampling
from waltz.evaluation.prompting.decoder_outputs import LoadImage, choose_label
from waltz.evaluation.prompting.prompts import PromptTemplate, RenderedPrompt, render_prompt
from waltz.evaluation.prompting.questions import Question, build_pairwise_questions, build_single_questions
from waltz.fidelity import get_fidelity
from waltz.model_registry import compute_fingerprint, select_decisive_fields
from waltz.models.decoders.continuations import generate_texts
from waltz.models.decoders.decoder import Decoder, PreparedImage
from waltz.models.visible_image import crops_to_middle_square
from waltz.sources.images import load_image, open_images

Row = dict[str, Any]
KIND = "answer-attributed"
"""Kind of prompt."""


@dataclass(frozen=True)
class AnswerAttribution:
    """A decoder, its prompts, and how its answers are attributed.

    Attributes:
        template: Its prompts, in the profile of the settings.
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
        """Return the settings as they apply to prompts."""
        settings = self.settings
        return PromptSettings(
            get_fidelity(settings.profile).name,
            settings.seed,
            settings.estimator,
            settings.evaluations,
            PUBLISHED_PERMUTATIONS,
            settings.standard_error,
            self.value,
        )

    @property
    def explained(self) -> str:
        """Return the explained value of a token."""
        return self.prompt_settings.explained_value(sees=True)


def compute_decoder_rows(
    attribution: AnswerAttribution,
    items: Iterable[Mapping[str, Any]],
    dataset: str,
    orders: Mapping[str, bool],
    load: LoadImage,
    done: Callable[[int], object],
) -> list[Row]:
    """Return rows of the attribution layout of captions and foils.

    Setting `pairwise`, role `caption`, is of the answer which of both is right (T-SHAP_r); setting `single`, of the
    answers whether one text describes the image (T-SHAP_c, T-SHAP_f).

    In `equations` the label is explained that the model chooses, in `published` a token that it generates: drawn by the
    checkpoint's own generation settings, label or not.

    Args:
        items: Rows of the benchmark layout.
        orders: Whether each item's caption is (A) in the pairwise question, by item.
        done: Called with 1 after each item, for a progress bar.
    Source:
        Thesis 4.3; CC-SHAP-VLM's released scripts (`published`).
    """
    rows: list[Row] = []
    for item in items:
        questions = [*build_pairwise_questions([item], dataset, orders), *build_single_questions([item], dataset)]
        common = [
            {
                "item_id": question.item_id,
                "role": question.role or "caption",
                "profile": attribution.settings.profile,
                "setting": question.form,
                "image": question.image,
                "text": render_prompt(KIND, question, attribution.template).text,
                "explained": attribution.explained,
            }
            for question in questions
        ]
        try:
            columns = _load_or_attribute_item(attribution, questions, load)
        except UserError as error:
            columns = [{"error": str(error)}] * len(questions)
        rows += [{**row, **own} for row, own in zip(common, columns, strict=True)]
        done(1)
    return rows


def _load_or_attribute_item(attribution: AnswerAttribution, questions: list[Question], load: LoadImage) -> list[Row]:
    """Return the columns of each question of one item, computed or stored."""
    decoder, settings = attribution.decoder, attribution.settings
    image = load(str(questions[0].image))
    prompts = [render_prompt(KIND, question, attribution.template) for question in questions]
    content = {
        "texts": [prompt.text for prompt in prompts],
        "labels": [[question.item_id, question.role, question.labels] for question in questions],
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
        usable = [game for game in games if isinstance(game, PromptGame)]
        columns: dict[PromptGame, Row] = {}
        if usable:
            names = ("profile", "estimator", "seed", "grid")
            coalitions = {**content, **{name: getattr(settings, name) for name in names}}
            with keep_coalitions(attribution.stored, coalitions, len(usable)) as known_values:
                attributions = attribute_prompts(
                    decoder, picture, usable, attribution.prompt_settings, known_values, ablate=True
                )
            columns = {own.game: build_columns(decoder, own, settings.seed) for own in attributions}
        return [columns[game] if isinstance(game, PromptGame) else {"error": game} for game in games]

    rows: list[Row] = result_cache.load_or_compute_json(
        attribution.stored, {**content, "settings": asdict(settings)}, compute
    )
    return rows


def _build_game(
    attribution: AnswerAttribution, question: Question, rendered: RenderedPrompt, picture: PreparedImage
) -> PromptGame | str:
    """Return the prompt with the token that is explained, or why there is none."""
    decoder, settings = attribution.decoder, attribution.settings
    try:
        prompt = decoder.build_prompt(rendered.text)
        if get_fidelity(settings.profile).decoder_target == "label":
            label = choose_label(decoder, prompt, picture, question, attribution.template)[1]
            return PromptGame(prompt.text, "", (label,), grid=settings.grid)
        sampling = choose_sampling(decoder, settings.profile)
        seed = rank(f"{question.item_id}:{question.form}:{question.role}:{KIND}", settings.seed) >> 1
        (tokens,) = generate_texts(decoder, [prompt], [picture], 1, sampling, [seed], min_tokens=1)
        return PromptGame(prompt.text, "", tokens, grid=settings.grid)
    except UserError as error:
        return str(error)


def attribute_answers(
    decoder: Decoder,
    datasets: Iterable[DatasetFiles],
    estimation: Mapping[str, Mapping[str, Any]],
    cache: Path,
    *,
    value: str,
    scored: str,
    scored_sample: int | None,
    sample: int | None,
    seed: int,
    shard: slice,
) -> Iterator[DatasetResult]:
    """Attribute the answers of one decoder on one shard of the items of data sets.

    Args:
        decoder: A decoder that reads images.
        scored: `valid` or `all` items are scored.
        scored_sample: Number of items a data set that are scored; None for all.
        sample: Number of these that are attributed; None for all.
    Yields:
        Rows of the attribution layout as `rows`.
    """
    cropped = crops_to_middle_square(lambda image: decoder.prepare_image(image).pixels)
    settings = {
        profile: AnswerAttribution(
            decoder,
            build_template(decoder, profile),
            AttributionSettings(profile, seed=seed, **estimation[profile]),
            cache,
            value,
        )
        for profile in estimation
    }
    for dataset in datasets:
        selected = {
            profile: select_decoder_items(dataset.rows, dataset.name, profile, scored, scored_sample, sample, seed)
            for profile in dataset.select_profiles(estimation)
        }
        total = sum(len(items[shard]) for items, _ in selected.values())
        label = f"{decoder.spec.name} {dataset.name}"
        rows: list[Row] = []
        with open_images(dataset.images) as images, show_progress(total, "item", label) as bar:
            for profile, (items, orders) in selected.items():
                load = partial(load_image, images)
                rows += compute_decoder_rows(settings[profile], items[shard], dataset.name, orders, load, bar.update)
        yield DatasetResult(dataset, {"rows": rows}, total, {"middle_square": cropped, **count_outcomes(rows)})
