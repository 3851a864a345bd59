"""Questions for decoders about images and about text alone (thesis 3.5, 5.2, 5.5)."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from waltz.core.errors import UserError
from waltz.core.sampling import rank, sample
from waltz.evaluation.items import get_published_order, list_texts
from waltz.fidelity import get_fidelity
from waltz.instruments import INSTRUMENTS
from waltz.sources.formats.text_tasks import CHOICES_HEADER, OPTIONS_HEADER
from waltz.sources.published_samples import PUBLISHED_SAMPLES, draw_caption_first, select_published_ids

Row = Mapping[str, Any]
WRONG_OPEN_ANSWER = "impossible to give"
"""Wrong answer to an open question that the released code suggests."""
PUBLISHED_VALID_ITEMS: Mapping[str, int] = {
    name: INSTRUMENTS[name].released_items for name in sorted(INSTRUMENTS, key=lambda name: name != "foil-it")
}
"""Valid items by piece, in the order in which the released scripts for accuracy and T-SHAP go through the pieces."""
PUBLISHED_LABELS = {"disambiguation": 3}
"""Number of labels in the released code where it is not the number of choices, by prefix of the task."""


@dataclass(frozen=True)
class Question:
    """One question about a text or an image.

    Attributes:
        item_id: Id of the item; caption and foil of one item share it.
        dataset: Name of the data set in the study.
        form: Form of the question, a key of `forms` in the prompt files: `pairwise`, `single`, `open`, `esnli`,
            `comve` or `bbh`.
        image: Name of the image; None for a text task.
        fields: Texts that the form names.
        labels: Letters to choose from; empty for an open question.
        gold: The right label, or all accepted answers to an open question, most frequent first.
        wrong: A wrong label or answer, suggested by the biasing remark.
        role: Role of the text of a `single` question: `caption`, `foil` or `mismatched`; None for other forms.
        order: `caption-first` or `foil-first` in a `pairwise` question; None for other forms.
    """

    item_id: str
    dataset: str
    form: str
    image: str | None
    fields: Mapping[str, str]
    labels: tuple[str, ...]
    gold: tuple[str, ...]
    wrong: str
    role: str | None = None
    order: str | None = None


def list_letters(n: int) -> tuple[str, ...]:
    """Return the first n of A, B, C, …"""
    return tuple(chr(ord("A") + index) for index in range(n))


def draw_wrong_label(item_id: str, labels: tuple[str, ...], gold: str, seed: int) -> str:
    """Return one of the labels that are not gold, by a hash of seed and item id, independent of other items.

    Raises:
        ValueError: There is no other label.
    """
    wrong_labels = [label for label in labels if label != gold]
    if not wrong_labels:
        raise ValueError(f"no label except the gold one {gold!r}: {item_id}")
    return wrong_labels[rank(f"wrong:{item_id}", seed) % len(wrong_labels)]


def assign_balanced_orders(item_ids: Sequence[str], seed: int) -> dict[str, bool]:
    """Return by item whether its caption is (A): every second item in the order of `core.sampling.rank`.

    Captions and foils stand first equally often, to within one; also in each sample of these items that `core.sampling`
    takes with the same seed, since it takes items in that order. The orders depend neither on the order of the file nor
    on what else is asked about an item.

    Args:
        item_ids: Ids of all items of the data set that may be sampled.
        seed: Seed of the order; the study's seed of samples.
    """
    ranked = sorted(item_ids, key=lambda item_id: (rank(item_id, seed), item_id))
    return {item_id: index % 2 == 0 for index, item_id in enumerate(ranked)}


def draw_published_orders(items: Sequence[Row], earlier_draws: int = 0, seed: int = 42) -> dict[str, bool]:
    """Return by item whether its caption is (A) in the released code: one draw per item from one generator.

    Items of MSCOCO record their orders, because the released code draws a foil between two of them.

    Args:
        items: All valid items of the piece in file order.
        earlier_draws: Draws of the pieces before this one (`count_earlier_draws`); 0 in the runs of CC-SHAP and the
            tests, which seed anew for each piece.
        seed: Seed of the generator.
    """
    drawn = draw_caption_first(earlier_draws + len(items), seed)[earlier_draws:]
    recorded = (get_published_order(item) for item in items)
    return {
        item["item_id"]: first if order is None else order
        for item, first, order in zip(items, drawn, recorded, strict=True)
    }


def count_earlier_draws(dataset: str) -> int:
    """Return the number of orders that the released scripts for accuracy and T-SHAP draw before this piece.

    0 for a data set that is none of theirs.
    """
    names = list(PUBLISHED_VALID_ITEMS)
    earlier = names[: names.index(dataset)] if dataset in names else []
    return sum(PUBLISHED_VALID_ITEMS[name] for name in earlier)


def assign_orders(items: Sequence[Row], dataset: str, profile: str, seed: int) -> dict[str, bool]:
    """Return by item whether its caption is (A) in the pairwise question.

    Args:
        items: All rows of the benchmark that may be asked about, in file order, before sampling.
        dataset: Name of the data set; those of VALSE have their position in the released scripts' stream of draws.
    """
    if get_fidelity(profile).option_order == "balanced":
        return assign_balanced_orders([item["item_id"] for item in items], seed)
    return draw_published_orders(items, count_earlier_draws(dataset))


def build_pairwise_questions(items: Sequence[Row], dataset: str, orders: Mapping[str, bool]) -> list[Question]:
    """Build one question per item: is caption or foil right? (A) is the caption where the orders put it first."""
    labels = list_letters(2)
    questions = []
    for item in items:
        caption_is_first = orders[item["item_id"]]
        caption, foil = item["caption"], item["foil"]
        fields = {"first": caption, "second": foil} if caption_is_first else {"first": foil, "second": caption}
        gold, wrong = labels if caption_is_first else labels[::-1]
        order = "caption-first" if caption_is_first else "foil-first"
        questions.append(
            Question(item["item_id"], dataset, "pairwise", item["image"], fields, labels, (gold,), wrong, order=order)
        )
    return questions


def build_single_questions(items: Sequence[Row], dataset: str) -> list[Question]:
    """Build one question per text of an item: does it describe the image, (A), or not, (B)?"""
    labels = list_letters(2)
    questions = []
    for item in items:
        for role, text in list_texts(item):
            gold, wrong = labels if role == "caption" else labels[::-1]
            fields = {"caption": text}
            questions.append(
                Question(item["item_id"], dataset, "single", item["image"], fields, labels, (gold,), wrong, role=role)
            )
    return questions


def build_open_questions(items: Sequence[Row], dataset: str) -> list[Question]:
    """Build questions that are answered in words (VQA, GQA).

    The answer of any annotator counts as right, the most frequent answer first, ties in the annotators' order; without
    annotators the one answer.

    Args:
        items: Rows of `vqa.select_questions`.
    """
    questions = []
    for item in items:
        answers = list(item["answers"]) or [item["answer"]]
        gold = tuple(sorted(dict.fromkeys(answers), key=lambda answer: -answers.count(answer)))
        fields = {"question": item["question"].strip()}
        questions.append(Question(item["item_id"], dataset, "open", item["image"], fields, (), gold, WRONG_OPEN_ANSWER))
    return questions


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
    form = task if task in ("esnli", "comve") else "bbh"
    generator = random.Random(PUBLISHED_SAMPLES[form].seed)
    if form == "bbh":  # only its sampling draws from the generator that draws wrong labels
        generator.shuffle(list(range(len(rows))))
    fidelity = get_fidelity(profile)
    if fidelity.sampling == "released":
        selected = [by_id[key] for key in select_published_ids(form, rows, n)]
    else:
        usable = [key for key, row in by_id.items() if row["rejected"] is None]
        selected = [by_id[key] for key in sample(usable, None if n is None else min(n, len(usable)), seed)]
    questions: list[Question] = []
    skipped: dict[str, str] = {}
    for row in selected:
        item_id, labels = f"{row['source']}:{row['source_id']}", _list_labels(row, task, profile)
        reason = row["rejected"] or (
            None if row["gold"] < len(labels) else f"its answer is none of {', '.join(labels)}"
        )
        if reason is not None:
            skipped[item_id] = reason
            continue
        gold = labels[row["gold"]]
        if fidelity.sampling == "rank":
            wrong = draw_wrong_label(item_id, labels, gold, seed)
        elif task == "comve":
            wrong = labels[1 - row["gold"]]
        else:
            wrong = generator.choice([label for label in labels if label != gold])
        questions.append(Question(item_id, dataset, form, None, _get_fields(row, task), labels, (gold,), wrong))
    if not questions:
        raise UserError(f"{dataset}: none of {len(rows)} rows can be asked")
    return SelectedQuestions(tuple(questions), skipped)


def _list_labels(row: Row, task: str, profile: str) -> tuple[str, ...]:
    published_count = next((n for name, n in PUBLISHED_LABELS.items() if task.startswith(name)), None)
    released = get_fidelity(profile).released_label_count
    return list_letters(published_count if released and published_count else len(row["choices"]))


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
