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

OPTIONS = 100

SPLITS = {"train": (0, 1, 2, 3, 4, 5, 6), "val2018": (7, 8, 9)}
"""Last digits of the numbers of each split's images."""


def build_dialogs(graphs: Sequence[Graph], seed: int, split: str) -> dict[str, Any]:
    """Build `visdial_1.0_train.json` or `visdial_1.0_val.json`; split is train or val2018."""
    talks = []
    for number, graph in enumerate(graphs, 1):
        if number % 10 in SPLITS[split]:
            rng = Random(f"visdial:{seed}:{graph.id}")
            caption = rng.choice((draw_plain_caption, draw_relative_caption, draw_pronoun_caption))(graph, rng)
            talks.append((number, caption.lower().rstrip("."), draw_dialogue(graph, caption, rng)))
    questions = sorted({question for _, _, rounds in talks for question, _ in rounds})
    answers = sorted({answer for _, _, rounds in talks for _, answer in rounds} | _list_answers())
    question_index = {text: index for index, text in enumerate(questions)}
    answer_index = {text: index for index, text in enumerate(answers)}
    dialogs = []
    for number, caption, rounds in talks:
        rng = Random(f"visdial:{seed}:options:{number}")
        dialog = []
        for question, answer in rounds:
            right = answer_index[answer]
            options = rng.sample([index for index in range(len(answers)) if index != right], OPTIONS - 1)
            place = rng.randrange(OPTIONS)
            options.insert(place, right)
            asked = question_index[question]
            dialog.append({"question": asked, "answer": right, "answer_options": options, "gt_index": place})
        dialogs.append({"image_id": number, "caption": caption, "dialog": dialog})
    data = {"questions": questions, "answers": answers, "dialogs": dialogs}
    return {"version": "1.0", "split": split, "data": data}


def _list_answers() -> set[str]:
    """Answers that fill the pool, so that every round has its hundred."""
    said = {"yes", "no", "i can't tell", "not that i can see", *NUMBERS, *COLOURS, *read_verbs()}
    return said | {add_article(name) for name in read_kinds()} | {words for forms in PLACES.values() for words in forms}
