"""Questions about text alone: e-SNLI, ComVE, BIG-Bench Hard (thesis 5.2)."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from waltz.core.errors import UserError
from waltz.core.sampling import sample
from waltz.evaluation.prompting.questions import Question, draw_wrong_label, list_letters
from waltz.sources.formats.text_tasks import CHOICES_HEADER, OPTIONS_HEADER
from waltz.sources.published_samples import PUBLISHED_SAMPLES
from waltz.sources.published_samples import select_published_ids as published_ids

Row = Mapping[str, Any]

FORMS = {"esnli": "esnli", "comve": "comve"}
"""Forms by task; every other task is BIG-Bench Hard's."""

PUBLISHED_LABELS = {"disambiguation": 3}
"""Number of labels in the released code where it is not the number of choices, by prefix of the task."""


@dataclass(frozen=True)
class SelectedQuestions:
    """The questions of a data set, and the selected items that cannot be asked.

    Attributes:
        questions: Questions in the order in which they are asked.
        skipped: Reason by item for sampled items that cannot be asked.
    """

    questions: tuple[Question, ...]
    skipped: Mapping[str, str]


def select_text_questions(
    rows: Sequence[Row], dataset: str, profile: str, n: int | None, seed: int
) -> SelectedQuestions:
    """Select the questions of one data set.

    `equations` takes the n usable items of lowest rank under the seed and draws each item's wrong label from its own
    hash. `published` takes the first items after the released code's shuffle (`sources.published_samples`) and draws
    wrong labels from the generator that shuffled, one item after the other.

    Args:
        rows: All rows of the layout `TEXTS` in file order, rejected ones included, all of one task.
        dataset: Name of the data set in the study.
        profile: `equations` or `published`.
        n: Number of items; None takes all, in `published` as many as were published. A smaller data set is selected as
            a whole.
        seed: Seed of sample and wrong labels in `equations`.
    Raises:
        UserError: There is no row that can be asked, or the rows are of more than one task.
    """
    tasks = {str(row["task"]) for row in rows}
    if len(tasks) != 1:
        raise UserError(f"{dataset}: expected rows of one task, got {len(tasks)}: {', '.join(sorted(tasks))}")
    task = tasks.pop()
    by_id = {str(row["source_id"]): row for row in rows}
    if profile == "published":
        selected = [by_id[key] for key in published_ids(FORMS.get(task, "bbh"), rows, n)]
    else:
        usable = [key for key, row in by_id.items() if row["rejected"] is None]
        selected = [by_id[key] for key in sample(usable, None if n is None else min(n, len(usable)), seed)]
    questions: list[Question] = []
    skipped: dict[str, str] = {}
    generator = _build_shuffled_generator(task, len(rows))
    for row in selected:
        item_id, labels = f"{row['source']}:{row['source_id']}", _list_labels(row, task, profile)
        reason = row["rejected"] or (
            None if row["gold"] < len(labels) else f"its answer is none of {', '.join(labels)}"
        )
        if reason is not None:
            skipped[item_id] = reason
            continue
        gold = labels[row["gold"]]
        if profile != "published":
            wrong = draw_wrong_label(item_id, labels, gold, seed)
        elif task == "comve":
            wrong = labels[1 - row["gold"]]
        else:
            wrong = generator.choice([label for label in labels if label != gold])
        form = FORMS.get(task, "bbh")
        questions.append(Question(item_id, dataset, form, None, _get_fields(row, task), labels, (gold,), wrong))
    if not questions:
        raise UserError(f"{dataset}: none of {len(rows)} rows can be asked")
    return SelectedQuestions(tuple(questions), skipped)


def _build_shuffled_generator(task: str, rows: int) -> random.Random:
    """Return the released code's generator as sampling leaves it: only BIG-Bench Hard's sampling draws from it."""
    generator = random.Random(PUBLISHED_SAMPLES[FORMS.get(task, "bbh")].seed)
    if task not in FORMS:
        generator.shuffle(list(range(rows)))
    return generator


def _list_labels(row: Row, task: str, profile: str) -> tuple[str, ...]:
    published_count = next((n for name, n in PUBLISHED_LABELS.items() if task.startswith(name)), None)
    return list_letters(len(row["choices"]) if profile != "published" or published_count is None else published_count)


def _get_fields(row: Row, task: str) -> dict[str, str]:
    """Return the fields of a row; `text` of BIG-Bench Hard is the text of its file, with letters added to choices."""
    if task == "esnli":
        return {"premise": row["premise"], "hypothesis": row["hypothesis"]}
    choices = list(row["choices"])
    if task == "comve":
        return {"first": choices[0], "second": choices[1]}
    options = "\n".join(
        f"({letter}) {choice}" for letter, choice in zip(list_letters(len(choices)), choices, strict=True)
    )
    text = row["text"]
    heading = CHOICES_HEADER if CHOICES_HEADER in text else OPTIONS_HEADER
    question = text.rpartition(heading)[0] if heading in text else text
    return {
        "text": text if text.endswith(options) else f"{question}{heading}{options}",
        "question": question,
        "options": options,
    }
