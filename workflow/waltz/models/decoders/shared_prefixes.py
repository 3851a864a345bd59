"""Split points of rows with common prefixes, so that each prefix is read once."""

import numpy as np

Row = tuple[int, ...]
"""Ids of a masked prompt and of the targets before the last; a masked image is a negative number in its place."""

PASS = 64
"""Positions that one more pass is worth."""
COPY = 256
"""Positions whose keys and values are copied in the time in which one is computed, and less."""


def cuts(distinct: np.ndarray, widths: np.ndarray, begun: int, steps: int) -> list[int]:
    """The cuts of rows of one length that cost least.

    Reading a stretch costs its positions for each distinct beginning, a copy of what stands before, and a pass.

    Args:
        distinct: Number of distinct beginnings of each length, int64 of shape (length + 1,).
        widths: Positions before each symbol, of the same shape.
        begun: Symbols that are read already.
        steps: Last symbols that must be read in one pass.
    Returns:
        Ends of stretches, the last of which is the length.
    """
    length = len(widths) - 1
    cost, before = np.full(length + 1, np.inf), np.zeros(length + 1, dtype=int)
    cost[begun] = 0.0
    for stop in range(begun + 1, length + 1):
        start = np.arange(begun, stop if stop < length else max(begun, length - steps) + 1)
        read = distinct[stop] * (widths[stop] - widths[start] + widths[start] / COPY)
        total = cost[start] + read + PASS
        before[stop], cost[stop] = start[total.argmin()], total.min()
    found = [length]
    while before[found[0]] > begun:
        found.insert(0, int(before[found[0]]))
    return found


def distinct_beginnings(rows: list[Row]) -> np.ndarray:
    """Number of distinct beginnings of each length of rows in order: int64 of shape (length + 1,)."""
    table = np.array(rows, dtype=np.int64)
    new = np.maximum.accumulate(table[1:] != table[:-1], axis=1).sum(axis=0)
    return np.concatenate([[1], 1 + new])
