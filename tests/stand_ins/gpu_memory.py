"""A GPU whose memory is counted in rows, in place of `batch_size.GpuMemory`."""

import torch


class SimulatedMemory:
    """Memory of a GPU in which each row of a batch takes the same number of bytes."""

    def __init__(self, capacity: int, row_bytes: int) -> None:
        self.capacity, self.row_bytes, self.rows = capacity, row_bytes, 0

    def hold(self, rows: int) -> None:
        """Hold a batch, or fail as torch does."""
        if rows * self.row_bytes > self.capacity:
            raise torch.OutOfMemoryError("simulated")
        self.rows = max(self.rows, rows)

    def start(self) -> None:
        self.rows = 0

    def read_peak(self) -> int:
        return self.rows * self.row_bytes

    def count_free(self) -> int:
        return self.capacity
