"""Selection of items in which no word reveals the foil: exchanged phrases are equally frequent in captions and foils.

The objective is the Jensen-Shannon distance between the phrases exchanged on the caption side and on the foil side. In
the swap graph a candidate that replaces p by q is an edge from p to q; a selection in which each phrase is inserted as
often as it is removed is a circulation, at distance 0. The largest circulation is a linear program over zero-one
variables. Where it is smaller than the required size, candidates are added one by one, each time the one that raises
the distance least, as long as the distance stays within the limit of the study.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any

import numpy as np
import scipy

from waltz.core.errors import UserError
from waltz.core.sampling import rank

SIDES = ("caption", "foil")
PREFERENCE_WEIGHT = 1e-5
"""Highest weight of the seeded order of candidates, so low that it only decides between equally good selections."""
Swap = tuple[tuple[str, ...], ...]
"""Phrases removed from the caption, phrases inserted in the foil."""
RELATIVE_GAP = 1e-9
"""Relative distance to the best possible selection at which the solver stops."""


@dataclass(frozen=True)
class BalanceLimits:
    """Limits of a selection of items.

    Attributes:
        size: Most items; None for as many as there are.
        js: Highest Jensen-Shannon distance between caption and foil phrases, 0 to 1; None for no balancing.
        cap: Most items of a phrase on the caption side; None for any number.
        foil_cap: Most items of a phrase on the foil side; None for any number.
        halves: Whether each direction has the same number of items.
    """

    size: int | None = None
    js: float | None = None
    cap: int | None = None
    foil_cap: int | None = None
    halves: bool = False


def select_balanced(rows: Sequence[Mapping[str, Any]], limits: BalanceLimits, seed: int) -> set[str]:
    """Select as many candidates as possible within limits, at most one for each source row.

    Args:
        rows: Candidates with item_id, source, source_id, direction, caption_phrases and foil_phrases.
        seed: Seed of the order in which equally good candidates are preferred.
    Returns:
        The selected item ids; the same for any order of `rows`.
    """
    rows = sorted(rows, key=lambda row: str(row["item_id"]))
    if not rows:
        return set()
    program = _LinearProgram(len(rows))
    for group in _group_columns(rows, lambda row: [_get_source_row(row)]).values():
        program.add_upper_limit(group, 1)
    if limits.size is not None:
        program.add_upper_limit(dict.fromkeys(range(len(rows)), 1.0), limits.size)
    for side, cap in (("caption", limits.cap), ("foil", limits.foil_cap)):
        if cap is not None:
            for group in _group_columns(rows, lambda row, side=side: row[f"{side}_phrases"]).values():
                program.add_upper_limit(group, cap)
    if limits.halves:
        directions = list(_group_columns(rows, lambda row: [row["direction"]]).values())
        for group in directions[1:]:
            program.add_balance(directions[0] | dict.fromkeys(group, -1.0))
    if limits.js is not None:
        _check_phrase_counts(rows)
        for group in _count_net_removals(rows):
            program.add_balance(group)
    selected = _solve(rows, program, seed)
    if limits.js and not limits.halves:
        selected = _add_candidates(rows, selected, limits, seed)
    return {str(rows[index]["item_id"]) for index in selected}


def _check_phrase_counts(rows: Sequence[Mapping[str, Any]]) -> None:
    for row in rows:
        if len(row["caption_phrases"]) != len(row["foil_phrases"]):
            raise ValueError(f"{row['item_id']}: caption and foil exchange different numbers of phrases")


def _solve(rows: Sequence[Mapping[str, Any]], program: "_LinearProgram", seed: int) -> set[int]:
    """Return the indices of the largest selection within the constraints."""
    weights = np.array([1 + PREFERENCE_WEIGHT * rank(str(row["item_id"]), seed) / 2**64 for row in rows])
    solution = scipy.optimize.milp(
        -weights,
        constraints=program.build_constraint(),
        integrality=np.ones(len(rows)),
        bounds=scipy.optimize.Bounds(0, 1),
        options={"mip_rel_gap": RELATIVE_GAP},
    )
    if not solution.success:
        raise UserError(
            f"balancing {rows[0]['instrument']}: the solver found no selection ({solution.message});"
            " relax the limits of the instrument"
        )
    return set(np.flatnonzero(solution.x > 0.5).tolist())


def _add_candidates(
    rows: Sequence[Mapping[str, Any]], selected: set[int], limits: BalanceLimits, seed: int
) -> set[int]:
    """Add candidates to a selection, each time the one that raises the distance least, up to the highest distance.

    With n phrases on each side, counts c and d and g(x) = x log2 x, the squared distance is
    1 + sum(g(c) + g(d) - g(c + d)) / 2n, so that a swap changes four terms of the sum and n.
    """
    highest_distance = 0.0 if limits.js is None else limits.js
    size = len(rows) if limits.size is None else limits.size
    selected = set(selected)
    counts = {side: Counter(p for index in selected for p in rows[index][f"{side}_phrases"]) for side in SIDES}
    total = sum(_compute_term(counts, phrase) for phrase in counts["caption"] | counts["foil"])
    used_rows = {_get_source_row(rows[index]) for index in selected}
    candidates_by_swap: dict[Swap, list[int]] = defaultdict(list)
    for index in sorted(range(len(rows)), key=lambda index: rank(str(rows[index]["item_id"]), seed), reverse=True):
        if index not in selected:
            candidates_by_swap[tuple(tuple(rows[index][f"{side}_phrases"]) for side in SIDES)].append(index)
    while len(selected) < size:
        for indices in candidates_by_swap.values():
            while indices and _get_source_row(rows[indices[-1]]) in used_rows:
                indices.pop()
        open_swaps = sorted(
            swap for swap, indices in candidates_by_swap.items() if indices and _is_within_caps(counts, swap, limits)
        )
        if not open_swaps:
            break
        increase, swap = min((_compute_increase(counts, swap), swap) for swap in open_swaps)
        phrases = sum(counts["caption"].values()) + len(swap[0])
        if 1 + (total + increase) / (2 * phrases) > highest_distance**2:
            break
        index = candidates_by_swap[swap].pop()
        selected.add(index)
        used_rows.add(_get_source_row(rows[index]))
        total += increase
        for side, words in zip(SIDES, swap, strict=True):
            counts[side].update(words)
    return selected


def _get_source_row(row: Mapping[str, Any]) -> tuple[Any, Any]:
    return row["source"], row["source_id"]


def _is_within_caps(counts: Mapping[str, Counter[str]], swap: Swap, limits: BalanceLimits) -> bool:
    """Return whether one more swap stays within the caps."""
    return all(
        cap is None or all(counts[side][phrase] < cap for phrase in phrases)
        for side, phrases, cap in zip(SIDES, swap, (limits.cap, limits.foil_cap), strict=True)
    )


def _compute_increase(counts: Mapping[str, Counter[str]], swap: Swap) -> float:
    """Return by how much one more swap changes the sum of terms."""
    affected = sorted({*swap[0], *swap[1]})
    new_counts = {side: Counter({word: counts[side][word] for word in affected}) for side in SIDES}
    for side, words in zip(SIDES, swap, strict=True):
        new_counts[side].update(words)
    return sum(_compute_term(new_counts, word) - _compute_term(counts, word) for word in affected)


def _compute_term(counts: Mapping[str, Counter[str]], phrase: str) -> float:
    """Return g(c) + g(d) - g(c + d) of one phrase."""
    caption, foil = counts["caption"][phrase], counts["foil"][phrase]
    return sum(number * log2(number) for number in (caption, foil) if number) - (
        (caption + foil) * log2(caption + foil) if caption + foil else 0.0
    )


def find_lowest_cap(rows: Sequence[Mapping[str, Any]], side: str, size: int) -> int:
    """Return the lowest cap per phrase of one side that still allows `size` source rows.

    Where there are fewer source rows than `size`, return the number of rows of the most frequent phrase.
    """
    rows_by_phrase: dict[str, set[tuple[Any, Any]]] = defaultdict(set)
    for row in rows:
        for phrase in row[f"{side}_phrases"]:
            rows_by_phrase[phrase].add(_get_source_row(row))
    row_counts = [len(source_rows) for source_rows in rows_by_phrase.values()]
    for cap in range(1, max(row_counts, default=0)):
        if sum(min(cap, number) for number in row_counts) >= size:
            return cap
    return max(row_counts, default=1)


class _LinearProgram:
    """Constraints of a linear program with one column for each candidate."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._entries: list[tuple[int, int, float]] = []
        self._lower: list[float] = []
        self._upper: list[float] = []

    def add_upper_limit(self, group: Mapping[int, float], limit: float) -> None:
        """Constrain the weighted sum of some columns to at most a limit."""
        self._add(group, -np.inf, limit)

    def add_balance(self, group: Mapping[int, float]) -> None:
        """Constrain the weighted sum of some columns to 0."""
        self._add(group, 0, 0)

    def build_constraint(self) -> "scipy.optimize.LinearConstraint":
        """Return all constraints in the form of scipy."""
        positions = np.array([(row, column) for row, column, _ in self._entries])
        values = np.array([value for _, _, value in self._entries])
        shape = (len(self._lower), self.columns)
        return scipy.optimize.LinearConstraint(
            scipy.sparse.csr_array((values, positions.T), shape=shape), self._lower, self._upper
        )

    def _add(self, group: Mapping[int, float], lower: float, upper: float) -> None:
        row = len(self._lower)
        self._entries += [(row, column, value) for column, value in group.items()]
        self._lower.append(lower)
        self._upper.append(upper)


def _group_columns(rows: Sequence[Mapping[str, Any]], get_keys: Any) -> dict[Any, dict[int, float]]:
    """Return for each key the columns that have it, with the number of times."""
    groups: dict[Any, dict[int, float]] = defaultdict(dict)
    for index, row in enumerate(rows):
        for key, number in Counter(get_keys(row)).items():
            groups[key][index] = float(number)
    return groups


def _count_net_removals(rows: Sequence[Mapping[str, Any]]) -> list[dict[int, float]]:
    """Return for each phrase how often each row removes it (+) or inserts it (-)."""
    groups: dict[str, dict[int, float]] = defaultdict(dict)
    for index, row in enumerate(rows):
        removed, inserted = Counter(row["caption_phrases"]), Counter(row["foil_phrases"])
        for phrase in sorted(removed.keys() | inserted.keys()):
            if removed[phrase] != inserted[phrase]:
                groups[phrase][index] = float(removed[phrase] - inserted[phrase])
    return [groups[phrase] for phrase in sorted(groups)]
