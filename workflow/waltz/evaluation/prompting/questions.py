"""Questions for decoders about images and about text alone (thesis 3.5, 5.2, 5.5)."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from waltz.core.errors import UserError
from waltz.core.layout import Row
from waltz.core.sampling import rank, sample_at_most
from waltz.core.schema import ItemRecord, ProbeRecord
from waltz.evaluation.items import get_published_order, list_texts
from waltz.evaluation.vqa import VqaItem
from waltz.fidelity import Fidelity
from waltz.sources.formats.text_tasks import CHOICES_HEADER, OPTIONS_HEADER
from waltz.sources.published_samples import (
    PUBLISHED_SAMPLES,
    draw_caption_first,
    select_published_ids,
)
from waltz.valse_release import PUBLISHED_VALID_ITEMS

WRONG_OPEN_ANSWER = "impossible to give"
"""Wrong answer that the released code suggests for an open question."""
PUBLISHED_LABELS = {"disambiguation": 3}
"""Number of labels in the released code, by prefix of the task, where it differs from the number of
choices.
"""


@dataclass(frozen=True)
class Question:
    """Hold one question about a text or an image.

    Attributes:
        item_id: Id of the item; questions about its caption and its foil share it.
        dataset: Name of the data set in the study.
        form: Form of the question, a key of `forms` in the prompt files: `pairwise`, `single`,
            `open`, `esnli`, `comve` or `bbh`.
        image: Name of the image; None for a text task.
        fields: Texts of the fields that the form names.
        labels: Letters from which the model chooses; empty for an open question.
        gold: The right label, or all accepted answers to an open question, most frequent first.
        wrong: A wrong label or answer, which the biasing remark suggests.
        role: Role of the text of a `single` question: `caption`, `foil` or `mismatched`; None for
            other forms.
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


def draw_wrong_label(
    item_id: str, labels: tuple[str, ...], gold: str, seed: int
) -> str:
    """Draw one of the labels that are not gold, by a hash of seed and item id.

    Raises:
        ValueError: There is no other label.
    """
    wrong_labels = [label for label in labels if label != gold]
    if not wrong_labels:
        raise ValueError(f"no label except the gold one {gold!r}: {item_id}")
    # With a hash instead of a generator, the draw does not depend on the draws of other items.
    return wrong_labels[rank(f"wrong:{item_id}", seed) % len(wrong_labels)]


def assign_balanced_orders(item_ids: Sequence[str], seed: int) -> dict[str, bool]:
    """Return, for each item, whether its caption is (A): it is for every second item in the order
    of their ranks.

    The numbers of captions and of foils that stand first differ by at most one. This holds also for
    each sample of these items that `core.sampling` takes with the same seed, since it takes items
    in the order of `rank`. The orders do not depend on the order of the file, or on other questions
    about an item.

    Args:
        item_ids: Ids of all items of the data set that may be sampled.
        seed: Seed of the ranks; the study's seed of samples.
    """
    # The rank is a hash of seed and id, so that orders do not depend on the file.
    ranked = sorted(item_ids, key=lambda item_id: (rank(item_id, seed), item_id))
    return {item_id: index % 2 == 0 for index, item_id in enumerate(ranked)}


def draw_published_orders(
    items: Sequence[ItemRecord], earlier_draws: int = 0
) -> dict[str, bool]:
    """Return, for each item, whether its caption is (A) in the released code, which draws once for
    each item.

    Items of MSCOCO record their orders, because the released code draws a foil between two of these
    draws.

    Args:
        items: All valid items of the piece in file order.
        earlier_draws: Number of draws for the pieces before this piece (`count_earlier_draws`); 0
            in the runs of CC-SHAP and the tests, which set the seed again for each piece.
    """
    # One stream of draws serves all pieces one after the other.
    draws = draw_caption_first(earlier_draws + len(items))[earlier_draws:]
    orders: dict[str, bool] = {}
    for item, caption_first in zip(items, draws, strict=True):
        recorded = get_published_order(item)
        orders[item.item_id] = caption_first if recorded is None else recorded
    return orders


