"""Open questions about images, answered by a decoder in words (thesis 5.5, rows VQA and GQA).

How right an answer is: `evaluation.vqa_items` and `evaluation.metrics.vqa_accuracy`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from waltz.evaluation.encoder_vqa import ROLE
from waltz.evaluation.label_choice import generate_texts
from waltz.evaluation.metrics.scored_pairs import AFTER_COT
from waltz.evaluation.prompting.generation_cache import DecoderSession
from waltz.evaluation.prompting.image_questions import build_open_questions
from waltz.evaluation.prompting.prompts import PromptTemplate
from waltz.evaluation.prompting.questions import Question
from waltz.evaluation.vqa_items import SETTING, contains_gold_answer, normalize_answer
from waltz.models.decoders.decoder import Sampling

MOST_TOKENS = 10
"""Most tokens of a short answer, as published."""

Row = Mapping[str, Any]


def build_questions(items: Sequence[Row], dataset: str) -> list[Question]:
    """Build the questions of items, with the items' own ids.

    Args:
        items: Rows of `vqa_items.select_questions`.
        dataset: Name of the data set in the study.
    """
    rows = [{**item, "source": dataset, "source_id": item["item_id"], "rejected": None} for item in items]
    questions = build_open_questions(rows, dataset)
    return [replace(question, item_id=item["item_id"]) for question, item in zip(questions, items, strict=True)]


def answer_questions(
    session: DecoderSession,
    items: Sequence[Row],
    dataset: str,
    template: PromptTemplate,
    *,
    sampling: Sampling | None,
    seed: int,
    reasonings: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """Return rows of the evaluation layout, role `answer`, with the model's answer to each question.

    `prediction` is the generated answer. `correct` states in `published` whether a gold answer is part of it
    (`contains_gold_answer`), in `equations` whether it is the gold answer.

    Args:
        session: The decoder.
        items: Rows of item_id, image, question, answer and answers (those of the annotators; empty for GQA).
        dataset: Name of the data set in the study.
        template: Wording and markers of the prompts.
        sampling: Settings of sampling; None takes the likeliest tokens, as in `equations`. `published` samples.
        seed: The study's seed; each item's draws have a seed of their own.
        reasonings: The chain of thought before each answer; None asks for the answer without one.
    """
    kind, setting = ("answer", SETTING) if reasonings is None else ("answer-after-cot", SETTING + AFTER_COT)
    questions = build_questions(items, dataset)
    texts, outputs = generate_texts(
        session, questions, template, kind, reasonings, most_tokens=MOST_TOKENS, sampling=sampling, seed=seed
    )
    profile = template.prompt_file.profile
    rows = []
    for index, (item, text, output) in enumerate(zip(items, texts, outputs, strict=True)):
        answer = None if output.error is not None else text
        row = {
            "item_id": item["item_id"],
            "role": ROLE,
            "profile": profile,
            "setting": setting,
            "image": item["image"],
            "score": None,
            "tokens": output.tokens,
            "probability": None,
            "prediction": answer,
            "correct": _is_correct(item, answer, profile),
            "error": output.error,
        }
        rows.append(row if reasonings is None else {**row, "reasoning": reasonings[index]})
    return rows


def _is_correct(item: Row, answer: str | None, profile: str) -> bool | None:
    if answer is None:
        return None
    if profile == "published":
        return contains_gold_answer(answer, item)
    return normalize_answer(answer) == normalize_answer(item["answer"])
