"""Evaluation tasks of decoders: the questions of one data set in one profile, and the rows of their answers.

A data set has one of three forms: `pairs` of caption and foil, `open` questions about images, `choice` among labels
about text alone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from waltz.core.files import parquet
from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.job_records import show_progress
from waltz.core.schema import BENCHMARK, POSITION
from waltz.evaluation import vqa
from waltz.evaluation.decoder_rows import (
    GenerationSettings,
    Row,
    answer_questions,
    build_choice_rows,
    count_outcomes,
    generate_chains_of_thought,
    score_labels,
    score_likelihood,
    score_vqascore,
)
from waltz.evaluation.items import select_items
from waltz.evaluation.prompting.decoder_outputs import DecoderSession
from waltz.evaluation.prompting.prompt_files import get_prompt_family, read_prompt_file
from waltz.evaluation.prompting.prompts import (
    PromptTemplate,
    build_equations_template,
    build_published_template,
    join_turns,
)
from waltz.evaluation.prompting.questions import (
    Question,
    assign_orders,
    build_open_questions,
    build_pairwise_questions,
    build_single_questions,
    select_text_questions,
)
from waltz.fidelity import get_fidelity
from waltz.models.decoders.continuations import get_published_sampling
from waltz.models.decoders.decoder import Decoder, Sampling
from waltz.sources.images import load_image, open_images
from waltz.sources.readers import QUESTIONS, TEXTS

IMAGES_PER_BLOCK = 32
"""Images whose questions are all asked before those of other images."""
QUESTIONS_PER_BLOCK = 64
"""Text questions that are asked together."""
ALL_BLOCKS = slice(None)
"""The shard of a task that is not cut."""
PROMPTS_PER_ITEM = {"pairs": (7, 6), "open": (1, 2), "choice": (1, 2)}
"""Prompts for an item of each form without a chain of thought, and those that a chain of thought adds."""


@dataclass(frozen=True)
class DecoderTask:
    """The questions of one data set in one profile.

    Attributes:
        dataset: Name of the data set.
        profile: `equations` or `published`.
        form: `pairs`, `open` or `choice`.
        items: Rows of the benchmark (`pairs`), or of `vqa.select_questions` (`open`).
        questions: The questions of a data set of form `choice`.
        orders: Whether each item's caption is (A), for form `pairs`.
        skipped: Number of rows of form `open` or `choice` that cannot be asked, by reason.
    """

    dataset: str
    profile: str
    form: str
    items: tuple[Mapping[str, Any], ...] = ()
    questions: tuple[Question, ...] = ()
    orders: Mapping[str, bool] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def blocks(self) -> list[Sequence[Any]]:
        """Items or questions that are computed together; shards are made of whole blocks.

        Blocks do not depend on the number of shards, so that stored results are found again with another one.
        """
        if self.form != "choice":
            return list(_split_by_image(self.items))
        starts = range(0, len(self.questions), QUESTIONS_PER_BLOCK)
        return [self.questions[first : first + QUESTIONS_PER_BLOCK] for first in starts]

    @property
    def item_ids(self) -> list[str]:
        """Ids of all items, in order."""
        return [*(item["item_id"] for item in self.items), *(question.item_id for question in self.questions)]

    def count_items(self, shard: slice = ALL_BLOCKS) -> int:
        """Return the number of items in some blocks."""
        return sum(map(len, self.blocks[shard]))

    def count_prompts(self, cot_tokens: int, shard: slice = ALL_BLOCKS) -> int:
        """Return the number of prompts, repeated ones included; `cot_tokens` 0 asks for no chain of thought."""
        without_cot, added_by_cot = PROMPTS_PER_ITEM[self.form]
        return self.count_items(shard) * (without_cot + (added_by_cot if cot_tokens else 0))


def build_task(
    file: str | Path,
    dataset: str,
    entry: Mapping[str, Any],
    profile: str,
    *,
    scored: str,
    sample: int | None,
    seed: int,
) -> DecoderTask:
    """Read a data set and select its questions.

    Args:
        file: Parquet of the benchmark, of `QUESTIONS` or of `TEXTS`, by its form.
        entry: `form` (`pairs`, `open` or `choice`); for the latter two the study's entry, with `size` and `choice`.
        scored: `valid` or `all` pairs, as in `evaluation.items`.
        sample: Number of pairs, or None.
    Raises:
        UserError: The file does not have the layout of its form, or nothing can be asked.
    """
    if entry["form"] == "pairs":
        benchmark = parquet.read(file, BENCHMARK)
        orders = assign_orders(select_items(benchmark, scored, None, seed).to_pylist(), dataset, profile, seed)
        items = select_items(benchmark, scored, sample, seed).to_pylist()
        return DecoderTask(dataset, profile, "pairs", items=tuple(items), orders=orders)
    if entry["form"] == "open":
        rows = parquet.read_rows(file, QUESTIONS)
        items, unusable = vqa.select_questions(dataset, rows, entry["size"], seed, entry.get("choice"))
        return DecoderTask(dataset, profile, "open", items=tuple(items), skipped=dict(unusable))
    selected = select_text_questions(parquet.read_rows(file, TEXTS), dataset, profile, entry["size"], seed)
    skipped = Counter(selected.skipped.values())
    return DecoderTask(dataset, profile, "choice", questions=selected.questions, skipped=dict(skipped))


def evaluate_task(
    session: DecoderSession,
    task: DecoderTask,
    template: PromptTemplate,
    settings: GenerationSettings,
    shard: slice = ALL_BLOCKS,
) -> list[dict[str, Any]]:
    """Return rows of the evaluation layout of some blocks, one setting after the other, in the order of the items."""
    rows: list[dict[str, Any]] = []
    for block in task.blocks[shard]:
        if task.form == "pairs":
            rows += evaluate_pairs(session, block, task.dataset, template, dict(task.orders), settings)
        elif task.form == "open":
            rows += evaluate_open_questions(session, block, task.dataset, template, settings)
        else:
            rows += evaluate_labelled_questions(session, block, template, settings)
    positions = find_positions(rows, task)
    return [rows[index] for index in sorted(range(len(rows)), key=positions.__getitem__)]


def find_positions(rows: Sequence[Mapping[str, Any]], task: DecoderTask) -> list[tuple[int, int]]:
    """Return the number of each row's setting, by appearance, and of its item in the whole task."""
    settings = {name: place for place, name in enumerate(dict.fromkeys(row["setting"] for row in rows))}
    items = {item: place for place, item in enumerate(task.item_ids)}
    return [(settings[row["setting"]], items[row["item_id"]]) for row in rows]


