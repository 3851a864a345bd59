"""Batches of rows of equal length, computed once each and kept.

No row is padded, and the cut depends on the set of rows alone, so that no number depends on which texts
a caller happened to ask for together.
"""

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from waltz.core import store

log = logging.getLogger(__name__)

Row = TypeVar("Row", bound=Hashable)
Done = Callable[[int], object]
"""Told how many rows another batch finished, for a progress bar."""

POSITIONS = 2048
"""Most positions in one forward pass: 240 MB of logits with BERT's vocabulary."""


def nothing(_: int) -> None:
    """A `Done` that shows no progress."""


def by_length(rows: Iterable[Row], length: Callable[[Row], int], positions: int = POSITIONS) -> Iterator[list[Row]]:
    """Distinct rows, shortest first, in batches of one length.

    Args:
        rows: Rows that can be ordered.
        length: Positions that a row takes.
        positions: Most positions a batch; a longer row makes a batch of its own.
    """
    pending: list[Row] = []
    for row in sorted(set(rows), key=lambda row: (length(row), row)):
        if pending and (length(row) != length(pending[0]) or (len(pending) + 1) * length(row) > positions):
            yield pending
            pending = []
        pending.append(row)
    if pending:
        yield pending


def computed(
    rows: Iterable[Row],
    length: Callable[[Row], int],
    compute: Callable[[list[Row]], np.ndarray],
    *,
    content: dict[str, Any],
    stored: Path | None,
    done: Done,
) -> dict[Row, np.ndarray]:
    """What `compute` says of each distinct row.

    Args:
        rows: Rows of ids and numbers, as nested tuples.
        length: Positions that a row takes.
        compute: From a batch of one length to an array whose first axis is the batch.
        content: What else decides the numbers: code, model, task.
        stored: Folder of finished batches; None keeps none.
        done: Told the rows of each batch.
    """
    found: dict[Row, np.ndarray] = {}
    for batch in by_length(rows, length):
        key = store.key(rows=batch, **content) if stored else ""
        values = store.load(stored, key) if stored else None
        if values is None:
            values = in_memory(compute, batch)
            if stored:
                store.save(stored, key, values)
        found |= dict(zip(batch, values, strict=True))
        done(len(batch))
    return found


def in_memory(compute: Callable[[list[Row]], np.ndarray], batch: list[Row]) -> np.ndarray:
    """What `compute` says of a batch, at once or in halves where the device has too little memory.

    Args:
        compute: From rows to an array whose first axis is the batch.
        batch: The rows.
    """
    try:
        return compute(batch)
    except torch.OutOfMemoryError:
        if len(batch) == 1:
            raise
        log.warning("out of memory at %d rows: halving the batch", len(batch))
        torch.cuda.empty_cache()
        half = len(batch) // 2
        return np.concatenate([in_memory(compute, batch[:half]), in_memory(compute, batch[half:])])
