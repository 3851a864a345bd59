"""Split points of rows with common prefixes, so that each prefix is read once."""

import numpy as np

Row = tuple[int, ...]
"""Ids of a masked prompt and of the targets before the last; a masked image is a negative number in its place."""

PASS_COST = 64
"""Positions that one more pass is worth."""
COPY_POSITIONS = 256
"""Positions whose keys and values are copied in the time in which one is computed, and less."""


def choose_cuts(distinct: np.ndarray, widths: np.ndarray, start_at: int, steps: int) -> list[int]:
    """Return the cuts of rows of one length that cost least.

    Reading a stretch costs its positions for each distinct beginning, a copy of what stands before, and a pass.

    Args:
        distinct: Number of distinct beginnings of each length, int64 of shape (length + 1,).
        widths: Positions before each symbol, of the same shape.
        start_at: Symbols that were read before.
        steps: Last symbols that must be read in one pass.
    Returns:
        Ends of stretches, the last of which is the length.
    """
    length = len(widths) - 1
    cost, before = np.full(length + 1, np.inf), np.zeros(length + 1, dtype=int)
    cost[start_at] = 0.0
    for stop in range(start_at + 1, length + 1):
        start = np.arange(start_at, stop if stop < length else max(start_at, length - steps) + 1)
        read = distinct[stop] * (widths[stop] - widths[start] + widths[start] / COPY_POSITIONS)
        total = cost[start] + read + PASS_COST
        before[stop], cost[stop] = start[total.argmin()], total.min()
    ends = [length]
    while before[ends[0]] > start_at:
        ends.insert(0, int(before[ends[0]]))
    return ends


def count_distinct_beginnings(rows: list[Row]) -> np.ndarray:
    """Return the number of distinct beginnings of each length of rows in order: int64 of shape (length + 1,)."""
    table = np.array(rows, dtype=np.int64)
    new = np.maximum.accumulate(table[1:] != table[:-1], axis=1).sum(axis=0)
    return np.concatenate([[1], 1 + new])
