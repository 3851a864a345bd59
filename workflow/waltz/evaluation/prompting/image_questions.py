"""Questions about images: caption against foil, one text and its image, and open questions (thesis 3.5, 5.5)."""

from collections.abc import Mapping, Sequence
from typing import Any

from waltz.core.errors import UserError
from waltz.core.sampling import rank
from waltz.evaluation.items import list_texts
from waltz.evaluation.prompting.questions import Question, list_letters
from waltz.instruments import INSTRUMENTS
from waltz.sources.published_samples import draw_caption_first

Row = Mapping[str, Any]

WRONG_OPEN_ANSWER = "impossible to give"
"""Wrong answer to an open question that the released code suggests."""

PUBLISHED_VALID_ITEMS: Mapping[str, int] = {
    name: INSTRUMENTS[name].released_items for name in sorted(INSTRUMENTS, key=lambda name: name != "foil-it")
}
"""Valid items by piece, in the order in which the released scripts for accuracy and T-SHAP go through the pieces."""


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


def draw_published_orders(item_ids: Sequence[str], earlier_draws: int = 0, seed: int = 42) -> dict[str, bool]:
    """Return by item whether its caption is (A) in the released code: one draw per item from one generator.

    Args:
        item_ids: Ids of all valid items of the piece in file order.
        earlier_draws: Draws of the pieces before this one (`count_earlier_draws`); 0 in the runs of CC-SHAP and the
            tests, which seed anew for each piece. The pieces of MSCOCO draw another caption between two orders, so
            their orders cannot be reproduced.
        seed: Seed of the generator.
    """
    firsts = draw_caption_first(earlier_draws + len(item_ids), seed)[earlier_draws:]
    return dict(zip(item_ids, firsts, strict=True))


def count_earlier_draws(dataset: str) -> int:
    """Return the number of orders that the released scripts for accuracy and T-SHAP draw before this piece.

    Raises:
        UserError: The piece is none of theirs.
    """
    if dataset not in PUBLISHED_VALID_ITEMS:
        raise UserError(f"{dataset}: no published order of captions; there are {', '.join(PUBLISHED_VALID_ITEMS)}")
    names = list(PUBLISHED_VALID_ITEMS)
    return sum(PUBLISHED_VALID_ITEMS[name] for name in names[: names.index(dataset)])


def build_pairwise_questions(items: Sequence[Row], dataset: str, orders: Mapping[str, bool]) -> list[Question]:
    """Build one question per item: is caption or foil right? (A) is the text that the orders put first.

    Args:
        items: Rows of the benchmark layout.
        dataset: Name of the data set in the study.
        orders: Whether the caption stands first, by item.
    """
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
    """Build one question per text: does it describe the image, (A), or not, (B)? The caption comes first.

    Args:
        items: Rows of the benchmark or of CV-Probes.
        dataset: Name of the data set in the study.
    """
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


def build_open_questions(rows: Sequence[Row], dataset: str) -> list[Question]:
    """Build questions that are answered in words (VQA, GQA).

    The answer of any annotator counts as right, the most frequent answer first, ties in the annotators' order; without
    annotators the one answer.

    Args:
        rows: Selected rows of the layout `QUESTIONS`.
        dataset: Name of the data set in the study.
    Raises:
        UserError: A row was rejected, or has no answer.
    """
    questions = []
    for row in rows:
        item_id = f"{row['source']}:{row['source_id']}"
        answers = list(row["answers"]) or [row["answer"]]
        if row["rejected"] is not None or None in answers:
            raise UserError(f"{dataset}: {item_id} cannot be asked: {row['rejected'] or 'it has no answer'}")
        gold = tuple(sorted(dict.fromkeys(answers), key=lambda answer: -answers.count(answer)))
        fields = {"question": row["question"].strip()}
        questions.append(Question(item_id, dataset, "open", row["image"], fields, (), gold, WRONG_OPEN_ANSWER))
    return questions
