"""All that a decoder is evaluated on, data set by data set, in the words of one profile."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from waltz.evaluation.label_choice import choice_rows, chosen, reasoned
from waltz.evaluation.open_answers import Row, answer_rows, put
from waltz.evaluation.prompting.generation_cache import Examinee
from waltz.evaluation.prompting.image_questions import (
    PUBLISHED_STREAM,
    balanced_orders,
    drawn_before,
    pairwise_questions,
    published_orders,
    single_questions,
)
from waltz.evaluation.prompting.prompts import Voice
from waltz.evaluation.prompting.questions import Question
from waltz.evaluation.text_scores import likelihood_rows, vqascore_rows
from waltz.models.decoders.decoder import Decoder, Sampling
from waltz.models.decoders.generation import get_published_sampling


@dataclass(frozen=True)
class Saying:
    """How a decoder says what is more than a label.

    Attributes:
        seed: The study's seed; each item's draws have their own.
        sampling: How tokens are drawn; None takes the likeliest (`sampling_of`).
        thought: Most tokens of a chain of thought, 100 as published; 0 asks for no answers after one.
    """

    seed: int
    sampling: Sampling | None = None
    thought: int = 0


def sampling_of(decoder: Decoder, profile: str) -> Sampling | None:
    """How a profile draws tokens: `equations` not at all, `published` always from models that see.

    Language models draw in `published` where their own settings of generation say so.
    """
    if profile == "equations" or not (decoder.reads_images or decoder.network.model.generation_config.do_sample):
        return None
    return get_published_sampling(decoder)


def orders_of(items: Sequence[Row], dataset: str, profile: str, seed: int) -> dict[str, bool]:
    """Whether each item's caption is (A) in the pairwise question.

    Args:
        items: All rows of the benchmark that may be asked about, in file order, before any sample is taken.
        dataset: Name of the data set; those of VALSE have their place in the released scripts' stream of draws.
        profile: `equations` or `published`.
        seed: The study's seed.
    """
    ids = [item["item_id"] for item in items]
    if profile == "equations":
        return balanced_orders(ids, seed)
    return published_orders(ids, drawn_before(dataset) if dataset in PUBLISHED_STREAM else 0)


def benchmark_rows(
    examinee: Examinee, items: Sequence[Row], dataset: str, voice: Voice, orders: dict[str, bool], saying: Saying
) -> list[dict[str, Any]]:
    """Rows of captions and foils: `pairwise`, `single`, the first two after a chain of thought, and the text scores.

    Args:
        examinee: Who is asked.
        items: Rows of the benchmark layout.
        dataset: Name of the data set.
        voice: How the model is spoken to.
        orders: What `orders_of` found.
        saying: How chains of thought are made.
    """
    single = single_questions(items, dataset)
    return [
        *labelled_rows(examinee, pairwise_questions(items, dataset, orders), voice, saying),
        *labelled_rows(examinee, single, voice, saying),
        *likelihood_rows(examinee, single, voice),
        *vqascore_rows(examinee, single, voice),
    ]


def labelled_rows(
    examinee: Examinee, questions: Sequence[Question], voice: Voice, saying: Saying
) -> list[dict[str, Any]]:
    """Rows of questions with labels, at once and after a chain of thought; those of text tasks as they are chosen."""
    profile = voice.wording.profile
    rows = choice_rows(questions, chosen(examinee, questions, voice), profile)
    if saying.thought:
        thoughts = _thoughts(examinee, questions, voice, saying)
        rows += choice_rows(questions, chosen(examinee, questions, voice, thoughts), profile, thoughts)
    return rows


def open_rows(
    examinee: Examinee, items: Sequence[Row], dataset: str, voice: Voice, saying: Saying
) -> list[dict[str, Any]]:
    """Rows of open questions, at once and after a chain of thought.

    Args:
        examinee: Who is asked.
        items: Rows that `answers.questions` chose.
        dataset: Name of the data set.
        voice: How the model is spoken to.
        saying: How answers and chains of thought are made.
    """
    rows = answer_rows(examinee, items, dataset, voice, sampling=saying.sampling, seed=saying.seed)
    if saying.thought:
        thoughts = _thoughts(examinee, put(items, dataset), voice, saying)
        rows += answer_rows(
            examinee, items, dataset, voice, sampling=saying.sampling, seed=saying.seed, reasonings=thoughts
        )
    return rows


def _thoughts(examinee: Examinee, questions: Sequence[Question], voice: Voice, saying: Saying) -> list[str]:
    return reasoned(examinee, questions, voice, most=saying.thought, sampling=saying.sampling, seed=saying.seed)
