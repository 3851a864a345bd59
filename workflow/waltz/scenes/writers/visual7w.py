"""Visual7W telling: questions with four answers, of which three are wrong."""

from collections.abc import Sequence
from random import Random
from typing import Any

from waltz.scenes.language.captions import sentence
from waltz.scenes.language.questions import Question, how_many, wh
from waltz.scenes.world.graph import Graph
from waltz.scenes.writers import images

SPLITS = ("train", "train", "val", "test", "test", "test", "test", "test", "test", "test")
"""Split of each image, by the last digit of its number; the benchmark reads test."""


def telling_json(graphs: Sequence[Graph], seed: int) -> dict[str, Any]:
    """The whole of `dataset_v7w_telling.json`: how-many questions with answers from 0 up, what, who, where and when."""
    entries = []
    for number, graph in enumerate(graphs, 1):
        rng = Random(f"visual7w:{seed}:{graph.id}")
        split = SPLITS[number % 10]
        pairs = [
            {
                "qa_id": number * 100 + index,
                "image_id": number,
                "question": question.text,
                "answer": shown(question.answer),
                "multiple_choices": [shown(wrong) for wrong in question.wrong[:3]],
                "type": question.text.split()[0].lower(),
            }
            for index, question in enumerate(_questions(graph, rng))
        ]
        entries.append({"image_id": number, "filename": images.visual7w(number), "split": split, "qa_pairs": pairs})
    return {"dataset": "visual7w-telling", "images": entries}


def shown(answer: str) -> str:
    """An answer as Visual7W writes it: `0`, `Riding.`, `A horse.`"""
    return f"{answer}." if answer.isdigit() else sentence(answer)


def _questions(graph: Graph, rng: Random) -> list[Question]:
    found = [how_many(graph, rng, zero) for zero in (True, True, False, False, False)]
    for _ in range(12):
        question = wh(graph, rng)
        if question is not None and len(question.wrong) == 3:
            found.append(question)
    return list({question.text: question for question in found}.values())[:8]
