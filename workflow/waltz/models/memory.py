"""Batches that are halved where a device has too little memory."""

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

log = logging.getLogger(__name__)

Result = TypeVar("Result")


def run_in_halves(
    compute: Callable[[int, int], Result], size: int, join: Callable[[Sequence[Result]], Result]
) -> Result:
    """Compute rows 0 to `size` at once, or in halves as often as the device runs out of memory.

    Args:
        compute: From first and last row (exclusive) to their result.
        size: Number of rows.
        join: From the results of consecutive rows to one.
    Raises:
        torch.OutOfMemoryError: A single row does not fit.
    """

    def compute_between(first: int, last: int) -> Result:
        try:
            return compute(first, last)
        except torch.OutOfMemoryError:
            if last - first == 1:
                raise
            log.warning("out of memory at %d rows: halving the batch", last - first)
        torch.cuda.empty_cache()
        half = (first + last) // 2
        return join([compute_between(first, half), compute_between(half, last)])

    return compute_between(0, size)
