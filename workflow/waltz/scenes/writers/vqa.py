"""VQA v2 (questions and annotations) and GQA (all and balanced questions)."""

from collections import Counter
from collections.abc import Sequence
from random import Random

from waltz.scenes.language.captions import render_sentence
from waltz.scenes.language.questions import Question, draw_questions
from waltz.scenes.world.graph import Graph
from waltz.scenes.writers.coco import SUFFIX, Json, build_info

ANNOTATORS = 10
BALANCED = 25
"""Most questions with one answer among GQA's balanced ones, as a share of all (one in)."""


def _draw_questions(graphs: Sequence[Graph], seed: int, name: str) -> list[tuple[int, int, Question]]:
    return [
        (number, index, question)
        for number, graph in enumerate(graphs, 1)
        for index, question in enumerate(draw_questions(graph, Random(f"{name}:{seed}:{graph.id}"), 6))
    ]


def build_vqa(graphs: Sequence[Graph], seed: int) -> tuple[Json, Json]:
    """Build the questions file and the annotations file of VQA v2, val2014."""
    head = {
        "info": build_info("VQA v2"),
        "license": {"url": "http://creativecommons.org/licenses/by/4.0/", "name": "Attribution License"},
        "data_type": "mscoco",
        "data_subtype": "val2014",
    }
    questions = _draw_questions(graphs, seed, "vqa")
    question_entries = [
        {"image_id": number, "question": question.text, "question_id": number * 1000 + index}
        for number, index, question in questions
    ]
    annotations = [
        {
            "question_type": " ".join(question.text.rstrip("?").lower().split()[:2]),
            "multiple_choice_answer": _strip_answer(question.answer),
            "answers": [
                {"answer": _strip_answer(question.answer), "answer_confidence": "yes", "answer_id": answerer}
                for answerer in range(1, ANNOTATORS + 1)
            ],
            "image_id": number,
            "answer_type": question.kind,
            "question_id": number * 1000 + index,
        }
        for number, index, question in questions
    ]
    return (
        {**head, "task_type": "Open-Ended", "questions": question_entries},
        {**head, "annotations": annotations},
    )


def _strip_answer(answer: str) -> str:
    """Return an answer without its article, as in VQA and GQA."""
    return answer.removeprefix("a ").removeprefix("an ")


def name_gqa(number: int) -> str:
    """Return the name of an image of GQA, after its imageId."""
    return f"n{number}{SUFFIX}"


def build_gqa(graphs: Sequence[Graph], seed: int) -> tuple[Json, Json]:
    """Build `testdev_all_questions.json` and `testdev_balanced_questions.json`."""
    questions = [entry for entry in _draw_questions(graphs, seed, "gqa") if entry[2].kind != "number"]
    answers: Counter[str] = Counter()
    entries: Json = {}
    for number, index, question in questions:
        answer = _strip_answer(question.answer)
        answers[answer] += 1
        balanced = answers[answer] <= max(2, len(questions) // BALANCED)
        entries[str(number * 1000 + index)] = _build_gqa_entry(number, index, question, answer, balanced)
    return entries, {key: entry for key, entry in entries.items() if entry["isBalanced"]}


def _build_gqa_entry(number: int, index: int, question: Question, answer: str, balanced: bool) -> Json:
    verify = question.kind == "yes/no"
    name = question.text.rstrip("?").lower()
    operation = "verify" if verify else "query"
    semantic = [
        {"operation": "select", "dependencies": [], "argument": "scene"},
        {"operation": operation, "dependencies": [0], "argument": name},
    ]
    key = str(number * 1000 + index)
    return {
        "semantic": semantic,
        "entailed": [key],
        "equivalent": [key],
        "question": question.text,
        "imageId": f"n{number}",
        "isBalanced": balanced,
        "groups": {"global": None, "local": " ".join(name.split()[:2])},
        "answer": answer,
        "semanticStr": f"select: scene->{operation}: {name} [0]",
        "annotations": {"answer": {}, "question": {}, "fullAnswer": {}},
        "types": {"detailed": operation, "semantic": "obj" if verify else "rel", "structural": operation},
        "fullAnswer": render_sentence(question.answer),
    }
