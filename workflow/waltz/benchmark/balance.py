"""Selection of items in which no word reveals the foil: exchanged phrases are equally frequent in
captions and foils.

The objective is the Jensen-Shannon distance between the phrases exchanged on the caption side and
on the foil side. In the swap graph a candidate that replaces p by q is an edge from p to q; a
selection in which each phrase is inserted as often as it is removed is a circulation, at distance
0. An integer linear program finds the largest circulation. Where the circulation is smaller than
the required size, a greedy phase adds candidates: each time the candidate that raises the distance
least, as long as the distance stays within the limit of the study.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from operator import attrgetter
from typing import Literal

import numpy as np
import scipy

from waltz.core.errors import UserError
from waltz.core.sampling import rank
from waltz.core.schema import PairRecord

PREFERENCE_WEIGHT = 1e-5
"""Highest weight of the seeded order of candidates; it decides only between selections of the same
size.
"""
RELATIVE_GAP = 1e-9
"""Relative distance to the best possible selection at which the integer program stops."""
TOLERANCE = 1e-10
"""Highest error of the linear program, the lowest that HiGHS takes; with its default of 1e-7 the
seeded order would not decide.
"""
INTEGRALITY_TOLERANCE = 1e-6
"""Distance from a whole number up to which a solver's value counts as whole."""

Phrases = tuple[str, ...]
Swap = tuple[Phrases, Phrases]
"""Phrases that are removed from the caption, and phrases that are inserted in the foil."""
SourceRow = tuple[str, str | None]
"""Source and id of the source row from which a candidate is made."""


@dataclass(frozen=True)
class BalanceLimits:
    """Limits of a selection of items.

    Attributes:
        size: Highest number of items; None for no limit.
        js: Highest Jensen-Shannon distance between caption and foil phrases, 0 to 1; None for no
            balancing.
        cap: Highest number of times that the items remove one phrase from captions: a number, `even`
            for the lowest cap that still reaches the size, or None for no limit.
        foil_cap: Highest number of times that the items insert one phrase in foils, as `cap`.
        halves: Whether each direction has the same number of items.
    """

    size: int | None = None
    js: float | None = None
    cap: int | Literal["even"] | None = None
    foil_cap: int | Literal["even"] | None = None
    halves: bool = False


@dataclass(frozen=True, slots=True)
class _Caps:
    """Highest number of times that the items exchange one phrase; None for no limit.

    Attributes:
        removed: Limit for phrases that are removed from captions.
        inserted: Limit for phrases that are inserted in foils.
    """

    removed: int | None
    inserted: int | None


@dataclass(frozen=True, slots=True)
class _Candidate:
    """The columns of a candidate that its selection depends on.

    Attributes:
        rank: Position in the seeded order, from 0 up to 2**64. The integer program prefers higher
            ranks, the greedy phase lower ones.
        removed: Phrases that are removed from the caption.
        inserted: Phrases that are inserted in the foil.
    """

    item_id: str
    rank: int
    instrument: str
    source_row: SourceRow
    direction: str | None
    removed: Phrases
    inserted: Phrases

    @property
    def swap(self) -> Swap:
        """Return the edge of the candidate in the swap graph."""
        return self.removed, self.inserted


