"""Choosing items so that no word betrays a foil: the lexical items of captions and of foils are alike in frequency.

The objective is the Jensen-Shannon distance between the phrases exchanged on the caption side and on the foil side. On
the swap graph a candidate that replaces p by q is an edge from p to q; a choice in which each phrase is put in as often
as it is taken away is a circulation, at distance 0. The largest one is a linear program over zero-one variables. Where
it falls short of the wanted size, candidates are added one by one, each time the one that raises the distance least,
as long as the distance that the study allows is kept.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from waltz.core.errors import UserError
from waltz.core.sampling import rank

SIDES = ("caption", "foil")
PREFERENCE_WEIGHT = 1e-5
"""What the seeded order of two candidates weighs at most: so little that it only decides between equals."""
Swap = tuple[tuple[str, ...], ...]
"""Phrases taken away, phrases put in."""
RELATIVE_GAP = 1e-9
"""Relative distance to the best possible choice at which the solver stops."""


@dataclass(frozen=True)
class BalanceLimits:
    """What a choice of items has to keep.

    Attributes:
        size: Most items; None for as many as there are.
        js: Highest Jensen-Shannon distance between caption and foil phrases, 0 to 1; None for no balancing.
        cap: Most items of a phrase on the caption side; None for any number.
        foil_cap: Most items of a phrase on the foil side; None for any number.
        halves: Whether every direction has the same number of items.
    """

    size: int | None = None
    js: float | None = None
    cap: int | None = None
    foil_cap: int | None = None
    halves: bool = False


def select_balanced(rows: Sequence[Mapping[str, Any]], wanted: BalanceLimits, seed: int) -> set[str]:
    """The largest choice of candidates, one of a source row, that keeps what is wanted.

    Args:
        rows: Candidates with item_id, source, source_id, direction, caption_phrases and foil_phrases.
        wanted: What the choice has to keep.
        seed: Seed of the order in which equals are preferred.
    Returns:
        The chosen item ids; the same for any order of `rows`.
    Raises:
        ValueError: Frequencies are to be balanced, and a row has more phrases on one side than on the other.
        UserError: The solver finds no optimum.
    """
    rows = sorted(rows, key=lambda row: str(row["item_id"]))
    if not rows:
        return set()
    limits = _Limits(len(rows))
    for group in _grouped(rows, lambda row: [_row(row)]).values():
        limits.at_most(group, 1)
    if wanted.size is not None:
        limits.at_most(dict.fromkeys(range(len(rows)), 1.0), wanted.size)
    for side, cap in (("caption", wanted.cap), ("foil", wanted.foil_cap)):
        if cap is not None:
            for group in _grouped(rows, lambda row, side=side: row[f"{side}_phrases"]).values():
                limits.at_most(group, cap)
    if wanted.halves:
        directions = list(_grouped(rows, lambda row: [row["direction"]]).values())
        for group in directions[1:]:
            limits.equal(directions[0] | dict.fromkeys(group, -1.0))
    if wanted.js is not None:
        _check(rows)
        for group in _swaps(rows):
            limits.equal(group)
    chosen = _largest(rows, limits, seed)
    if wanted.js and not wanted.halves:
        chosen = _filled(rows, chosen, len(rows) if wanted.size is None else wanted.size, wanted, seed)
    return {str(rows[index]["item_id"]) for index in chosen}


def _check(rows: Sequence[Mapping[str, Any]]) -> None:
    for row in rows:
        if len(row["caption_phrases"]) != len(row["foil_phrases"]):
            raise ValueError(f"{row['item_id']}: caption and foil exchange different numbers of phrases")


def _largest(rows: Sequence[Mapping[str, Any]], limits: "_Limits", seed: int) -> set[int]:
    """Places of the most rows that keep the limits."""
    favour = np.array([1 + PREFERENCE_WEIGHT * rank(str(row["item_id"]), seed) / 2**64 for row in rows])
    solution = milp(
        -favour,
        constraints=limits.constraint(),
        integrality=np.ones(len(rows)),
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": RELATIVE_GAP},
    )
    if not solution.success:
        raise UserError(f"balancing {rows[0]['instrument']}: the solver found no choice: {solution.message}")
    return set(np.flatnonzero(solution.x > 0.5).tolist())


def _filled(
    rows: Sequence[Mapping[str, Any]], chosen: set[int], size: int, wanted: BalanceLimits, seed: int
) -> set[int]:
    """A choice with more rows, each the one that raises the distance least, up to the distance allowed.

    With n phrases on each side, counts c and d and g(x) = x log2 x, the squared distance is
    1 + sum(g(c) + g(d) - g(c + d)) / 2n, so that a swap changes four terms of the sum and n.
    """
    highest = 0.0 if wanted.js is None else wanted.js
    chosen = set(chosen)
    counts = {side: Counter(p for index in chosen for p in rows[index][f"{side}_phrases"]) for side in SIDES}
    total = sum(_term(counts, phrase) for phrase in counts["caption"] | counts["foil"])
    used = {_row(rows[index]) for index in chosen}
    waiting: dict[Swap, list[int]] = defaultdict(list)
    for index in sorted(range(len(rows)), key=lambda index: rank(str(rows[index]["item_id"]), seed), reverse=True):
        if index not in chosen:
            waiting[tuple(tuple(rows[index][f"{side}_phrases"]) for side in SIDES)].append(index)
    while len(chosen) < size:
        for places in waiting.values():
            while places and _row(rows[places[-1]]) in used:
                places.pop()
        open_swaps = sorted(swap for swap, places in waiting.items() if places and _fits(counts, swap, wanted))
        if not open_swaps:
            break
        raised, swap = min((_raised(counts, swap), swap) for swap in open_swaps)
        phrases = sum(counts["caption"].values()) + len(swap[0])
        if 1 + (total + raised) / (2 * phrases) > highest**2:
            break
        index = waiting[swap].pop()
        chosen.add(index)
        used.add(_row(rows[index]))
        total += raised
        for side, words in zip(SIDES, swap, strict=True):
            counts[side].update(words)
    return chosen


def _row(row: Mapping[str, Any]) -> tuple[Any, Any]:
    return row["source"], row["source_id"]


def _fits(counts: Mapping[str, Counter[str]], swap: Swap, wanted: BalanceLimits) -> bool:
    return all(
        cap is None or all(counts[side][phrase] < cap for phrase in phrases)
        for side, phrases, cap in zip(SIDES, swap, (wanted.cap, wanted.foil_cap), strict=True)
    )


def _raised(counts: Mapping[str, Counter[str]], swap: Swap) -> float:
    """What one more swap adds to the sum of terms."""
    touched = sorted({*swap[0], *swap[1]})
    after = {side: Counter({word: counts[side][word] for word in touched}) for side in SIDES}
    for side, words in zip(SIDES, swap, strict=True):
        after[side].update(words)
    return sum(_term(after, word) - _term(counts, word) for word in touched)


def _term(counts: Mapping[str, Counter[str]], phrase: str) -> float:
    caption, foil = counts["caption"][phrase], counts["foil"][phrase]
    return sum(number * log2(number) for number in (caption, foil) if number) - (
        (caption + foil) * log2(caption + foil) if caption + foil else 0.0
    )


def find_lowest_cap(rows: Sequence[Mapping[str, Any]], side: str, size: int) -> int:
    """The lowest cap per phrase of one side that still leaves `size` source rows to choose from.

    Where there are fewer source rows than `size`, the number of rows of the commonest phrase.
    """
    rows_of: dict[str, set[tuple[Any, Any]]] = defaultdict(set)
    for row in rows:
        for phrase in row[f"{side}_phrases"]:
            rows_of[phrase].add((row["source"], row["source_id"]))
    sizes = [len(found) for found in rows_of.values()]
    for cap in range(1, max(sizes, default=0)):
        if sum(min(cap, number) for number in sizes) >= size:
            return cap
    return max(sizes, default=1)


class _Limits:
    """Rows of a linear program, collected one by one; a column a candidate."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._entries: list[tuple[int, int, float]] = []
        self._lower: list[float] = []
        self._upper: list[float] = []

    def at_most(self, group: Mapping[int, float], limit: float) -> None:
        self._add(group, -np.inf, limit)

    def equal(self, group: Mapping[int, float]) -> None:
        self._add(group, 0, 0)

    def constraint(self) -> LinearConstraint:
        places = np.array([(row, column) for row, column, _ in self._entries])
        values = np.array([value for _, _, value in self._entries])
        shape = (len(self._lower), self.columns)
        return LinearConstraint(csr_array((values, places.T), shape=shape), self._lower, self._upper)

    def _add(self, group: Mapping[int, float], lower: float, upper: float) -> None:
        row = len(self._lower)
        self._entries += [(row, column, value) for column, value in group.items()]
        self._lower.append(lower)
        self._upper.append(upper)


def _grouped(rows: Sequence[Mapping[str, Any]], keys: Any) -> dict[Any, dict[int, float]]:
    """Columns of each key, with how often the row has it."""
    groups: dict[Any, dict[int, float]] = defaultdict(dict)
    for index, row in enumerate(rows):
        for key, number in Counter(keys(row)).items():
            groups[key][index] = float(number)
    return groups


def _swaps(rows: Sequence[Mapping[str, Any]]) -> list[dict[int, float]]:
    """For each phrase, how often each row takes it away (+) or puts it in (-)."""
    groups: dict[str, dict[int, float]] = defaultdict(dict)
    for index, row in enumerate(rows):
        gone, come = Counter(row["caption_phrases"]), Counter(row["foil_phrases"])
        for phrase in sorted(gone.keys() | come.keys()):
            if gone[phrase] != come[phrase]:
                groups[phrase][index] = float(gone[phrase] - come[phrase])
    return [groups[phrase] for phrase in sorted(groups)]
