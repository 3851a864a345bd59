"""Questions for decoders: everything that a prompt needs to know about an item."""

from collections.abc import Mapping
from dataclasses import dataclass

from waltz.core.sampling import rank


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