def select_balanced(
    rows: Sequence[PairRecord], limits: BalanceLimits, seed: int
) -> set[str]:
    """Select as many candidates as possible within limits, at most one for each source row.

    Args:
        rows: The candidates.
        seed: Seed of the order in which equally good candidates are preferred.
    Returns:
        The selected item ids; the same for any order of `rows`.
    """
    if not rows:
        return set()
    candidates = [_read_candidate(row, seed) for row in rows]
    # Column k of the program is candidate k. Sorting makes the result independent of the order of
    # the rows.
    candidates.sort(key=lambda candidate: candidate.item_id)

    # Without a size, every candidate may be selected.
    size = len(rows) if limits.size is None else limits.size
    caps = _Caps(
        removed=_compute_cap(limits.cap, rows, "caption", size),
        inserted=_compute_cap(limits.foil_cap, rows, "foil", size),
    )
    program = _LinearProgram(len(candidates))
    _add_limits(program, candidates, limits.size, caps)
    if limits.halves:
        _add_halves(program, candidates)
    if limits.js is not None:
        _add_circulation(program, candidates)
    # The largest selection within the limits, a circulation where a distance is set.
    selected = _solve(candidates, program)

    # The greedy phase does not keep the halves equal.
    if limits.js and not limits.halves:
        selected = _add_candidates(candidates, selected, size, caps, limits.js)
    return {candidates[index].item_id for index in selected}


def _read_candidate(row: PairRecord, seed: int) -> _Candidate:
    return _Candidate(
        item_id=row.item_id,
        rank=rank(row.item_id, seed),
        instrument=row.instrument,
        source_row=(row.source, row.source_id),
        direction=row.direction,
        removed=tuple(row.caption_phrases),
        inserted=tuple(row.foil_phrases),
    )


def _compute_cap(
    cap: int | Literal["even"] | None,
    rows: Sequence[PairRecord],
    text_role: str,
    size: int,
) -> int | None:
    if cap != "even":
        return cap
    return find_lowest_cap(rows, text_role, size)


def _add_limits(
    program: "_LinearProgram",
    candidates: Sequence[_Candidate],
    size: int | None,
    caps: _Caps,
) -> None:
    """Limit the number of selected items of each source row, of all rows, and of each phrase."""
    # At most one item of each source row: its candidates share the image and the source text.
    groups = _group_columns(candidates, lambda candidate: [candidate.source_row])
    for group in groups.values():
        program.add_upper_limit(group, 1)
    if size is not None:
        all_columns = dict.fromkeys(range(len(candidates)), 1.0)
        program.add_upper_limit(all_columns, size)
    for cap, get_phrases in (
        (caps.removed, attrgetter("removed")),
        (caps.inserted, attrgetter("inserted")),
    ):
        if cap is not None:
            for group in _group_columns(candidates, get_phrases).values():
                program.add_upper_limit(group, cap)


def _add_halves(program: "_LinearProgram", candidates: Sequence[_Candidate]) -> None:
    """Constrain all directions to the same number of items.

    For each further direction, the items of the first direction less the items of the further
    direction must be 0.
    """
    directions = _group_columns(candidates, lambda candidate: [candidate.direction])
    if len(directions) < 2:
        raise UserError(
            f"instruments.{candidates[0].instrument}.halves: the candidates have one direction (got {len(candidates)}"
            f" of {next(iter(directions))!r} and none of another); take a source with both, or leave halves out"
        )
    first, *further = directions.values()
    for group in further:
        program.add_balance(first | dict.fromkeys(group, -1.0))


def _add_circulation(
    program: "_LinearProgram", candidates: Sequence[_Candidate]
) -> None:
    """Constrain each phrase to be inserted as often as it is removed, so that the distance of the
    selection is 0.
    """
    for candidate in candidates:
        if len(candidate.removed) != len(candidate.inserted):
            raise ValueError(
                f"{candidate.item_id}: caption and foil exchange different numbers of phrases"
                f" (got {len(candidate.removed)} and {len(candidate.inserted)}); correct the maker"
            )
    # Conservation of flow at each phrase of the swap graph.
    for group in _count_net_removals(candidates):
        program.add_balance(group)


