"""How many released items the foiling functions make again, and why they do not make the others."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from waltz.foils.candidates import Candidate

Item = Mapping[str, Any]


@dataclass(frozen=True)
class Miss:
    """A released item that is not among our candidates.

    Attributes:
        item_id: Its id in the release.
        caption: Its caption.
        foil: Its foil.
        cause: Why it is not made.
    """

    item_id: str
    caption: str
    foil: str
    cause: str


def plain(text: str) -> str:
    """A text without what does not count: case, runs of white space, the final full stop."""
    return " ".join(text.lower().split()).rstrip(" .")


def same(candidate: Candidate, item: Item) -> bool:
    """Whether a candidate is the released pair, white space, case and final full stop aside."""
    return plain(candidate.caption) == plain(item["caption"]) and plain(candidate.foil) == plain(item["foil"])


def misses(
    released: Iterable[Item],
    reproduce: Callable[[Item], Sequence[Candidate]],
    cause: Callable[[Item, Sequence[Candidate]], str],
) -> tuple[int, list[Miss]]:
    """Released items that are not among the candidates made from their inputs.

    Args:
        released: Records of the release, each with its `id`.
        reproduce: Candidates from an item's inputs.
        cause: Why an item is not among its candidates.
    Returns:
        Number of items, and those missed.
    """
    count, missed = 0, []
    for item in released:
        count += 1
        candidates = reproduce(item)
        if not any(same(candidate, item) for candidate in candidates):
            missed.append(Miss(item["id"], item["caption"], item["foil"], cause(item, candidates)))
    return count, missed
