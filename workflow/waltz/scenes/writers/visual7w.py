"""Visual7W telling: questions with four answers, of which three are wrong."""

from collections.abc import Sequence
from random import Random
from typing import Any

from waltz.scenes.language.captions import render_sentence
from waltz.scenes.language.questions import Question, draw_how_many, draw_wh_question
from waltz.scenes.world.graph import Graph
from waltz.scenes.writers.coco import SUFFIX

SPLITS = ("train", "train", "val", "test", "test", "test", "test", "test", "test", "test")
"""Split of each image, by the last digit of its number; the benchmark reads test."""


def name_visual7w(number: int) -> str:
    """Return the name of an image of Visual7W."""
    return f"v7w_{number}{SUFFIX}"


def build_telling(graphs: Sequence[Graph], seed: int) -> dict[str, Any]:
    """Build `dataset_v7w_telling.json`: how-many questions with answers from 0 up, other wh-questions."""
    entries = []
    for number, graph in enumerate(graphs, 1):
        rng = Random(f"visual7w:{seed}:{graph.id}")
        split = SPLITS[number % 10]
        pairs = [
            {
                "qa_id": number * 100 + index,
                "image_id": number,
                "question": question.text,
                "answer": format_answer(question.answer),
                "multiple_choices": [format_answer(wrong) for wrong in question.wrong[:3]],
                "type": question.text.split()[0].lower(),
            }
            for index, question in enumerate(_draw_questions(graph, rng))
        ]
        entries.append({"image_id": number, "filename": name_visual7w(number), "split": split, "qa_pairs": pairs})
    return {"dataset": "visual7w-telling", "images": entries}


def format_answer(answer: str) -> str:
    """Return an answer as Visual7W writes it: `0`, `Riding.`, `A horse.`"""
    return f"{answer}." if answer.isdigit() else render_sentence(answer)


def _draw_questions(graph: Graph, rng: Random) -> list[Question]:
    questions = [draw_how_many(graph, rng, zero) for zero in (True, True, False, False, False)]
    for _ in range(12):
        question = draw_wh_question(graph, rng)
        if question is not None and len(question.wrong) == 3:
            questions.append(question)
    return list({question.text: question for question in questions}.values())[:8]