def _solve(candidates: Sequence[_Candidate], program: "_LinearProgram") -> set[int]:
    """Return the indices of the candidates in the largest selection that fulfills all constraints."""
    # Each candidate counts 1; its rank, scaled to 0...1, decides between selections of the same
    # size.
    weights = np.array(
        [1 + PREFERENCE_WEIGHT * candidate.rank / 2**64 for candidate in candidates]
    )
    constraint = program.build_constraint()
    # A circulation with limits is nearly always a flow in a network, whose linear program has its
    # optimum at whole numbers. It takes a small part of the time of the integer program.
    solution = _solve_relaxation(weights, constraint)
    if not solution.success or not _is_integral(solution.x):
        solution = scipy.optimize.milp(
            -weights,  # milp minimizes
            constraints=constraint,
            integrality=np.ones(len(candidates)),
            bounds=scipy.optimize.Bounds(0, 1),
            options={"mip_rel_gap": RELATIVE_GAP},
        )
    if not solution.success:
        raise UserError(
            f"balancing {candidates[0].instrument}: the solver found no selection ({solution.message});"
            " relax the limits of the instrument"
        )
    # The solver returns floats near 0 and 1.
    return set(np.flatnonzero(solution.x > 0.5).tolist())


def _solve_relaxation(
    weights: np.ndarray, constraint: "scipy.optimize.LinearConstraint"
) -> "scipy.optimize.OptimizeResult":
    """Solve the linear program in which parts of candidates may be selected.

    Args:
        weights: Weight of each candidate, (candidates,).
        constraint: Constraints of all candidates.
    """
    coefficients = constraint.A
    is_balance = np.equal(constraint.lb, constraint.ub)  # (constraints,)
    return scipy.optimize.linprog(
        -weights,  # linprog minimizes
        A_ub=coefficients[~is_balance],
        b_ub=constraint.ub[~is_balance],
        A_eq=coefficients[is_balance],
        b_eq=constraint.ub[is_balance],
        bounds=(0, 1),
        options={
            "dual_feasibility_tolerance": TOLERANCE,
            "primal_feasibility_tolerance": TOLERANCE,
        },
    )


def _is_integral(values: np.ndarray) -> bool:
    """Return True where all values are whole numbers, up to rounding."""
    distances = np.abs(values - np.round(values))
    return bool(np.all(distances < INTEGRALITY_TOLERANCE))


def _add_candidates(
    candidates: Sequence[_Candidate],
    selected: set[int],
    size: int,
    caps: _Caps,
    highest_distance: float,
) -> set[int]:
    """Add to a selection, one by one, the candidate that raises the distance least, up to the
    highest distance.

    With n phrases on each side, counts c and d of a phrase in captions and foils, and g(x) = x log2
    x, the squared distance is 1 + sum(g(c) + g(d) - g(c + d)) / 2n. A swap changes n and only the
    few terms of its phrases.
    """
    selected = set(selected)
    counts = _PhraseCounts([candidates[index] for index in selected])
    used_rows = {candidates[index].source_row for index in selected}
    # Only the best candidate of a swap matters: all of them change the distance equally.
    indices_by_swap = _group_by_swap(candidates, selected)
    swaps_by_phrase = _group_by_phrase(indices_by_swap)
    increases = {swap: counts.compute_increase(swap) for swap in indices_by_swap}
    # Equal increases are decided by the letters of the phrases.
    queue = [(increase, swap) for swap, increase in increases.items()]
    heapq.heapify(queue)
    while len(selected) < size and queue:
        increase, swap = heapq.heappop(queue)
        # The queue keeps entries whose increase has changed since.
        if increase != increases[swap]:
            continue
        # A swap without a candidate, or beyond a cap, stays so.
        indices = indices_by_swap[swap]
        # The preferred candidate is the last; those whose source row has an item can no longer be
        # used.
        while indices and candidates[indices[-1]].source_row in used_rows:
            indices.pop()
        if not indices or not counts.is_within_caps(swap, caps):
            continue

        # n after the swap, which exchanges the same number of phrases on both sides.
        n_phrases = counts.removed.total() + len(swap[0])
        squared_distance = 1 + (counts.total + increase) / (2 * n_phrases)
        # The swap raises the distance least, so no other stays within the limit either.
        if squared_distance > highest_distance**2:
            break
        index = indices.pop()
        selected.add(index)
        used_rows.add(candidates[index].source_row)
        counts.add(swap, increase)

        # Only the increases of swaps that share a phrase change.
        changed_swaps: set[Swap] = set()
        for phrase in swap[0] + swap[1]:
            changed_swaps |= swaps_by_phrase[phrase]
        for changed_swap in changed_swaps:
            increases[changed_swap] = counts.compute_increase(changed_swap)
            heapq.heappush(queue, (increases[changed_swap], changed_swap))
    return selected