def count_earlier_draws(dataset: str) -> int:
    """Return the number of orders that the released scripts for accuracy and T-SHAP draw before
    this piece.

    It is 0 for a data set that the scripts do not contain.
    """
    if dataset not in PUBLISHED_VALID_ITEMS:
        return 0
    # The scripts run the pieces one after the other with one generator.
    n_earlier_pieces = list(PUBLISHED_VALID_ITEMS).index(dataset)
    return sum(list(PUBLISHED_VALID_ITEMS.values())[:n_earlier_pieces])


def assign_orders(
    items: Sequence[ItemRecord], dataset: str, fidelity: Fidelity, seed: int
) -> dict[str, bool]:
    """Return, for each item, whether its caption is (A) in the pairwise question.

    Args:
        items: All items of the benchmark that may be asked about, in file order, before sampling.
        dataset: Name of the data set, which decides the position of a piece of VALSE in the
            released stream of draws.
        fidelity: Rules of the order.
        seed: The study's seed, for `equations`.
    """
    if fidelity.option_order == "balanced":
        return assign_balanced_orders([item.item_id for item in items], seed)
    return draw_published_orders(items, count_earlier_draws(dataset))


def build_pairwise_questions(
    items: Sequence[ItemRecord], dataset: str, orders: Mapping[str, bool]
) -> list[Question]:
    """Build the question, for each item, which of caption and foil is right; the orders say if the
    caption is (A).
    """
    labels = list_letters(2)
    questions = []
    for item in items:
        if orders[item.item_id]:
            order = "caption-first"
            fields = {"first": item.caption, "second": item.foil}
            gold, wrong = labels
        else:
            order = "foil-first"
            fields = {"first": item.foil, "second": item.caption}
            wrong, gold = labels
        questions.append(
            Question(
                item.item_id,
                dataset,
                "pairwise",
                item.image,
                fields,
                labels,
                (gold,),
                wrong,
                order=order,
            )
        )
    return questions


def build_single_questions(
    items: Sequence[ItemRecord | ProbeRecord], dataset: str
) -> list[Question]:
    """Build the question, for each text of each item, whether it describes the image, (A), or not,
    (B).
    """
    labels = list_letters(2)
    questions = []
    for item in items:
        for role, text in list_texts(item):
            gold, wrong = labels if role == "caption" else labels[::-1]
            fields = {"caption": text}
            questions.append(
                Question(
                    item.item_id,
                    dataset,
                    "single",
                    item.image,
                    fields,
                    labels,
                    (gold,),
                    wrong,
                    role=role,
                )
            )
    return questions


def build_open_questions(items: Sequence[VqaItem], dataset: str) -> list[Question]:
    """Build questions that are answered in words (VQA, GQA).

    The answer of any annotator counts as right. The gold answers are sorted by frequency, ties in
    the order of the annotators. Without annotators there is a single gold answer.
    """
    questions = []
    for item in items:
        answers = list(item.answers) or [item.answer]
        # Sorting is stable: equally frequent answers stay in the annotators' order.
        gold = tuple(
            sorted(dict.fromkeys(answers), key=lambda answer: -answers.count(answer))
        )
        fields = {"question": item.question.strip()}
        questions.append(
            Question(
                item.item_id,
                dataset,
                "open",
                item.image,
                fields,
                (),
                gold,
                WRONG_OPEN_ANSWER,
            )
        )
    return questions


@dataclass(frozen=True)
class SelectedQuestions:
    """Hold the questions of a data set, and the selected items that cannot be asked.

    Attributes:
        questions: Questions in the order in which they are asked.
        skipped: For each selected item that cannot be asked, the reason.
    """

    questions: tuple[Question, ...]
    skipped: Mapping[str, str]


