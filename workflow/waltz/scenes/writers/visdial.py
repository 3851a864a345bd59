"""VisDial 1.0: pools of questions and answers, dialogues of ten rounds with a hundred answers to choose from."""

from collections.abc import Sequence
from random import Random
from typing import Any

from waltz.scenes.language.captions import (
    PLACES,
    add_article,
    draw_plain_caption,
    draw_pronoun_caption,
    draw_relative_caption,
)
from waltz.scenes.language.questions import draw_dialogue
from waltz.scenes.language.words import COLOURS
from waltz.scenes.world.graph import Graph
from waltz.scenes.world.lexicon import NUMBERS, read_kinds, read_verbs
from waltz.scenes.writers.coco import SUFFIX, name_coco_2014

OPTIONS = 100

SPLITS = {"train": (0, 1, 2, 3, 4, 5, 6), "val2018": (7, 8, 9)}
"""Last digits of the numbers of each split's images."""


def name_visdial(number: int, split: str) -> str:
    """Return the name of an image of VisDial 1.0: COCO 2014's in training, its own in val2018."""
    return name_coco_2014(number, "val2014") if split == "train" else f"VisualDialog_{split}_{number:012d}{SUFFIX}"


def build_dialogs(graphs: Sequence[Graph], seed: int, split: str) -> dict[str, Any]:
    """Build `visdial_1.0_train.json` or `visdial_1.0_val.json`; split is train or val2018."""
    dialogues = []
    for number, graph in enumerate(graphs, 1):
        if number % 10 in SPLITS[split]:
            rng = Random(f"visdial:{seed}:{graph.id}")
            caption = rng.choice((draw_plain_caption, draw_relative_caption, draw_pronoun_caption))(graph, rng)
            dialogues.append((number, caption.lower().rstrip("."), draw_dialogue(graph, caption, rng)))
    questions = sorted({question for _, _, rounds in dialogues for question, _ in rounds})
    answers = sorted({answer for _, _, rounds in dialogues for _, answer in rounds} | _list_answers())
    question_index = {text: index for index, text in enumerate(questions)}
    answer_index = {text: index for index, text in enumerate(answers)}
    dialogs = []
    for number, caption, rounds in dialogues:
        rng = Random(f"visdial:{seed}:options:{number}")
        dialog = []
        for question, answer in rounds:
            answer_id = answer_index[answer]
            options = rng.sample([index for index in range(len(answers)) if index != answer_id], OPTIONS - 1)
            position = rng.randrange(OPTIONS)
            options.insert(position, answer_id)
            question_id = question_index[question]
            dialog.append(
                {"question": question_id, "answer": answer_id, "answer_options": options, "gt_index": position}
            )
        dialogs.append({"image_id": number, "caption": caption, "dialog": dialog})
    data = {"questions": questions, "answers": answers, "dialogs": dialogs}
    return {"version": "1.0", "split": split, "data": data}


def _list_answers() -> set[str]:
    """Return the answers that fill the pool to at least a hundred options."""
    answers = {"yes", "no", "i can't tell", "not that i can see", *NUMBERS, *COLOURS, *read_verbs()}
    return (
        answers | {add_article(name) for name in read_kinds()} | {words for forms in PLACES.values() for words in forms}
    )