def _group_by_swap(
    candidates: Sequence[_Candidate], selected: set[int]
) -> dict[Swap, list[int]]:
    """Return for each swap the indices of its candidates that are not selected; the preferred
    candidate, of the lowest rank, is last.
    """
    indices_by_swap: dict[Swap, list[int]] = defaultdict(list)
    order = sorted(
        range(len(candidates)), key=lambda index: candidates[index].rank, reverse=True
    )
    for index in order:
        if index not in selected:
            indices_by_swap[candidates[index].swap].append(index)
    return indices_by_swap


def _group_by_phrase(swaps: Iterable[Swap]) -> dict[str, set[Swap]]:
    """Return for each phrase the swaps that remove or insert it."""
    swaps_by_phrase: dict[str, set[Swap]] = defaultdict(set)
    for removed, inserted in swaps:
        for phrase in removed + inserted:
            swaps_by_phrase[phrase].add((removed, inserted))
    return swaps_by_phrase


class _PhraseCounts:
    """Count how often the selected candidates remove and insert each phrase.

    Attributes:
        removed: Times that each phrase is removed from a caption: c.
        inserted: Times that each phrase is inserted in a foil: d.
        total: Sum of g(c) + g(d) - g(c + d) over all phrases.
    """

    def __init__(self, selected: Sequence[_Candidate]) -> None:
        self.removed: Counter[str] = Counter()
        self.inserted: Counter[str] = Counter()
        for candidate in selected:
            self.removed.update(candidate.removed)
            self.inserted.update(candidate.inserted)
        phrases = self.removed | self.inserted
        self.total: float = sum(
            _compute_term(self.removed[phrase], self.inserted[phrase])
            for phrase in phrases
        )

    def is_within_caps(self, swap: Swap, caps: _Caps) -> bool:
        """Return True where the caps allow one more candidate with this swap."""
        removed, inserted = swap
        if not _fits(self.removed, removed, caps.removed):
            return False
        return _fits(self.inserted, inserted, caps.inserted)

    def compute_increase(self, swap: Swap) -> float:
        """Return the change of `total` if one more candidate with this swap is selected."""
        more_removed = Counter(swap[0])
        more_inserted = Counter(swap[1])
        terms = []
        # Sorted, so that sums of floats have the same last digits in every run.
        for phrase in sorted(more_removed.keys() | more_inserted.keys()):
            c = self.removed[phrase]
            d = self.inserted[phrase]
            terms.append(
                _compute_term(c + more_removed[phrase], d + more_inserted[phrase])
                - _compute_term(c, d)
            )
        return sum(terms)

    def add(self, swap: Swap, increase: float) -> None:
        """Add a swap to the counts, and its increase, as of `compute_increase`, to the sum of
        terms.
        """
        self.removed.update(swap[0])
        self.inserted.update(swap[1])
        self.total += increase


def _fits(counts: Counter[str], phrases: Phrases, cap: int | None) -> bool:
    """Return True where no phrase exceeds the cap after some phrases are counted once more."""
    if cap is None:
        return True
    return all(
        counts[phrase] + number <= cap for phrase, number in Counter(phrases).items()
    )


def _compute_term(c: int, d: int) -> float:
    """Return g(c) + g(d) - g(c + d) with g(x) = x log2 x: 2n times the part of one phrase in the
    squared distance.
    """
    return _compute_g(c) + _compute_g(d) - _compute_g(c + d)


