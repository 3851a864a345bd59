"""Comparison of released items with the candidates that the foiling functions build from the same inputs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from waltz.foils.candidates import Candidate

Item = Mapping[str, Any]
Reproduce = Callable[[Item], Sequence[Candidate]]
Explain = Callable[[Item, Sequence[Candidate]], str]


@dataclass(frozen=True)
class Miss:
    """A released item that is not among our candidates.

    Attributes:
        item_id: Its id in the release.
        caption: Its caption.
        foil: Its foil.
        cause: Why it is not among them.
    """

    item_id: str
    caption: str
    foil: str
    cause: str


def texts_match(text: str, expected: str) -> bool:
    """Return True where two texts are the same up to case, whitespace and the final full stop."""
    return _normalise(text) == _normalise(expected)


def matches_item(candidate: Candidate, item: Item) -> bool:
    """Return True where a candidate that its rules can use is the released pair."""
    return (
        candidate.rejected is None
        and texts_match(candidate.caption, item["caption"])
        and texts_match(candidate.foil, item["foil"])
        and not texts_match(candidate.caption, candidate.foil)
    )


def _normalise(text: str) -> str:
    return "".join(text.lower().split()).rstrip(".")


def find_misses(released: Iterable[Item], reproduce: Reproduce, explain: Explain) -> tuple[int, list[Miss]]:
    """Return the released items that are not among the candidates built from their inputs.

    Args:
        released: Records of the release, each with its `id`.
        reproduce: Builds candidates from an item's inputs.
        explain: Says why an item is not among its candidates.
    Returns:
        Number of items, and those missed.
    """
    count, misses = 0, []
    for item in released:
        count += 1
        candidates = reproduce(item)
        if not any(matches_item(candidate, item) for candidate in candidates):
            misses.append(Miss(item["id"], item["caption"], item["foil"], explain(item, candidates)))
    return count, misses
