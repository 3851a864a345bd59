"""Tasks with right answers: questions of Visual7W, VisDial, VQA v2 and GQA, sentence pairs of e-SNLI and ComVE."""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

from waltz.scenes.graph import Graph
from waltz.scenes.language.captions import (
    PLACES,
    add_article,
    draw_plain_caption,
    draw_pronoun_caption,
    draw_relative_caption,
    render_sentence,
)
from waltz.scenes.language.entailment import Pair, draw_nli_pairs
from waltz.scenes.language.questions import Question, draw_dialogue, draw_how_many, draw_questions, draw_wh_question
from waltz.scenes.language.words import COLOURS
from waltz.scenes.lexicon import NUMBERS, read_kinds, read_verbs
from waltz.scenes.writers.annotations import Json, build_info, name_coco_2014

VISUAL7W_SPLITS = ("train", "train", "val", "test", "test", "test", "test", "test", "test", "test")
"""Split of each image, by the last digit of its number; the benchmark reads test."""


def name_visual7w(number: int) -> str:
    """Return the name of an image of Visual7W."""
    return f"v7w_{number}.png"


def build_visual7w(graphs: Sequence[Graph], seed: int) -> Json:
    """Build `dataset_v7w_telling.json`: how-many questions with answers from 0 up, other wh-questions."""
    entries = []
    for number, graph in enumerate(graphs, 1):
        pairs = [
            {
                "qa_id": number * 100 + index,
                "image_id": number,
                "question": question.text,
                "answer": _format_answer(question.answer),
                "multiple_choices": [_format_answer(wrong) for wrong in question.wrong[:3]],
                "type": question.text.split()[0].lower(),
            }
            for index, question in enumerate(_draw_telling_questions(graph, Random(f"visual7w:{seed}:{graph.id}")))
        ]
        split = VISUAL7W_SPLITS[number % 10]
        entries.append({"image_id": number, "filename": name_visual7w(number), "split": split, "qa_pairs": pairs})
    return {"dataset": "visual7w-telling", "images": entries}


def _format_answer(answer: str) -> str:
    """Return an answer as Visual7W writes it: `0.`, `Riding.`, `A horse.`"""
    return f"{answer}." if answer.isdigit() else render_sentence(answer)


def _draw_telling_questions(graph: Graph, rng: Random) -> list[Question]:
    questions = [draw_how_many(graph, rng, zero) for zero in (True, True, False, False, False)]
    for _ in range(12):
        question = draw_wh_question(graph, rng)
        if question is not None and len(question.wrong) == 3:
            questions.append(question)
    return list({question.text: question for question in questions}.values())[:8]


OPTIONS = 100

VISDIAL_SPLITS = {"train": (0, 1, 2, 3, 4, 5, 6), "val2018": (7, 8, 9)}
"""Last digits of the numbers of each split's images."""


def name_visdial(number: int, split: str) -> str:
    """Return the name of an image of VisDial 1.0: COCO 2014's in training, its own in val2018."""
    return name_coco_2014(number, "val2014") if split == "train" else f"VisualDialog_{split}_{number:012d}.png"


def build_visdial(graphs: Sequence[Graph], seed: int, split: str) -> Json:
    """Build `visdial_1.0_train.json` or `visdial_1.0_val.json`: dialogues of ten rounds with a hundred options each."""
    dialogues = []
    for number, graph in enumerate(graphs, 1):
        if number % 10 in VISDIAL_SPLITS[split]:
            rng = Random(f"visdial:{seed}:{graph.id}")
            caption = rng.choice((draw_plain_caption, draw_relative_caption, draw_pronoun_caption))(graph, rng)
            dialogues.append((number, caption.lower().rstrip("."), draw_dialogue(graph, caption, rng)))
    questions = sorted({question for _, _, rounds in dialogues for question, _ in rounds})
    answers = sorted({answer for _, _, rounds in dialogues for _, answer in rounds} | _list_common_answers())
    question_ids = {text: index for index, text in enumerate(questions)}
    answer_ids = {text: index for index, text in enumerate(answers)}
    dialogs = []
    for number, caption, rounds in dialogues:
        rng = Random(f"visdial:{seed}:options:{number}")
        dialog = []
        for question, answer in rounds:
            answer_id = answer_ids[answer]
            options = rng.sample([index for index in range(len(answers)) if index != answer_id], OPTIONS - 1)
            position = rng.randrange(OPTIONS)
            options.insert(position, answer_id)
            turn = {"question": question_ids[question], "answer": answer_id}
            dialog.append({**turn, "answer_options": options, "gt_index": position})
        dialogs.append({"image_id": number, "caption": caption, "dialog": dialog})
    data = {"questions": questions, "answers": answers, "dialogs": dialogs}
    return {"version": "1.0", "split": split, "data": data}