def _compute_g(count: int) -> float:
    return count * log2(count) if count else 0.0  # the limit at 0


def find_lowest_cap(rows: Sequence[PairRecord], text_role: str, size: int) -> int:
    """Return the lowest cap per phrase that still allows an item from each of `size` source rows.

    If no cap allows that many, return the number of source rows of the most frequent phrase.

    Args:
        text_role: `caption` or `foil`, whose phrases the cap limits.
    """
    rows_by_phrase: dict[str, set[SourceRow]] = defaultdict(set)
    for row in rows:
        phrases = row.caption_phrases if text_role == "caption" else row.foil_phrases
        for phrase in phrases:
            rows_by_phrase[phrase].add((row.source, row.source_id))
    row_counts = [len(source_rows) for source_rows in rows_by_phrase.values()]
    highest = max(row_counts, default=1)
    for cap in range(1, highest):
        # Each phrase can give at most `cap` items.
        n_allowed = sum(min(cap, count) for count in row_counts)
        if n_allowed >= size:
            return cap
    return highest


class _LinearProgram:
    """Collect the constraints of a linear program: one row for each constraint, one column for each
    candidate.

    A column is 1 where its candidate is selected, else 0.
    """

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._entries: list[tuple[int, int, float]] = []  # row, column, coefficient
        self._lower: list[float] = []
        self._upper: list[float] = []

    def add_upper_limit(self, group: Mapping[int, float], limit: float) -> None:
        """Constrain the weighted sum of some columns to at most a limit."""
        self._add(group, -np.inf, limit)

    def add_balance(self, group: Mapping[int, float]) -> None:
        """Constrain the weighted sum of some columns to 0."""
        self._add(group, 0, 0)

    def build_constraint(self) -> "scipy.optimize.LinearConstraint":
        """Return all constraints as scipy's `LinearConstraint`: lower <= coefficients @ x <= upper."""
        # (entries, 2)
        positions = np.array([(row, column) for row, column, _ in self._entries])
        values = np.array([value for _, _, value in self._entries])
        # Sparse, since a constraint concerns few of the candidates: (constraints, candidates).
        shape = (len(self._lower), self.columns)
        coefficients = scipy.sparse.csr_array((values, positions.T), shape=shape)
        return scipy.optimize.LinearConstraint(coefficients, self._lower, self._upper)

    def _add(self, group: Mapping[int, float], lower: float, upper: float) -> None:
        row = len(self._lower)
        self._entries += [(row, column, value) for column, value in group.items()]
        self._lower.append(lower)
        self._upper.append(upper)


def _group_columns(
    candidates: Sequence[_Candidate],
    get_keys: Callable[[_Candidate], Sequence[Hashable]],
) -> dict[Hashable, dict[int, float]]:
    """Return for each key the columns of the candidates that have the key, with the number of times
    each has it.
    """
    groups: dict[Hashable, dict[int, float]] = defaultdict(dict)
    for column, candidate in enumerate(candidates):
        for key, number in Counter(get_keys(candidate)).items():
            groups[key][column] = float(number)
    return groups


def _count_net_removals(candidates: Sequence[_Candidate]) -> list[dict[int, float]]:
    """Return for each phrase the net number of times that each candidate removes it, by column.

    The number is negative where the candidate inserts the phrase; columns with 0 are absent.
    """
    groups: dict[str, dict[int, float]] = defaultdict(dict)
    for column, candidate in enumerate(candidates):
        removed = Counter(candidate.removed)
        inserted = Counter(candidate.inserted)
        for phrase in removed.keys() | inserted.keys():
            net = removed[phrase] - inserted[phrase]
            if net != 0:
                groups[phrase][column] = float(net)
    return [groups[phrase] for phrase in sorted(groups)]
