"""Batches of rows of equal length, each computed once and cached, and halved if a device has too
little memory.

No row is padded, and the batches depend only on the set of rows, so that no value depends on which
texts a caller passes together.
"""

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from waltz.core.files import result_cache

Row = TypeVar("Row", bound=Hashable)
T = TypeVar("T")
Result = TypeVar("Result")
Tokens = tuple[int, ...]
"""Token ids of a text."""
log = logging.getLogger(__name__)

ProgressCallback = Callable[[int], object]
"""Called with the number of rows of each finished batch, for a progress bar."""

POSITIONS_PER_BATCH = 2048
"""Maximum number of positions in one forward pass: 240 MB of logits with BERT's vocabulary."""


def ignore_progress(_: int) -> None:
    """Ignore the number of finished rows."""


def batch_by_length(
    rows: Iterable[Row],
    length: Callable[[Row], int],
    positions: int = POSITIONS_PER_BATCH,
) -> Iterator[list[Row]]:
    """Split distinct rows into batches of one length, shortest rows first.

    Args:
        rows: Rows that can be ordered.
        length: Positions that a row takes.
        positions: Maximum number of positions in a batch; a longer row is a batch alone.
    """
    batch: list[Row] = []
    # The order of the caller's rows must not decide the batches.
    for row in sorted(set(rows), key=lambda row: (length(row), row)):
        if batch:
            has_other_length = length(row) != length(batch[0])
            is_full = (len(batch) + 1) * length(row) > positions
            if has_other_length or is_full:
                yield batch
                batch = []
        batch.append(row)
    if batch:
        yield batch


def compute_in_batches(
    rows: Iterable[Row],
    length: Callable[[Row], int],
    compute: Callable[[list[Row]], np.ndarray],
    *,
    content: Mapping[str, str],
    cache_file: Path | None,
    on_progress: ProgressCallback,
) -> dict[Row, np.ndarray]:
    """Return the result of `compute` for each distinct row.

    Args:
        rows: Rows of ids and numbers, as nested tuples.
        length: Positions that a row takes.
        compute: From a batch of one length to an array whose first axis is the batch.
        content: Everything else that the values depend on: code, model, task.
        cache_file: File of cached batches; None disables the cache.
        on_progress: Called with the number of rows of each batch.
    """
    results: dict[Row, np.ndarray] = {}
    for batch in batch_by_length(rows, length):
        compute_batch = partial(compute_in_halves, compute, batch)
        values = result_cache.load_or_compute(
            cache_file, {"rows": batch, **content}, compute_batch
        )
        results |= dict(zip(batch, values, strict=True))
        on_progress(len(batch))
    return results


def transfer_together(tensors: Sequence[torch.Tensor]) -> list[np.ndarray]:
    """Return tensors of one device as float64 arrays of the same shapes, by one transfer to the host.

    A transfer waits for all that the device has to do, so results of batches are best kept there.
    """
    if not tensors:
        return []
    # The host widens the numbers, so that the device needs no room for float64.
    flat = torch.cat([tensor.flatten() for tensor in tensors]).cpu().double().numpy()
    arrays, start = [], 0
    for tensor in tensors:
        stop = start + tensor.numel()
        arrays.append(flat[start:stop].reshape(tensor.shape))
        start = stop
    return arrays


def compute_in_halves(
    compute: Callable[[list[T]], np.ndarray], batch: list[T]
) -> np.ndarray:
    """Compute a batch at once, or in halves if the device has too little memory.

    Args:
        compute: From rows to an array whose first axis is the batch.
        batch: The rows.
    """
    return run_in_halves(
        lambda first, last: compute(batch[first:last]), len(batch), np.concatenate
    )


def run_in_halves(
    compute: Callable[[int, int], Result],
    size: int,
    join: Callable[[Sequence[Result]], Result],
) -> Result:
    """Compute rows 0 to `size` at once, or in halves as often as the device runs out of memory.

    Args:
        compute: From first and last row (exclusive) to their result.
        size: Number of rows.
        join: From the results of consecutive rows to one result.
    Raises:
        torch.OutOfMemoryError: A single row does not fit.
    """

    results = list(iterate_in_halves(compute, size))
    if len(results) == 1:
        return results[0]
    return join(results)


def iterate_in_halves(
    compute: Callable[[int, int], Result], size: int
) -> Iterator[Result]:
    """Yield the results of consecutive parts of rows 0 to `size`: of all rows, or of halves as often
    as the device runs out of memory.

    Args:
        compute: From first and last row (exclusive) to their result.
        size: Number of rows, at least 1.
    Raises:
        torch.OutOfMemoryError: A single row does not fit.
    """
    # The next part stands at the end.
    parts = [(0, size)]
    while parts:
        first, last = parts.pop()
        try:
            yield compute(first, last)
            continue
        except torch.OutOfMemoryError:
            if last - first == 1:
                raise
            log.warning("out of memory at %d rows: halving the batch", last - first)
        # Outside the handler, whose traceback would keep the tensors of the failed pass.
        torch.cuda.empty_cache()
        half = (first + last) // 2
        parts += [(half, last), (first, half)]
