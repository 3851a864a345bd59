"""Size of the next batch: a constant, or, on a GPU, what its free memory holds."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch

Row = TypeVar("Row")
MEMORY_SHARE = 0.5
"""Share of free memory that a batch may take: results of batches stay in memory, and rows differ."""
MAX_FACTOR = 64
"""Maximum ratio of the sizes of later batches and the first."""


class GpuMemory:
    """Memory of one GPU, in bytes."""

    def __init__(self, device: str) -> None:
        """Name the device, such as `cuda:0`."""
        self.device = device
        self._allocated = 0

    def start(self) -> None:
        """Begin to measure the peak of a computation."""
        torch.cuda.reset_peak_memory_stats(self.device)
        self._allocated = torch.cuda.memory_allocated(self.device)

    def read_peak(self) -> int:
        """Return the maximum memory that was allocated since `start`, beyond what was before."""
        return torch.cuda.max_memory_allocated(self.device) - self._allocated

    def count_free(self) -> int:
        """Return the free memory, that which torch reserved and does not use included."""
        free, _ = torch.cuda.mem_get_info(self.device)
        reserved = torch.cuda.memory_reserved(self.device)
        return free + reserved - torch.cuda.memory_allocated(self.device)


def open_memory(device: str) -> GpuMemory | None:
    """Return the memory of a device; None if it is not a GPU of CUDA."""
    if torch.device(device).type != "cuda":
        return None
    return GpuMemory(device)


class BatchSize:
    """Maximum size of the next batch, in rows or in positions.

    On a CPU it is a constant. On a GPU, the first batch of at least half the constant is measured;
    then the size is the largest power of two times the constant that half of the free memory holds.
    A power of two is the same on equal GPUs whose free memory differs a little. After a batch that
    did not fit, the size is half of that batch. A constant of 1 stays, since such rows cannot be
    joined.

    Attributes:
        limit: The maximum size.
    """

    def __init__(self, device: str, limit: int) -> None:
        """Begin with a constant for a device."""
        self.limit = limit
        # None on a CPU, and once the size is settled.
        self._memory = open_memory(device) if limit > 1 else None

    @contextmanager
    def measure(self, size: int) -> Iterator[None]:
        """Measure the computation of a batch of some size."""
        memory = self._memory
        if memory is not None:
            memory.start()
        try:
            yield
        except torch.OutOfMemoryError:
            self._memory, self.limit = None, max(1, min(size, self.limit) // 2)
            raise
        # The cost of a short batch says little.
        if memory is not None and 2 * size >= self.limit:
            self.limit *= _choose_factor(memory, self.limit / size)
            self._memory = None

    def cut(self, rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
        """Cut rows into the fewest batches, all about equally long but for the batch that is measured
        first.
        """
        if self._memory is not None and len(rows) > self.limit:
            first, rows = rows[: self.limit], rows[self.limit :]
            yield first
        yield from cut_evenly(rows, self.limit)


def _choose_factor(memory: GpuMemory, ratio: float) -> int:
    """Return the largest power of two by which the size can be multiplied.

    Args:
        memory: The memory, in which a batch was measured.
        ratio: Size over that of the measured batch.
    """
    bytes_of_limit = max(1.0, memory.read_peak() * ratio)
    # How many batches of the present size fit at once.
    factor = MEMORY_SHARE * memory.count_free() / bytes_of_limit
    if factor < 1:
        return 1
    return int(min(MAX_FACTOR, 2 ** math.floor(math.log2(factor))))


def cut_evenly(rows: Sequence[Row], size: int) -> Iterator[Sequence[Row]]:
    """Cut rows into the fewest batches of at most `size` rows, all about equally long: a short last
    batch is slow.
    """
    # As few batches as possible, then rows spread evenly over them.
    batches = math.ceil(len(rows) / size)
    for number in range(batches):
        yield rows[number * len(rows) // batches : (number + 1) * len(rows) // batches]
