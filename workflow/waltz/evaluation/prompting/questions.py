"""What a decoder is asked: one question, with everything that a prompt needs."""

from collections.abc import Mapping
from dataclasses import dataclass

from waltz.core.sampling import rank


@dataclass(frozen=True)
class Question:
    """One question about a text or an image.

    Attributes:
        item_id: Id of the item; caption and foil of one item share it.
        dataset: Name of the data set in the study.
        form: How it is put into words, a key of `forms` in the prompt files: `pairwise`, `single`, `open`, `esnli`,
            `comve` or `bbh`.
        image: Name of the image; None for a text task.
        fields: Texts that the form names.
        labels: Letters to choose from; none for an open question.
        gold: The right label, or every answer to an open question that counts as right, the commonest first.
        wrong: A wrong label or answer: what a biasing remark suggests.
        role: Of a single text beside its image: `caption`, `foil` or `mismatched`; None for other forms.
        order: `caption-first` or `foil-first` in a pairwise question; None for other forms.
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


def letters(n: int) -> tuple[str, ...]:
    """The first n of A, B, C, …"""
    return tuple(chr(ord("A") + place) for place in range(n))


def wrong_label(item_id: str, labels: tuple[str, ...], gold: str, seed: int) -> str:
    """One of the labels that are not gold, by a hash of seed and item: it hangs on no other item.

    Raises:
        ValueError: There is no other label.
    """
    others = [label for label in labels if label != gold]
    if not others:
        raise ValueError(f"{item_id}: no label but {gold!r}")
    return others[rank(f"wrong:{item_id}", seed) % len(others)]