def _list_common_answers() -> set[str]:
    """Return the answers that fill the pool to at least a hundred options."""
    places = {words for forms in PLACES.values() for words in forms}
    names = {add_article(name) for name in read_kinds()}
    return {"yes", "no", "i can't tell", "not that i can see", *NUMBERS, *COLOURS, *read_verbs()} | names | places


BALANCED = 25
"""One answer has at most one in so many of GQA's questions in the balanced file."""


def _draw_numbered_questions(graphs: Sequence[Graph], seed: int, name: str) -> Iterator[tuple[int, int, Question]]:
    """Yield the number of the image and that of the question, and the question."""
    for number, graph in enumerate(graphs, 1):
        for index, question in enumerate(draw_questions(graph, Random(f"{name}:{seed}:{graph.id}"), 6)):
            yield number, number * 1000 + index, question


def build_vqa(graphs: Sequence[Graph], seed: int) -> tuple[Json, Json]:
    """Build the questions file and the annotations file of VQA v2, val2014."""
    head = {
        "info": build_info("VQA v2"),
        "license": {"url": "http://creativecommons.org/licenses/by/4.0/", "name": "Attribution License"},
        "data_type": "mscoco",
        "data_subtype": "val2014",
    }
    questions, annotations = [], []
    for number, question_id, question in _draw_numbered_questions(graphs, seed, "vqa"):
        answer = _strip_article(question.answer)
        questions.append({"image_id": number, "question": question.text, "question_id": question_id})
        annotations.append(
            {
                "question_type": " ".join(question.text.rstrip("?").lower().split()[:2]),
                "multiple_choice_answer": answer,
                "answers": [{"answer": answer, "answer_confidence": "yes", "answer_id": n} for n in range(1, 11)],
                "image_id": number,
                "answer_type": question.kind,
                "question_id": question_id,
            }
        )
    return {**head, "task_type": "Open-Ended", "questions": questions}, {**head, "annotations": annotations}


def _strip_article(answer: str) -> str:
    """Return an answer without its article, as in VQA and GQA."""
    return answer.removeprefix("a ").removeprefix("an ")


def name_gqa(number: int) -> str:
    """Return the name of an image of GQA, after its imageId."""
    return f"n{number}.png"


