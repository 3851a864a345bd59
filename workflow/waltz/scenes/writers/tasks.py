"""Tasks with right answers: questions of Visual7W, VisDial, VQA v2 and GQA, sentence pairs of
e-SNLI and ComVE.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

from waltz.scenes.graph import Graph
from waltz.scenes.language.captions import (
    PLACES,
    add_indefinite_article,
    draw_plain_caption,
    draw_pronoun_caption,
    draw_relative_caption,
    render_sentence,
)
from waltz.scenes.language.entailment import Pair, draw_nli_pairs
from waltz.scenes.language.questions import (
    SceneQuestion,
    draw_dialogue,
    draw_how_many,
    draw_scene_questions,
    draw_wh_question,
)
from waltz.scenes.language.words import COLORS
from waltz.scenes.lexicon import (
    NUMBERS,
    SceneVerb,
    exclude,
    list_kinds_outside,
    read_kinds,
    read_scene_verbs,
)
from waltz.scenes.writers.annotations import Json, build_info, name_coco_2014

VISUAL7W_SPLITS = (
    "train",
    "train",
    "val",
    "test",
    "test",
    "test",
    "test",
    "test",
    "test",
    "test",
)
"""Split of each image, by the last digit of its number; the benchmark reads test."""


def name_visual7w(number: int) -> str:
    """Return the name of an image of Visual7W."""
    return f"v7w_{number}.png"


def build_visual7w(graphs: Sequence[Graph], seed: int) -> Json:
    """Build `dataset_v7w_telling.json`: how-many questions with answers from 0 up, other
    wh-questions.
    """
    entries = []
    for number, graph in enumerate(graphs, 1):
        questions = _draw_telling_questions(
            graph, Random(f"visual7w:{seed}:{graph.id}")
        )
        pairs = []
        for index, question in enumerate(questions):
            pair = {
                "qa_id": number * 100 + index,
                "image_id": number,
                "question": question.text,
                "answer": _format_answer(question.answer),
                "multiple_choices": [
                    _format_answer(wrong) for wrong in question.wrong[:3]
                ],
                "type": question.text.split()[0].lower(),
            }
            pairs.append(pair)
        split = VISUAL7W_SPLITS[number % 10]
        entries.append(
            {
                "image_id": number,
                "filename": name_visual7w(number),
                "split": split,
                "qa_pairs": pairs,
            }
        )
    return {"dataset": "visual7w-telling", "images": entries}


def _format_answer(answer: str) -> str:
    """Return an answer as Visual7W writes it: `0.`, `Riding.`, `A horse.`"""
    if answer.isdigit():
        return f"{answer}."
    return render_sentence(answer)


def _draw_telling_questions(graph: Graph, rng: Random) -> list[SceneQuestion]:
    """Draw up to eight different questions of a scene: five how-many questions first, then
    wh-questions.
    """
    questions = [
        draw_how_many(graph, rng, zero) for zero in (True, True, False, False, False)
    ]
    for _ in range(12):
        question = draw_wh_question(graph, rng)
        if question is not None and len(question.wrong) == 3:
            questions.append(question)
    different = {question.text: question for question in questions}
    return list(different.values())[:8]


OPTIONS = 100
"""Number of answers among which VisDial's right answer is listed."""

VISDIAL_SPLITS = {"train": (0, 1, 2, 3, 4, 5, 6), "val2018": (7, 8, 9)}
"""Last digits of the numbers of each split's images."""


def name_visdial(number: int, split: str) -> str:
    """Return the name of an image of VisDial 1.0: in training the name of COCO 2014."""
    if split == "train":
        return name_coco_2014(number, "val2014")
    return f"VisualDialog_{split}_{number:012d}.png"