def select_text_questions(
    rows: Sequence[Row], dataset: str, fidelity: Fidelity, n: int | None, seed: int
) -> SelectedQuestions:
    """Select the questions of one data set of a text task.

    `equations` takes the n usable items of lowest rank under the seed, and draws the wrong label of
    each item by a hash of the item. `published` takes the first items after the released code's
    shuffle (`sources.published_samples`), and draws wrong labels from the generator that shuffled,
    one item after the other.

    Args:
        rows: All rows of the layout `TEXTS` in file order, rejected ones included; all belong to
            one task.
        dataset: Name of the data set.
        fidelity: Rules of the sample and of the labels.
        n: Number of items; None takes all, or in `published` as many as were published. A smaller
            data set is taken completely.
        seed: Seed of sample and wrong labels in `equations`.
    Raises:
        UserError: No row can be asked, or the rows belong to several tasks.
    """
    tasks = {str(row["task"]) for row in rows}
    if len(tasks) != 1:
        raise UserError(
            f"{dataset}: expected rows of one task, got {len(tasks)}: {', '.join(sorted(tasks))}; give each task a data"
            " set"
        )
    task = tasks.pop()
    form = task if task in ("esnli", "comve") else "bbh"
    generator = random.Random(PUBLISHED_SAMPLES[form].seed)
    # Only its sampling draws from the generator that draws wrong labels.
    if form == "bbh":
        generator.shuffle(list(range(len(rows))))

    questions: list[Question] = []
    skipped: dict[str, str] = {}
    for row in _select_text_rows(rows, form, fidelity, n, seed):
        item_id = f"{row['source']}:{row['source_id']}"
        labels = _list_labels(row, task, fidelity)
        fault = _find_fault(row, labels)
        if fault is not None:
            skipped[item_id] = fault
            continue
        gold = labels[row["gold"]]
        # ComVE has two labels, so that nothing is drawn for its wrong label in `published`.
        if fidelity.sampling == "rank":
            wrong = draw_wrong_label(item_id, labels, gold, seed)
        elif task == "comve":
            wrong = labels[1 - row["gold"]]
        else:
            wrong = generator.choice([label for label in labels if label != gold])
        questions.append(
            Question(
                item_id,
                dataset,
                form,
                None,
                _get_fields(row, task),
                labels,
                (gold,),
                wrong,
            )
        )
    if not questions:
        raise UserError(
            f"{dataset}: none of {len(rows)} rows can be asked; name another source"
        )
    return SelectedQuestions(tuple(questions), skipped)


def _select_text_rows(
    rows: Sequence[Row], form: str, fidelity: Fidelity, n: int | None, seed: int
) -> list[Row]:
    """Return the rows of the sample of a profile, in the order of the sample."""
    rows_by_id = {str(row["source_id"]): row for row in rows}
    if fidelity.sampling == "released":
        ids = select_published_ids(form, rows, n)
    else:
        usable = [
            row_id for row_id, row in rows_by_id.items() if row["rejected"] is None
        ]
        ids = sample_at_most(usable, n, seed)
    return [rows_by_id[row_id] for row_id in ids]


def _find_fault(row: Row, labels: Sequence[str]) -> str | None:
    """Return the reason why a row cannot be asked, or None if it can."""
    if row["rejected"]:
        return str(row["rejected"])
    if row["gold"] >= len(labels):
        return f"its answer is none of {', '.join(labels)}"
    return None


def _list_labels(row: Row, task: str, fidelity: Fidelity) -> tuple[str, ...]:
    """Return the labels of a row: one for each choice, or as many as the released code has."""
    if fidelity.released_label_count:
        for prefix, count in PUBLISHED_LABELS.items():
            if task.startswith(prefix):
                return list_letters(count)
    return list_letters(len(row["choices"]))


def _get_fields(row: Row, task: str) -> dict[str, str]:
    """Return the fields of a question from a row; `text` of BIG-Bench Hard is the file's text with
    lettered choices.
    """
    if task == "esnli":
        return {"premise": row["premise"], "hypothesis": row["hypothesis"]}
    choices = list(row["choices"])
    if task == "comve":
        return {"first": choices[0], "second": choices[1]}

    # BIG-Bench Hard: the question, the options with letters, and both together.
    letters = list_letters(len(choices))
    options = "\n".join(
        f"({letter}) {choice}" for letter, choice in zip(letters, choices, strict=True)
    )
    text = row["text"]
    heading = OPTIONS_HEADER
    if CHOICES_HEADER in text:
        heading = CHOICES_HEADER
    question = text
    if heading in text:
        question, _, _ = text.rpartition(heading)
    # Some tasks have choices without letters in their file.
    if not text.endswith(options):
        text = f"{question}{heading}{options}"
    return {"text": text, "question": question, "options": options}
