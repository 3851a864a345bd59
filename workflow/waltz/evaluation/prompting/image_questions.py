"""Questions about an image: caption against foil, one text beside its image, and open questions (thesis 3.5, 5.5)."""

from collections.abc import Mapping, Sequence
from typing import Any

from waltz.core.errors import UserError
from waltz.core.sampling import rank
from waltz.evaluation.items import texts
from waltz.evaluation.prompting.questions import Question, letters
from waltz.instruments import INSTRUMENTS
from waltz.sources.published_samples import draw_caption_first

Row = Mapping[str, Any]

NO_ANSWER = "impossible to give"
"""The wrong answer to an open question that the released code suggests."""

PUBLISHED_STREAM: Mapping[str, int] = {
    name: INSTRUMENTS[name].released_items for name in sorted(INSTRUMENTS, key=lambda name: name != "foil-it")
}
"""Valid items by piece, in the order in which the released scripts for accuracy and T-SHAP go through the pieces."""


def balanced_orders(item_ids: Sequence[str], seed: int) -> dict[str, bool]:
    """Whether each item's caption is (A): every other item in the order of `core.sampling.rank`.

    As many captions as foils stand first, to within one; so too in each sample of these items that `core.sampling`
    takes with the same seed, since it takes items in that order. It hangs neither on the order of the file nor on
    what is asked beside an item.

    Args:
        item_ids: Ids of all items of the data set that may be sampled.
        seed: Seed of the order; the study's seed of samples.
    """
    ranked = sorted(item_ids, key=lambda item_id: (rank(item_id, seed), item_id))
    return {item_id: place % 2 == 0 for place, item_id in enumerate(ranked)}


def published_orders(item_ids: Sequence[str], before: int = 0, seed: int = 42) -> dict[str, bool]:
    """Whether each item's caption is (A) in the released code: one draw an item from one generator.

    Args:
        item_ids: Ids of all valid items of the piece in file order.
        before: Draws that pieces before this one took (`drawn_before`); 0 in the runs of CC-SHAP and the tests, which
            seed anew for each piece. Those of MSCOCO draw another caption between two orders and are not had again.
        seed: Seed of the generator.
    """
    firsts = draw_caption_first(before + len(item_ids), seed)[before:]
    return dict(zip(item_ids, firsts, strict=True))


def drawn_before(dataset: str) -> int:
    """Orders that the released scripts for accuracy and T-SHAP draw before they come to this piece.

    Raises:
        UserError: The piece is none of theirs.
    """
    if dataset not in PUBLISHED_STREAM:
        raise UserError(f"{dataset}: no published order of captions; there are {', '.join(PUBLISHED_STREAM)}")
    names = list(PUBLISHED_STREAM)
    return sum(PUBLISHED_STREAM[name] for name in names[: names.index(dataset)])


def pairwise_questions(items: Sequence[Row], dataset: str, orders: Mapping[str, bool]) -> list[Question]:
    """Which of caption and foil is right, for each item; (A) is the one that the orders put first.

    Args:
        items: Rows of the benchmark layout.
        dataset: Name of the data set in the study.
        orders: Whether each item's caption stands first, by item.
    """
    asked = []
    for item in items:
        first = orders[item["item_id"]]
        caption, foil = item["caption"], item["foil"]
        fields = {"first": caption, "second": foil} if first else {"first": foil, "second": caption}
        gold, wrong = letters(2) if first else letters(2)[::-1]
        order = "caption-first" if first else "foil-first"
        asked.append(
            Question(
                item["item_id"], dataset, "pairwise", item["image"], fields, letters(2), (gold,), wrong, order=order
            )
        )
    return asked


def single_questions(items: Sequence[Row], dataset: str) -> list[Question]:
    """Whether one text describes the image, (A), or not, (B): of each item first the caption, then the other text.

    Args:
        items: Rows of the benchmark or of CV-Probes.
        dataset: Name of the data set in the study.
    """
    asked = []
    for item in items:
        for role, text in texts(item):
            gold, wrong = letters(2) if role == "caption" else letters(2)[::-1]
            fields = {"caption": text}
            asked.append(
                Question(
                    item["item_id"], dataset, "single", item["image"], fields, letters(2), (gold,), wrong, role=role
                )
            )
    return asked


def open_questions(rows: Sequence[Row], dataset: str) -> list[Question]:
    """Questions to be answered in words (VQA, GQA).

    What any annotator said counts as right, the commonest answer first, ties in the annotators' order; where there
    are no annotators, the one answer.

    Args:
        rows: Rows of the layout `QUESTIONS`, chosen.
        dataset: Name of the data set in the study.
    Raises:
        UserError: A row was rejected, or has no answer.
    """
    asked = []
    for row in rows:
        item_id = f"{row['source']}:{row['source_id']}"
        said = list(row["answers"]) or [row["answer"]]
        if row["rejected"] is not None or None in said:
            raise UserError(f"{dataset}: {item_id} cannot be asked: {row['rejected'] or 'it has no answer'}")
        gold = tuple(sorted(dict.fromkeys(said), key=lambda answer: -said.count(answer)))
        fields = {"question": row["question"].strip()}
        asked.append(Question(item_id, dataset, "open", row["image"], fields, (), gold, NO_ANSWER))
    return asked
