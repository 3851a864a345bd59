"""Sizes of batches, from a constant and a simulated memory."""

import pytest
import torch

from stand_ins.gpu_memory import SimulatedMemory
from waltz.models import batch_size
from waltz.models.batch_size import BatchSize, GpuMemory, cut_evenly, open_memory


def settle(memory, limit, rows, monkeypatch):
    """Return the size after a batch of some rows was measured."""
    monkeypatch.setattr(batch_size, "open_memory", lambda device: memory)
    size = BatchSize("cuda:0", limit)
    with size.measure(rows):
        memory.hold(rows)
    return size


# Half of the capacity, over the bytes of a row, is the number of rows that fit.
@pytest.mark.parametrize(
    ("capacity", "rows", "limit"),
    [
        (1280, 8, 64),
        (1279, 8, 32),
        (320, 8, 16),
        (319, 8, 8),
        (80, 8, 8),
        (1280, 4, 64),
    ],
)
def test_the_size_is_a_power_of_two_times_the_constant(
    capacity, rows, limit, monkeypatch
):
    memory = SimulatedMemory(capacity, row_bytes=10)
    assert settle(memory, 8, rows, monkeypatch).limit == limit


def test_the_size_has_a_maximum_and_short_batches_say_nothing(monkeypatch):
    memory = SimulatedMemory(10**9, row_bytes=10)
    assert settle(memory, 8, 8, monkeypatch).limit == 8 * batch_size.MAX_FACTOR
    size = settle(memory, 8, 3, monkeypatch)
    assert size.limit == 8
    with size.measure(8):
        memory.hold(8)
    assert size.limit == 8 * batch_size.MAX_FACTOR


def test_rows_that_cannot_be_joined_stay_alone(monkeypatch):
    memory = SimulatedMemory(10**9, row_bytes=10)
    assert settle(memory, 1, 1, monkeypatch).limit == 1


def test_a_size_that_does_not_fit_is_halved_and_grows_no_more(monkeypatch):
    memory = SimulatedMemory(1000, row_bytes=10)
    size = settle(memory, 8, 8, monkeypatch)
    assert size.limit == 32
    for rows, limit in ((32, 16), (5, 2), (1, 1)):
        with pytest.raises(torch.OutOfMemoryError), size.measure(rows):
            raise torch.OutOfMemoryError
        assert size.limit == limit
    with size.measure(1):
        memory.hold(1)
    assert size.limit == 1


def test_the_first_rows_are_measured_and_the_others_cut_evenly(monkeypatch):
    memory = SimulatedMemory(520, row_bytes=10)
    monkeypatch.setattr(batch_size, "open_memory", lambda device: memory)
    size, lengths = BatchSize("cuda:0", 8), []
    for rows in size.cut(range(50)):
        with size.measure(len(rows)):
            memory.hold(len(rows))
        lengths.append(len(rows))
    # 26 rows fit into half of the memory, so 16 are read; 42 rows remain.
    assert lengths == [8, 14, 14, 14]
    assert [len(rows) for rows in size.cut(range(17))] == [8, 9]


def test_a_cpu_has_a_constant():
    size = BatchSize("cpu", 32)
    assert open_memory("cpu") is None
    with size.measure(32):
        pass
    assert [len(rows) for rows in size.cut(range(34))] == [17, 17]


def test_memory_that_torch_keeps_without_use_is_free(monkeypatch):
    # 100 bytes of 1,000 are free; torch reserved 300, of which 120 are in use.
    counts = {
        "mem_get_info": (100, 1000),
        "memory_reserved": 300,
        "memory_allocated": 120,
        "max_memory_allocated": 200,
        "reset_peak_memory_stats": None,
    }
    for name, count in counts.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, count=count: count)
    memory = open_memory("cuda:0")
    assert isinstance(memory, GpuMemory)
    memory.start()
    assert memory.read_peak() == 200 - 120
    assert memory.count_free() == 100 + 300 - 120


def test_rows_are_cut_evenly():
    assert [len(part) for part in cut_evenly(list(range(34)), 32)] == [17, 17]
    assert [row for part in cut_evenly(list(range(67)), 32) for row in part] == list(
        range(67)
    )
    assert list(cut_evenly([], 32)) == []