def build_visdial(graphs: Sequence[Graph], seed: int, split: str) -> Json:
    """Build `visdial_1.0_train.json` or `visdial_1.0_val.json`: dialogues of ten rounds with a
    hundred options each.
    """
    dialogues = []
    for number, graph in enumerate(graphs, 1):
        if number % 10 not in VISDIAL_SPLITS[split]:
            continue
        rng = Random(f"visdial:{seed}:{graph.id}")
        draw_caption = rng.choice(
            (draw_plain_caption, draw_relative_caption, draw_pronoun_caption)
        )
        caption = draw_caption(graph, rng)
        dialogues.append(
            (number, caption.lower().rstrip("."), draw_dialogue(graph, caption, rng))
        )

    # Rounds name questions and answers by their position in the two lists of the file.
    question_pool: set[str] = set()
    answer_pool = _list_common_answers()
    for _, _, rounds in dialogues:
        question_pool.update(question for question, _ in rounds)
        answer_pool.update(answer for _, answer in rounds)
    questions, answers = sorted(question_pool), sorted(answer_pool)
    question_ids = {text: index for index, text in enumerate(questions)}
    answer_ids = {text: index for index, text in enumerate(answers)}

    dialogs = []
    for number, caption, rounds in dialogues:
        # The right answer is at a random position among 99 others of the pool.
        rng = Random(f"visdial:{seed}:options:{number}")
        dialog = []
        for question, answer in rounds:
            answer_id = answer_ids[answer]
            wrong_ids = exclude(range(len(answers)), answer_id)
            options = rng.sample(wrong_ids, OPTIONS - 1)
            position = rng.randrange(OPTIONS)
            options.insert(position, answer_id)
            turn = {"question": question_ids[question], "answer": answer_id}
            dialog.append({**turn, "answer_options": options, "gt_index": position})
        dialogs.append({"image_id": number, "caption": caption, "dialog": dialog})
    data = {"questions": questions, "answers": answers, "dialogs": dialogs}
    return {"version": "1.0", "split": split, "data": data}


def _list_common_answers() -> set[str]:
    """Return the answers that fill the pool to at least a hundred options."""
    place_phrases: set[str] = set()
    for forms in PLACES.values():
        place_phrases.update(forms)
    names = {add_indefinite_article(name) for name in read_kinds()}
    return (
        {
            "yes",
            "no",
            "i can't tell",
            "not that i can see",
            *NUMBERS,
            *COLORS,
            *read_scene_verbs(),
        }
        | names
        | place_phrases
    )


BALANCED = 25
"""In the balanced file, an answer has at most two or 1 / `BALANCED` of GQA's questions, the larger
number.
"""


def _draw_numbered_questions(
    graphs: Sequence[Graph], seed: int, name: str
) -> Iterator[tuple[int, int, SceneQuestion]]:
    """Yield the number of the image, the number of the question, and the question."""
    for number, graph in enumerate(graphs, 1):
        questions = draw_scene_questions(graph, Random(f"{name}:{seed}:{graph.id}"), 6)
        for index, question in enumerate(questions):
            yield number, number * 1000 + index, question


def build_vqa(graphs: Sequence[Graph], seed: int) -> tuple[Json, Json]:
    """Build the questions file and the annotations file of VQA v2, val2014."""
    head = {
        "info": build_info("VQA v2"),
        "license": {
            "url": "http://creativecommons.org/licenses/by/4.0/",
            "name": "Attribution License",
        },
        "data_type": "mscoco",
        "data_subtype": "val2014",
    }
    questions, annotations = [], []
    for number, question_id, question in _draw_numbered_questions(graphs, seed, "vqa"):
        answer = _strip_article(question.answer)
        questions.append(
            {"image_id": number, "question": question.text, "question_id": question_id}
        )
        # All ten annotators of VQA give the same answer with confidence.
        annotations.append(
            {
                "question_type": " ".join(
                    question.text.rstrip("?").lower().split()[:2]
                ),
                "multiple_choice_answer": answer,
                "answers": [
                    {"answer": answer, "answer_confidence": "yes", "answer_id": n}
                    for n in range(1, 11)
                ],
                "image_id": number,
                "answer_type": question.kind,
                "question_id": question_id,
            }
        )
    return {**head, "task_type": "Open-Ended", "questions": questions}, {
        **head,
        "annotations": annotations,
    }


def _strip_article(answer: str) -> str:
    """Return an answer without its article, as in VQA and GQA."""
    return answer.removeprefix("a ").removeprefix("an ")


def name_gqa(number: int) -> str:
    """Return the name of an image of GQA, after its imageId."""
    return f"n{number}.png"


