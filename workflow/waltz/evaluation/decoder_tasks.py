"""Evaluation tasks of decoders: the questions of one data set in one profile, and the records of
their answers.

A data set has one of three forms: `pairs` of caption and foil, `open` questions about images,
`choice` among labels about text alone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from waltz.core.files import parquet
from waltz.core.files.group_files import DatasetFiles, DatasetResult, DatasetSettings
from waltz.core.jobs.records import show_progress
from waltz.core.layout import POSITION
from waltz.core.records import read_records, to_row
from waltz.core.schema import EvaluationRecord, ItemRecord
from waltz.evaluation import vqa
from waltz.evaluation.decoder_rows import (
    GenerationSettings,
    answer_questions,
    build_choice_records,
    count_predictions,
    generate_chains_of_thought,
    score_labels,
    score_likelihood,
    score_vqascore,
)
from waltz.evaluation.items import select_items
from waltz.evaluation.prompting.decoder_outputs import (
    DecoderSession,
    LoadImage,
    choose_sampling,
)
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
from waltz.evaluation.settings import PromptingSettings, ScoringSettings
from waltz.evaluation.vqa import VqaItem
from waltz.fidelity import Fidelity, get_fidelity
from waltz.models.decoders.decoder import Decoder
from waltz.sources.images import load_image, open_images
from waltz.sources.readers import QUESTIONS, TEXTS

IMAGES_PER_BLOCK = 32
"""Number of images in a block; all questions about them are asked in this block."""
QUESTIONS_PER_BLOCK = 64
"""Number of questions about text in a block."""
ALL_BLOCKS = slice(None)
"""Shard that contains all blocks of a task."""
PROMPTS_PER_ITEM = {"pairs": (7, 6), "open": (1, 2), "choice": (1, 2)}
"""Number of prompts for an item of each form: without a chain of thought, and added by a chain of
thought.
"""


@dataclass(frozen=True)
class DecoderTask:
    """Hold the questions of one data set in one profile.

    Attributes:
        dataset: Name of the data set.
        fidelity: Rules of the questions.
        form: `pairs`, `open` or `choice`.
        items: Items of a benchmark (`pairs`), or open questions about images (`open`).
        questions: The questions of a data set of form `choice`.
        orders: For each item id, whether the caption is (A), for form `pairs`.
        skipped: Number of rows of form `open` or `choice` that cannot be asked, by reason.
    """

    dataset: str
    fidelity: Fidelity
    form: str
    items: tuple[ItemRecord, ...] | tuple[VqaItem, ...] = ()
    questions: tuple[Question, ...] = ()
    orders: Mapping[str, bool] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def blocks(self) -> list[Sequence[Any]]:
        """Return the blocks of items or questions that are computed together; shards consist of
        whole blocks.

        Blocks do not depend on the number of shards, so that stored results are found again if this
        number changes.
        """
        if self.form != "choice":
            return list(_split_by_image(self.items))
        starts = range(0, len(self.questions), QUESTIONS_PER_BLOCK)
        return [self.questions[first : first + QUESTIONS_PER_BLOCK] for first in starts]

    @property
    def item_ids(self) -> list[str]:
        """Return the ids of all items, in order."""
        return [asked.item_id for asked in (*self.items, *self.questions)]

    def count_items(self, shard: slice = ALL_BLOCKS) -> int:
        """Return the number of items in the blocks of a shard."""
        return sum(map(len, self.blocks[shard]))

    def count_prompts(self, cot_tokens: int, shard: slice = ALL_BLOCKS) -> int:
        """Return the number of prompts, repeated ones included.

        Args:
            cot_tokens: Maximum number of tokens of a chain of thought; 0 requests no chain of
                thought.
            shard: The blocks that count.
        """
        prompts, added_by_cot = PROMPTS_PER_ITEM[self.form]
        if cot_tokens:
            prompts += added_by_cot
        return self.count_items(shard) * prompts


def build_task(
    file: str | Path,
    dataset: str,
    entry: DatasetSettings,
    fidelity: Fidelity,
    settings: ScoringSettings,
) -> DecoderTask:
    """Read a data set and select its questions.

    Args:
        file: Parquet of the benchmark, of `QUESTIONS` or of `TEXTS`, by its form.
        dataset: Name of the data set.
        entry: `form` (`pairs`, `open` or `choice`); for the latter two the study's entry, with
            `size` and `choice`.
        fidelity: Rules of the selection and of the orders.
        settings: Settings by which questions are selected.
    Raises:
        UserError: The file does not have the layout of its form, or nothing can be asked.
    """
    seed = settings.seed
    if entry["form"] == "pairs":
        benchmark = list(read_records(file, ItemRecord))
        # Orders are assigned to all items, so that an item is shown in the same order in every
        # sample.
        all_items = select_items(benchmark, settings.scored, None, seed)
        orders = assign_orders(all_items, dataset, fidelity, seed)
        pairs = select_items(benchmark, settings.scored, settings.sample, seed)
        return DecoderTask(
            dataset, fidelity, "pairs", items=tuple(pairs), orders=orders
        )
    if entry["form"] == "open":
        rows = parquet.read_rows(file, QUESTIONS)
        items, unusable = vqa.select_vqa_items(
            dataset, rows, entry["size"], seed, entry.get("choice")
        )
        return DecoderTask(
            dataset, fidelity, "open", items=tuple(items), skipped=dict(unusable)
        )
    selected = select_text_questions(
        parquet.read_rows(file, TEXTS), dataset, fidelity, entry["size"], seed
    )
    skipped = Counter(selected.skipped.values())
    return DecoderTask(
        dataset, fidelity, "choice", questions=selected.questions, skipped=dict(skipped)
    )


def evaluate_task(
    session: DecoderSession,
    task: DecoderTask,
    template: PromptTemplate,
    settings: GenerationSettings,
    shard: slice = ALL_BLOCKS,
) -> list[EvaluationRecord]:
    """Evaluate the blocks of a shard, and return a record for each answer.

    The records are sorted by setting, then in the order of the items.
    """
    records: list[EvaluationRecord] = []
    for block in task.blocks[shard]:
        if task.form == "pairs":
            records += evaluate_pairs(
                session, block, task.dataset, template, dict(task.orders), settings
            )
        elif task.form == "open":
            records += evaluate_open_questions(
                session, block, task.dataset, template, settings
            )
        else:
            records += evaluate_labeled_questions(session, block, template, settings)
    # Blocks group items by image, so that the records are brought into the order of the items again.
    positions = find_positions(records, task)
    order = sorted(range(len(records)), key=positions.__getitem__)
    return [records[index] for index in order]


def find_positions(
    records: Sequence[EvaluationRecord], task: DecoderTask
) -> list[tuple[int, int]]:
    """Return, for each record, the number of its setting (in order of appearance) and of its item
    in the task.
    """
    settings = list(dict.fromkeys(record.setting for record in records))
    setting_positions = {name: position for position, name in enumerate(settings)}
    item_positions = {item: position for position, item in enumerate(task.item_ids)}
    return [
        (setting_positions[record.setting], item_positions[record.item_id])
        for record in records
    ]


def _split_by_image(
    items: Iterable[ItemRecord | VqaItem],
) -> list[list[ItemRecord | VqaItem]]:
    """Split items into blocks by their images, so that each image is opened and encoded once."""
    by_image: dict[str, list[ItemRecord | VqaItem]] = {}
    for item in items:
        by_image.setdefault(item.image, []).append(item)
    # Groups stay in the order in which their images first appear in the file.
    groups = list(by_image.values())
    blocks = []
    for first in range(0, len(groups), IMAGES_PER_BLOCK):
        block_groups = groups[first : first + IMAGES_PER_BLOCK]
        blocks.append(list(chain.from_iterable(block_groups)))
    return blocks


def build_template(decoder: Decoder, fidelity: Fidelity) -> PromptTemplate:
    """Return the prompts of a decoder, as its entry in the registry states.

    In `equations` the prompt file of the entry overrides the prompts of the profile, and the
    model's chat template renders them; for a language model without a chat template the turns are
    joined by line breaks. `published` takes the markers of the entry's family.

    Raises:
        UserError: The family is missing or unknown, or the prompt file is wrong.
    """
    if fidelity.prompts == "families":
        template = build_published_template(get_prompt_family(decoder.spec))
    else:
        # A VL decoder needs its template for the placeholder of the image.
        needs_chat_template = decoder.reads_images or decoder.has_chat_template
        render_turns = decoder.render_chat if needs_chat_template else join_turns
        prompt_file = read_prompt_file(
            fidelity, decoder.spec.prompts or None, decoder.reads_images
        )
        template = build_equations_template(render_turns, prompt_file)
    return replace(template, tokenizer=decoder.tokenizer)


def count_skipped(tasks: Sequence[DecoderTask]) -> dict[str, dict[str, int]]:
    """Count the rows that cannot be asked, by profile and reason; profiles without such rows are
    absent.
    """
    return {task.fidelity.name: dict(task.skipped) for task in tasks if task.skipped}


def evaluate_pairs(
    session: DecoderSession,
    items: Sequence[ItemRecord],
    dataset: str,
    template: PromptTemplate,
    orders: dict[str, bool],
    settings: GenerationSettings,
) -> list[EvaluationRecord]:
    """Return all records of captions and foils: `pairwise`, `single`, both after a chain of thought,
    and text scores.
    """
    single_questions = build_single_questions(items, dataset)
    return [
        *evaluate_labeled_questions(
            session,
            build_pairwise_questions(items, dataset, orders),
            template,
            settings,
        ),
        *evaluate_labeled_questions(session, single_questions, template, settings),
        *score_likelihood(session, single_questions, template),
        *score_vqascore(session, single_questions, template),
    ]


def evaluate_labeled_questions(
    session: DecoderSession,
    questions: Sequence[Question],
    template: PromptTemplate,
    settings: GenerationSettings,
) -> list[EvaluationRecord]:
    """Return records of questions with labels, without and with a chain of thought, in the order of
    the questions.
    """
    # The chain of thought is generated first; then the labels are scored after it.
    fidelity, dtype = template.prompt_file.fidelity, session.decoder.spec.dtype
    records = build_choice_records(
        questions, score_labels(session, questions, template), fidelity, dtype=dtype
    )
    if settings.cot_tokens:
        chains = generate_chains_of_thought(session, questions, template, settings)
        outputs = score_labels(session, questions, template, chains)
        records += build_choice_records(questions, outputs, fidelity, chains, dtype)
    return records


def evaluate_open_questions(
    session: DecoderSession,
    items: Sequence[VqaItem],
    dataset: str,
    template: PromptTemplate,
    settings: GenerationSettings,
) -> list[EvaluationRecord]:
    """Return records of open questions (`vqa.select_vqa_items`), without and with a chain of
    thought.
    """
    # Answers without a chain of thought, then answers after a chain of thought that the same model
    # generates.
    records = answer_questions(session, items, dataset, template, settings)
    if settings.cot_tokens:
        chains = generate_chains_of_thought(
            session, build_open_questions(items, dataset), template, settings
        )
        records += answer_questions(session, items, dataset, template, settings, chains)
    return records


@contextmanager
def open_dataset_images(dataset: DatasetFiles) -> Iterator[LoadImage]:
    """Yield the function that opens an image of a data set by its name; a data set of texts has no
    images to open.
    """
    if not dataset.images:
        yield _refuse_image
        return
    with open_images(dataset.images) as images:
        yield partial(load_image, images)


def _refuse_image(name: str) -> NoReturn:
    raise ValueError(f"image {name!r} of a data set without images")


def prompt_datasets(
    decoder: Decoder,
    datasets: Iterable[DatasetFiles],
    cache: Path,
    settings: PromptingSettings,
    shard: slice = ALL_BLOCKS,
) -> Iterator[DatasetResult]:
    """Prompt one decoder with one shard of the questions of each data set.

    Args:
        decoder: A loaded decoder.
        datasets: Files of the data sets, with their form.
        cache: File of finished blocks.
        settings: Settings by which questions are selected and asked.
        shard: Blocks of each data set.
    Yields:
        For each data set, rows of the evaluation layout with their position, under the name
        `scores`.
    """
    templates: dict[str, PromptTemplate] = {}
    generation: dict[str, GenerationSettings] = {}
    for profile in settings.profiles:
        fidelity = get_fidelity(profile)
        templates[profile] = build_template(decoder, fidelity)
        generation[profile] = GenerationSettings(
            settings.seed, choose_sampling(decoder), settings.cot_tokens
        )
    for dataset in datasets:
        tasks = []
        for profile in dataset.select_profiles(settings.profiles):
            tasks.append(
                build_task(
                    dataset.rows,
                    dataset.name,
                    dataset.settings,
                    get_fidelity(profile),
                    settings,
                )
            )
        n_prompts = sum(
            task.count_prompts(settings.cot_tokens, shard) for task in tasks
        )
        label = f"{decoder.spec.name} {dataset.name}"
        # Results are stored by block, so that a killed job continues after its last finished block.
        with (
            open_dataset_images(dataset) as load,
            show_progress(n_prompts, "prompt", label) as bar,
        ):
            session = DecoderSession(decoder, load, cache, bar.update)
            records: list[EvaluationRecord] = []
            rows: list[dict[str, object]] = []
            for task_position, task in enumerate(tasks):
                answers = evaluate_task(
                    session,
                    task,
                    templates[task.fidelity.name],
                    generation[task.fidelity.name],
                    shard,
                )
                records += answers
                positions = find_positions(answers, task)
                for record, position in zip(answers, positions, strict=True):
                    rows.append(
                        {**to_row(record), POSITION: [task_position, *position]}
                    )
        facts = {
            "generation": {
                task.fidelity.name: asdict(generation[task.fidelity.name])
                for task in tasks
            },
            "skipped": count_skipped(tasks),
            **count_predictions(records),
        }
        yield DatasetResult(
            dataset,
            {"scores": rows},
            sum(task.count_items(shard) for task in tasks),
            facts,
        )