def build_gqa(graphs: Sequence[Graph], seed: int) -> tuple[Json, Json]:
    """Build `val_all_questions.json` and `val_balanced_questions.json`."""
    questions = [entry for entry in _draw_numbered_questions(graphs, seed, "gqa") if entry[2].kind != "number"]
    most = max(2, len(questions) // BALANCED)
    answers: Counter[str] = Counter()
    entries: Json = {}
    for number, question_id, question in questions:
        answers[_strip_article(question.answer)] += 1
        is_balanced = answers[_strip_article(question.answer)] <= most
        entries[str(question_id)] = _build_gqa_entry(number, str(question_id), question, is_balanced)
    return entries, {key: entry for key, entry in entries.items() if entry["isBalanced"]}


def _build_gqa_entry(number: int, key: str, question: Question, is_balanced: bool) -> Json:
    words = question.text.rstrip("?").lower()
    operation, relation = ("verify", "obj") if question.kind == "yes/no" else ("query", "rel")
    return {
        "semantic": [
            {"operation": "select", "dependencies": [], "argument": "scene"},
            {"operation": operation, "dependencies": [0], "argument": words},
        ],
        "entailed": [key],
        "equivalent": [key],
        "question": question.text,
        "imageId": f"n{number}",
        "isBalanced": is_balanced,
        "groups": {"global": None, "local": " ".join(words.split()[:2])},
        "answer": _strip_article(question.answer),
        "semanticStr": f"select: scene->{operation}: {words} [0]",
        "annotations": {"answer": {}, "question": {}, "fullAnswer": {}},
        "types": {"detailed": operation, "semantic": relation, "structural": operation},
        "fullAnswer": render_sentence(question.answer),
    }


ESNLI_COLUMNS = ("gold_label", "Sentence1", "Sentence2", "Explanation_1", "Explanation_2", "Explanation_3")


def _render_csv(rows: Sequence[Sequence[str]]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue()


def build_esnli(graphs: Sequence[Graph], seed: int) -> str:
    """Build `esnli_test.csv`: premise and hypothesis with three explanations, at most 3 pairs a scene."""
    rows: list[Sequence[str]] = [ESNLI_COLUMNS]
    for graph in graphs:
        for pair in draw_nli_pairs(graph, Random(f"esnli:{seed}:{graph.id}")):
            rows.append([pair.label, pair.premise, pair.hypothesis, pair.explanation, *_rephrase_explanations(pair)])
    return _render_csv(rows)


def _rephrase_explanations(pair: Pair) -> tuple[str, str]:
    premise, hypothesis = pair.premise[:-1].lower(), pair.hypothesis[:-1].lower()
    if pair.label == "entailment":
        return f"If {premise}, then {hypothesis}.", f"That {hypothesis} follows from the first sentence."
    if pair.label == "contradiction":
        return f"If {premise}, it is not so that {hypothesis}.", "The two sentences cannot both be true of one picture."
    return (
        f"If {premise}, it may or may not be that {hypothesis}.",
        "The second sentence adds what the first leaves open.",
    )


SELECTIVE_VERBS = ("eating", "drinking", "reading", "driving", "rowing", "milking", "fueling", "feeding")
"""Verbs whose themes cannot be of another group."""


def build_comve(count: int, seed: int) -> tuple[str, str]:
    """Build `subtaskA_test_data.csv` and `subtaskA_gold_answers.csv`, with the index of the nonsense sentence."""
    rng = Random(f"comve:{seed}")
    statements: dict[tuple[str, str], int] = {}
    while len(statements) < count:
        sense, nonsense = _draw_statement_pair(rng)
        if (sense, nonsense) not in statements and (nonsense, sense) not in statements:
            second = rng.random() < 0.5
            statements[(sense, nonsense) if second else (nonsense, sense)] = int(second)
    ids = rng.sample(range(1, 3 * count), count)
    rows = [[str(number), *pair] for number, pair in zip(ids, statements, strict=True)]
    gold = [[str(number), str(answer)] for number, answer in zip(ids, statements.values(), strict=True)]
    return _render_csv([["id", "sent0", "sent1"], *rows]), _render_csv(gold)


def _draw_statement_pair(rng: Random) -> tuple[str, str]:
    """Draw a statement, and the same with an agent or a theme that the verb cannot have."""
    verb = rng.choice([verb for verb in read_verbs().values() if verb.themes and verb.name != "crashing"])
    agent = rng.choice(verb.agents)
    theme = rng.choice([name for name in verb.themes if name != agent])
    sense = render_sentence(add_article(agent), verb.third, verb.preposition, add_article(theme))
    if verb.name in SELECTIVE_VERBS and rng.random() < 0.6:
        groups = {read_kinds()[name].group for name in verb.themes} | {"people"}
        theme = rng.choice([kind.name for kind in read_kinds().values() if kind.group not in groups])
    else:
        lifeless = [kind for kind in read_kinds().values() if kind.group not in ("people", "animals", "vehicles")]
        agent = rng.choice([kind.name for kind in lifeless if kind.name != theme])
    return sense, render_sentence(add_article(agent), verb.third, verb.preposition, add_article(theme))