def build_gqa(graphs: Sequence[Graph], seed: int) -> tuple[Json, Json]:
    """Build `val_all_questions.json` and `val_balanced_questions.json`."""
    numbered_questions = list(_draw_numbered_questions(graphs, seed, "gqa"))
    # GQA has no questions of numbers.
    questions = [entry for entry in numbered_questions if entry[2].kind != "number"]
    max_repeats = max(2, len(questions) // BALANCED)
    # In the balanced file no answer is frequent: further questions with it are skipped.
    repeats: Counter[str] = Counter()
    all_entries: Json = {}
    balanced_entries: Json = {}
    for number, question_id, question in questions:
        key, answer = str(question_id), _strip_article(question.answer)
        repeats[answer] += 1
        is_balanced = repeats[answer] <= max_repeats
        all_entries[key] = _build_gqa_entry(number, key, question, is_balanced)
        if is_balanced:
            balanced_entries[key] = all_entries[key]
    return all_entries, balanced_entries


def _build_gqa_entry(
    number: int, key: str, question: SceneQuestion, is_balanced: bool
) -> Json:
    """Build the entry of a question about the image with a number."""
    words = question.text.rstrip("?").lower()
    operation, relation = "query", "rel"
    if question.kind == "yes/no":
        operation, relation = "verify", "obj"
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


ESNLI_COLUMNS = (
    "gold_label",
    "Sentence1",
    "Sentence2",
    "Explanation_1",
    "Explanation_2",
    "Explanation_3",
)


def _render_csv(rows: Sequence[Sequence[str]]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue()


def build_esnli(graphs: Sequence[Graph], seed: int) -> str:
    """Build `esnli_test.csv`: premise and hypothesis with three explanations, at most three pairs a
    scene.
    """
    rows: list[Sequence[str]] = [ESNLI_COLUMNS]
    for graph in graphs:
        for pair in draw_nli_pairs(graph, Random(f"esnli:{seed}:{graph.id}")):
            rows.append(
                [
                    pair.label,
                    pair.premise,
                    pair.hypothesis,
                    pair.explanation,
                    *_rephrase_explanations(pair),
                ]
            )
    return _render_csv(rows)


def _rephrase_explanations(pair: Pair) -> tuple[str, str]:
    """Return the second and the third explanation of a pair."""
    premise, hypothesis = pair.premise[:-1].lower(), pair.hypothesis[:-1].lower()
    if pair.label == "entailment":
        return (
            f"If {premise}, then {hypothesis}.",
            f"That {hypothesis} follows from the first sentence.",
        )
    if pair.label == "contradiction":
        return (
            f"If {premise}, it is not so that {hypothesis}.",
            "The two sentences cannot both be true of one picture.",
        )
    second = f"If {premise}, it may or may not be that {hypothesis}."
    return second, "The second sentence adds what the first leaves open."


SELECTIVE_VERBS = (
    "eating",
    "drinking",
    "reading",
    "driving",
    "rowing",
    "milking",
    "fueling",
    "feeding",
)
"""Verbs whose themes cannot be of another group."""


def build_comve(count: int, seed: int) -> tuple[str, str]:
    """Build `subtaskA_test_data.csv` and `subtaskA_gold_answers.csv`, with the index of the
    nonsense sentence.
    """
    rng = Random(f"comve:{seed}")
    nonsense_index: dict[tuple[str, str], int] = {}
    while len(nonsense_index) < count:
        sense, nonsense = _draw_statement_pair(rng)
        is_known = (sense, nonsense) in nonsense_index or (
            nonsense,
            sense,
        ) in nonsense_index
        if is_known:
            continue
        if rng.random() < 0.5:
            nonsense_index[sense, nonsense] = 1
        else:
            nonsense_index[nonsense, sense] = 0

    # Ids are in random order, as in the released file.
    ids = rng.sample(range(1, 3 * count), count)
    rows = [["id", "sent0", "sent1"]]
    gold = []
    for number, (pair, index) in zip(ids, nonsense_index.items(), strict=True):
        rows.append([str(number), *pair])
        gold.append([str(number), str(index)])
    return _render_csv(rows), _render_csv(gold)


def _draw_statement_pair(rng: Random) -> tuple[str, str]:
    """Draw a statement, and the same statement with an agent or a theme that the verb cannot have."""
    transitive = [verb for verb in read_scene_verbs().values() if verb.themes]
    # Whose agents are lifeless.
    verb = rng.choice([verb for verb in transitive if verb.name != "crashing"])
    agent = rng.choice(verb.agents)
    theme = rng.choice(exclude(verb.themes, agent))
    sense = _render_statement(verb, agent, theme)
    # `A man eats a car.`, or `A chair eats an apple.`
    if verb.name in SELECTIVE_VERBS and rng.random() < 0.6:
        possible_groups = {read_kinds()[name].group for name in verb.themes}
        theme = rng.choice(list_kinds_outside("people", *possible_groups))
    else:
        lifeless = list_kinds_outside("people", "animals", "vehicles")
        agent = rng.choice(exclude(lifeless, theme))
    return sense, _render_statement(verb, agent, theme)


def _render_statement(verb: SceneVerb, agent: str, theme: str) -> str:
    return render_sentence(
        add_indefinite_article(agent),
        verb.third,
        verb.preposition,
        add_indefinite_article(theme),
    )
