"""How many released items the foiling functions make again, and why they do not make the others."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from waltz.foils.candidates import Candidate

Item = Mapping[str, Any]
Reproduce = Callable[[Item], Sequence[Candidate]]
Cause = Callable[[Item, Sequence[Candidate]], str]


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


def alike(one: str, other: str) -> bool:
    """Whether two texts are the same, case, white space and the final full stop aside."""
    return _plain(one) == _plain(other)


def same(candidate: Candidate, item: Item) -> bool:
    """Whether a candidate that its rules can use is the released pair."""
    return (
        candidate.rejected is None
        and alike(candidate.caption, item["caption"])
        and alike(candidate.foil, item["foil"])
        and not alike(candidate.caption, candidate.foil)
    )


def _plain(text: str) -> str:
    return "".join(text.lower().split()).rstrip(".")


def misses(
    released: Iterable[Item],
    reproduce: Reproduce,
    cause: Cause,
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
