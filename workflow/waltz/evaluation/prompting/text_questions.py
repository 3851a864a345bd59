"""Questions about text alone: e-SNLI, ComVE, BIG-Bench Hard (thesis 5.2)."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from waltz.core.errors import UserError
from waltz.core.sampling import sample
from waltz.evaluation.prompting.questions import Question, letters, wrong_label
from waltz.sources.formats.bbh import CHOICES_HEADER, OPTIONS_HEADER
from waltz.sources.published_samples import PUBLISHED_SAMPLES
from waltz.sources.published_samples import select_published_ids as published_ids

Row = Mapping[str, Any]

FORMS = {"esnli": "esnli", "comve": "comve"}
"""Forms by task; every other task is BIG-Bench Hard's."""

PUBLISHED_LABELS = {"disambiguation": 3}
"""How many labels the released code offers where that is not the number of choices, by the beginning of the task."""


@dataclass(frozen=True)
class Chosen:
    """What is asked of a data set, and what is not.

    Attributes:
        questions: Questions in the order in which they are asked.
        left_out: Reason by item for those that the choice of samples fell on and that cannot be asked.
    """

    questions: tuple[Question, ...]
    left_out: Mapping[str, str]


def text_questions(rows: Sequence[Row], dataset: str, profile: str, n: int | None, seed: int) -> Chosen:
    """Questions of one data set.

    `equations` takes the n usable items of lowest rank under the seed and draws each item's wrong label from its own
    hash. `published` takes what the released code's shuffle puts first (`sources.selection`) and draws wrong labels
    from the generator that shuffled, item after item.

    Args:
        rows: All rows of the layout `TEXTS` in file order, rejected ones included, all of one task.
        dataset: Name of the data set in the study.
        profile: `equations` or `published`.
        n: Number of items; None takes all, in `published` as many as were published. A smaller data set is taken whole.
        seed: Of the choice and the wrong labels in `equations`.
    Raises:
        UserError: There is no row that can be asked, or rows of more than one task.
    """
    tasks = {str(row["task"]) for row in rows}
    if len(tasks) != 1:
        raise UserError(f"{dataset}: expected rows of one task, got {len(tasks)}: {', '.join(sorted(tasks))}")
    task = tasks.pop()
    by_id = {str(row["source_id"]): row for row in rows}
    if profile == "published":
        taken = [by_id[key] for key in published_ids(FORMS.get(task, "bbh"), rows, n)]
    else:
        usable = [key for key, row in by_id.items() if row["rejected"] is None]
        taken = [by_id[key] for key in sample(usable, None if n is None else min(n, len(usable)), seed)]
    questions: list[Question] = []
    left_out: dict[str, str] = {}
    generator = _after_shuffle(task, len(rows))
    for row in taken:
        item_id, labels = f"{row['source']}:{row['source_id']}", _labels(row, task, profile)
        reason = row["rejected"] or (
            None if row["gold"] < len(labels) else f"its answer is none of {', '.join(labels)}"
        )
        if reason is not None:
            left_out[item_id] = reason
            continue
        gold = labels[row["gold"]]
        if profile != "published":
            wrong = wrong_label(item_id, labels, gold, seed)
        elif task == "comve":
            wrong = labels[1 - row["gold"]]
        else:
            wrong = generator.choice([label for label in labels if label != gold])
        form = FORMS.get(task, "bbh")
        questions.append(Question(item_id, dataset, form, None, _fields(row, task), labels, (gold,), wrong))
    if not questions:
        raise UserError(f"{dataset}: none of {len(rows)} rows can be asked")
    return Chosen(tuple(questions), left_out)


def _after_shuffle(task: str, rows: int) -> random.Random:
    """The released code's one generator as the choice of samples leaves it: only BIG-Bench Hard's drew from it."""
    choice = PUBLISHED_SAMPLES[FORMS.get(task, "bbh")]
    generator = random.Random(choice.seed)
    if task not in FORMS:
        generator.shuffle(list(range(rows)))
    return generator


def _labels(row: Row, task: str, profile: str) -> tuple[str, ...]:
    offered = next((n for name, n in PUBLISHED_LABELS.items() if task.startswith(name)), None)
    return letters(len(row["choices"]) if profile != "published" or offered is None else offered)


def _fields(row: Row, task: str) -> dict[str, str]:
    """Fields of a row; `text` of BIG-Bench Hard is as its file words it, with letters where its choices had none."""
    if task == "esnli":
        return {"premise": row["premise"], "hypothesis": row["hypothesis"]}
    choices = list(row["choices"])
    if task == "comve":
        return {"first": choices[0], "second": choices[1]}
    options = "\n".join(f"({letter}) {choice}" for letter, choice in zip(letters(len(choices)), choices, strict=True))
    text = row["text"]
    mark = CHOICES_HEADER if CHOICES_HEADER in text else OPTIONS_HEADER
    question = text.rpartition(mark)[0] if mark in text else text
    return {
        "text": text if text.endswith(options) else f"{question}{mark}{options}",
        "question": question,
        "options": options,
    }
