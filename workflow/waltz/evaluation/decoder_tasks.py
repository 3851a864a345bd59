"""What a data set asks a decoder in one profile, and the rows that come of it.

A data set has one of three forms: `pairs` of caption and foil, `open` questions about images, `choice` among labels
about text alone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from waltz.core.files import parquet
from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.job_log import show_progress
from waltz.core.schema import BENCHMARK
from waltz.evaluation import vqa_items
from waltz.evaluation.decoders import Saying, benchmark_rows, labelled_rows, open_rows, orders_of, sampling_of
from waltz.evaluation.items import select
from waltz.evaluation.label_choice import tally
from waltz.evaluation.prompting.generation_cache import Examinee
from waltz.evaluation.prompting.prompt_families import family_of
from waltz.evaluation.prompting.prompt_files import read_wording
from waltz.evaluation.prompting.prompts import Voice, equations, published, without_template
from waltz.evaluation.prompting.questions import Question
from waltz.evaluation.prompting.text_questions import text_questions
from waltz.models.decoders.decoder import Decoder
from waltz.models.decoders.language_model import LanguageModel
from waltz.sources.images import load_image, open_images
from waltz.sources.layouts import QUESTIONS, TEXTS

IMAGES = 32
"""Images all of whose questions are asked before those of others."""
PROMPTS = {"pairs": (7, 6), "open": (1, 2), "choice": (1, 2)}
"""Prompts that an item of each form takes at once, and those that a chain of thought adds."""


@dataclass(frozen=True)
class Posed:
    """What is asked of one data set in one profile.

    Attributes:
        dataset: Name of the data set.
        profile: `equations` or `published`.
        form: `pairs`, `open` or `choice`.
        items: Rows of the benchmark (`pairs`), or those that `answers.questions` chose (`open`).
        questions: The questions of a data set of form `choice`.
        orders: Whether each item's caption is (A), of form `pairs`.
        left_out: Rows of form `open` or `choice` that cannot be asked, counted by reason.
    """

    dataset: str
    profile: str
    form: str
    items: tuple[Mapping[str, Any], ...] = ()
    questions: tuple[Question, ...] = ()
    orders: Mapping[str, bool] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        """Number of items."""
        return len(self.items) + len(self.questions)

    def prompts(self, thought: int) -> int:
        """How many prompts are put, those that repeat included.

        Args:
            thought: Most tokens of a chain of thought; 0 asks for no answers after one.
        """
        at_once, after = PROMPTS[self.form]
        return len(self) * (at_once + (after if thought else 0))


def posed(
    file: str | Path,
    dataset: str,
    entry: Mapping[str, Any],
    profile: str,
    *,
    scored: str,
    sample: int | None,
    seed: int,
) -> Posed:
    """What a data set asks.

    Args:
        file: Parquet of the benchmark, of `QUESTIONS` or of `TEXTS`, by its form.
        dataset: Name of the data set.
        entry: `form` (`pairs`, `open` or `choice`); of the latter two the study's entry, with `size` and `choice`.
        profile: `equations` or `published`.
        scored: `valid` or `all` pairs, as in `evaluation.items`.
        sample: Number of pairs, or None.
        seed: The study's seed.
    Raises:
        UserError: The file is none of its form, or nothing can be asked.
    """
    if entry["form"] == "pairs":
        benchmark = parquet.read(file, BENCHMARK)
        orders = orders_of(select(benchmark, scored, None, seed).to_pylist(), dataset, profile, seed)
        items = select(benchmark, scored, sample, seed).to_pylist()
        return Posed(dataset, profile, "pairs", items=tuple(items), orders=orders)
    if entry["form"] == "open":
        rows = parquet.read(file, QUESTIONS).to_pylist()
        items, unusable = vqa_items.questions(dataset, rows, entry["size"], seed, entry.get("choice"))
        return Posed(dataset, profile, "open", items=tuple(items), left_out=dict(unusable))
    chosen = text_questions(parquet.read(file, TEXTS).to_pylist(), dataset, profile, entry["size"], seed)
    left_out = Counter(chosen.left_out.values())
    return Posed(dataset, profile, "choice", questions=chosen.questions, left_out=dict(left_out))


def posed_rows(examinee: Examinee, asked: Posed, voice: Voice, saying: Saying) -> list[dict[str, Any]]:
    """Rows of the evaluation layout, setting by setting in the order of the items.

    Args:
        examinee: Who is asked.
        asked: What is asked.
        voice: How the model is spoken to.
        saying: How it says what is more than a label.
    """
    if asked.form == "choice":
        return labelled_rows(examinee, asked.questions, voice, saying)
    found: list[dict[str, Any]] = []
    for items in _by_image(asked.items):
        if asked.form == "pairs":
            found += benchmark_rows(examinee, items, asked.dataset, voice, dict(asked.orders), saying)
        else:
            found += open_rows(examinee, items, asked.dataset, voice, saying)
    places = {item["item_id"]: place for place, item in enumerate(asked.items)}
    settings = list(dict.fromkeys(row["setting"] for row in found))
    return sorted(found, key=lambda row: (settings.index(row["setting"]), places[row["item_id"]]))


def _by_image(items: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """The items of some images at a time, so that an image is opened and looked at once."""
    of: dict[str, list[Mapping[str, Any]]] = {}
    for item in items:
        of.setdefault(item["image"], []).append(item)
    groups = list(of.values())
    for first in range(0, len(groups), IMAGES):
        yield [item for group in groups[first : first + IMAGES] for item in group]


def voice_of(decoder: Decoder, profile: str) -> Voice:
    """How a decoder is spoken to in a profile, as its entry says.

    `equations` reads the entry's prompt file over its own prompts and speaks by the model's chat template; a language
    model without one is given the turns below each other. `published` takes the markers of the entry's family.

    Args:
        decoder: A loaded decoder.
        profile: `equations` or `published`.
    Raises:
        UserError: The family is missing or unknown, or the prompt file is at fault.
    """
    if profile == "published":
        return published(family_of(decoder.spec))
    plain = isinstance(decoder, LanguageModel) and not decoder.has_chat_template
    return equations(
        without_template if plain else decoder.render_chat, read_wording(profile, decoder.spec.prompts or None)
    )


def left_out(asked: Sequence[Posed]) -> dict[str, dict[str, int]]:
    """What could not be asked, counted by reason, of each profile that left something out."""
    return {one.profile: dict(one.left_out) for one in asked if one.left_out}


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
) -> Iterator[DatasetResult]:
    """Prompt one decoder with the questions of data sets.

    Args:
        decoder: The decoder.
        datasets: Files of the data sets, with their form.
        profiles: Fidelity profiles.
        cache: Folder of finished generations.
        scored: `valid` or `all` items.
        sample: Number of items a data set; None takes all.
        seed: Seed of the sample.
        cot_tokens: Most tokens of a chain of thought; 0 asks for answers at once alone.
    Yields:
        Rows of the evaluation layout as `scores`.
    """
    voices = [voice_of(decoder, profile) for profile in profiles]
    sayings = [Saying(seed, sampling_of(decoder, profile), cot_tokens) for profile in profiles]
    for dataset in datasets:
        tasks = [
            posed(dataset.rows, dataset.name, dataset.settings, profile, scored=scored, sample=sample, seed=seed)
            for profile in profiles
        ]
        prompts, label = sum(task.prompts(cot_tokens) for task in tasks), f"{decoder.spec.name} {dataset.name}"
        images: AbstractContextManager[Any] = open_images(dataset.images) if dataset.images else nullcontext()
        with images as source, show_progress(prompts, "prompt", label) as bar:
            examinee = Examinee(decoder, partial(load_image, source), cache, bar.update)
            settings = zip(tasks, voices, sayings, strict=True)
            rows = [row for task, voice, saying in settings for row in posed_rows(examinee, task, voice, saying)]
        saying_of = {profile: asdict(saying) for profile, saying in zip(profiles, sayings, strict=True)}
        facts = {"saying": saying_of, "left_out": left_out(tasks), **tally(rows)}
        yield DatasetResult(dataset, {"scores": rows}, sum(map(len, tasks)), facts)