def _split_by_image(items: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Return the items of some images at a time, so that each image is opened and encoded once."""
    by_image: dict[str, list[Mapping[str, Any]]] = {}
    for item in items:
        by_image.setdefault(item["image"], []).append(item)
    groups = list(by_image.values())
    return [
        [item for group in groups[first : first + IMAGES_PER_BLOCK] for item in group]
        for first in range(0, len(groups), IMAGES_PER_BLOCK)
    ]


def build_template(decoder: Decoder, profile: str) -> PromptTemplate:
    """Return the prompts of a decoder in a profile, as its entry states.

    `equations` reads the entry's prompt file over its own prompts and renders them by the model's chat template; for a
    language model without one it joins the turns by line breaks. `published` takes the markers of the entry's family.

    Raises:
        UserError: The family is missing or unknown, or the prompt file is at fault.
    """
    if get_fidelity(profile).prompts == "families":
        return build_published_template(get_prompt_family(decoder.spec))
    has_no_chat_template = not decoder.reads_images and not decoder.has_chat_template
    return build_equations_template(
        join_turns if has_no_chat_template else decoder.render_chat,
        read_prompt_file(profile, decoder.spec.prompts or None),
    )


def count_skipped(tasks: Sequence[DecoderTask]) -> dict[str, dict[str, int]]:
    """Return by profile and reason the number of rows that cannot be asked; profiles without any are absent."""
    return {task.profile: dict(task.skipped) for task in tasks if task.skipped}


def choose_sampling(decoder: Decoder, profile: str) -> Sampling | None:
    """Return the sampling settings of a profile: None in `equations`; in `published` VL decoders always sample.

    Language models sample in `published` where their own generation settings do.
    """
    if not get_fidelity(profile).samples_text:
        return None
    if not decoder.reads_images and not decoder.network.model.generation_config.do_sample:
        return None
    return get_published_sampling(decoder)


def evaluate_pairs(
    session: DecoderSession,
    items: Sequence[Row],
    dataset: str,
    template: PromptTemplate,
    orders: dict[str, bool],
    settings: GenerationSettings,
) -> list[dict[str, Any]]:
    """Return rows of captions and foils: `pairwise`, `single`, both after a chain of thought, and the text scores."""
    single_questions = build_single_questions(items, dataset)
    return [
        *evaluate_labelled_questions(session, build_pairwise_questions(items, dataset, orders), template, settings),
        *evaluate_labelled_questions(session, single_questions, template, settings),
        *score_likelihood(session, single_questions, template),
        *score_vqascore(session, single_questions, template),
    ]


def evaluate_labelled_questions(
    session: DecoderSession, questions: Sequence[Question], template: PromptTemplate, settings: GenerationSettings
) -> list[dict[str, Any]]:
    """Return rows of questions with labels, without and with a chain of thought, in the order of the questions."""
    profile = template.prompt_file.profile
    rows = build_choice_rows(questions, score_labels(session, questions, template), profile)
    if settings.cot_tokens:
        chains = generate_chains_of_thought(session, questions, template, settings)
        rows += build_choice_rows(questions, score_labels(session, questions, template, chains), profile, chains)
    return rows


def evaluate_open_questions(
    session: DecoderSession,
    items: Sequence[Row],
    dataset: str,
    template: PromptTemplate,
    settings: GenerationSettings,
) -> list[dict[str, Any]]:
    """Return rows of open questions (`vqa.select_questions`), without and with a chain of thought."""
    rows = answer_questions(session, items, dataset, template, settings)
    if settings.cot_tokens:
        chains = generate_chains_of_thought(session, build_open_questions(items, dataset), template, settings)
        rows += answer_questions(session, items, dataset, template, settings, chains)
    return rows


def prompt_datasets(
    decoder: Decoder,
    datasets: Iterable[DatasetFiles],
    profiles: Sequence[str],
    cache: Path,
    *,
    scored: str,
    sample: int | None,
    seed: int,
    cot_tokens: int,
    shard: slice = ALL_BLOCKS,
) -> Iterator[DatasetResult]:
    """Prompt one decoder with one shard of the questions of data sets.

    Args:
        datasets: Files of the data sets, with their form.
        scored: `valid` or `all` items.
        sample: Number of items per data set; None takes all.
        cot_tokens: Most tokens of a chain of thought; 0 asks for no answers after one.
        shard: Blocks of each data set.
    Yields:
        Rows of the evaluation layout with their position, as `scores`.
    """
    templates = {profile: build_template(decoder, profile) for profile in profiles}
    settings = {
        profile: GenerationSettings(seed, choose_sampling(decoder, profile), cot_tokens) for profile in profiles
    }
    for dataset in datasets:
        tasks = [
            build_task(dataset.rows, dataset.name, dataset.settings, profile, scored=scored, sample=sample, seed=seed)
            for profile in dataset.select_profiles(profiles)
        ]
        prompts, label = (
            sum(task.count_prompts(cot_tokens, shard) for task in tasks),
            f"{decoder.spec.name} {dataset.name}",
        )
        images: AbstractContextManager[Any] = open_images(dataset.images) if dataset.images else nullcontext()
        with images as source, show_progress(prompts, "prompt", label) as bar:
            session = DecoderSession(decoder, partial(load_image, source), cache, bar.update)
            rows: list[dict[str, Any]] = []
            for place, task in enumerate(tasks):
                answers = evaluate_task(session, task, templates[task.profile], settings[task.profile], shard)
                positions = find_positions(answers, task)
                rows += [
                    {**row, POSITION: [place, *position]} for row, position in zip(answers, positions, strict=True)
                ]
        settings_of_profile = {task.profile: asdict(settings[task.profile]) for task in tasks}
        facts = {"generation": settings_of_profile, "skipped": count_skipped(tasks), **count_outcomes(rows)}
        yield DatasetResult(dataset, {"scores": rows}, sum(task.count_items(shard) for task in tasks), facts)
