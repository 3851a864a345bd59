"""Open questions about images, answered in a decoder's own words (thesis 5.5, rows VQA and GQA).

How right an answer is: `evaluation.answers`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from waltz.evaluation.encoder_vqa import ROLE
from waltz.evaluation.label_choice import told
from waltz.evaluation.metrics.scored_pairs import AFTER_COT
from waltz.evaluation.prompting.generation_cache import Examinee
from waltz.evaluation.prompting.image_questions import open_questions
from waltz.evaluation.prompting.prompts import Voice
from waltz.evaluation.prompting.questions import Question
from waltz.evaluation.vqa_items import SETTING, contained, normal
from waltz.models.decoders.decoder import Sampling

MOST = 10
"""Most tokens of a short answer, as published."""

Row = Mapping[str, Any]


def put(items: Sequence[Row], dataset: str) -> list[Question]:
    """Questions of items, with the items' own ids.

    Args:
        items: Rows that `answers.questions` chose.
        dataset: Name of the data set in the study.
    """
    rows = [{**item, "source": dataset, "source_id": item["item_id"], "rejected": None} for item in items]
    asked = open_questions(rows, dataset)
    return [replace(question, item_id=item["item_id"]) for question, item in zip(asked, items, strict=True)]


def answer_rows(
    examinee: Examinee,
    items: Sequence[Row],
    dataset: str,
    voice: Voice,
    *,
    sampling: Sampling | None,
    seed: int,
    reasonings: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """Rows of the evaluation layout, role `answer`: what the model answers to each question.

    `prediction` is the answer as it was said. `correct` says in `published` whether a gold answer is part of it
    (`answers.contained`), in `equations` whether it is the gold answer.

    Args:
        examinee: Who is asked.
        items: Rows of item_id, image, question, answer and answers (those of the annotators; empty for GQA).
        dataset: Name of the data set in the study.
        voice: How the model is spoken to.
        sampling: How tokens are drawn; None takes the likeliest, as in `equations`. `published` draws.
        seed: The study's seed; each item's draws have their own.
        reasonings: The chain of thought before each answer; None asks for the answer at once.
    """
    kind, setting = ("answer", SETTING) if reasonings is None else ("answer-after-cot", SETTING + AFTER_COT)
    asked = put(items, dataset)
    texts, replies = told(examinee, asked, voice, kind, reasonings, most=MOST, sampling=sampling, seed=seed)
    profile = voice.wording.profile
    rows = []
    for place, (item, text, reply) in enumerate(zip(items, texts, replies, strict=True)):
        found = None if reply.error is not None else text
        row = {
            "item_id": item["item_id"],
            "role": ROLE,
            "profile": profile,
            "setting": setting,
            "image": item["image"],
            "score": None,
            "tokens": reply.tokens,
            "probability": None,
            "prediction": found,
            "correct": _verdict(item, found, profile),
            "error": reply.error,
        }
        rows.append(row if reasonings is None else {**row, "reasoning": reasonings[place]})
    return rows


def _verdict(item: Row, answer: str | None, profile: str) -> bool | None:
    if answer is None:
        return None
    return contained(answer, item) if profile == "published" else normal(answer) == normal(item["answer"])
