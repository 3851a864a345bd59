import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from waltz.models.batches import batch_by_length, compute_in_batches

ROWS = st.lists(
    st.lists(st.integers(0, 3), min_size=1, max_size=6).map(tuple), max_size=30
)


@given(ROWS, st.integers(1, 20), st.randoms())
def test_batches_hold_each_row_once_and_one_length_and_know_no_order(
    rows, positions, random
):
    batches = list(batch_by_length(rows, len, positions))
    assert sorted(row for batch in batches for row in batch) == sorted(set(rows))
    for batch in batches:
        assert len({len(row) for row in batch}) == 1
        assert len(batch) == 1 or sum(map(len, batch)) <= positions
    random.shuffle(rows)
    assert list(batch_by_length(rows, len, positions)) == batches


def _lengths(batch):
    return np.array([[len(row), sum(row)] for row in batch], dtype=np.float64)


def test_each_row_gets_its_own_numbers_and_progress_is_reported():
    progress = []
    results = compute_in_batches(
        [(1, 2), (5,), (1, 2), (3,)],
        len,
        _lengths,
        content={},
        cache_file=None,
        on_progress=progress.append,
    )
    assert {row: values.tolist() for row, values in results.items()} == {
        (1, 2): [2, 3],
        (5,): [1, 5],
        (3,): [1, 3],
    }
    assert progress == [2, 1]


def test_what_is_stored_is_not_computed_again_and_other_content_is(tmp_path):
    calls = []

    def compute(batch):
        calls.append(len(batch))
        return _lengths(batch)

    for content in ({"task": "a"}, {"task": "a"}, {"task": "b"}):
        results = compute_in_batches(
            [(1, 2), (5,)],
            len,
            compute,
            content=content,
            cache_file=tmp_path / "a.sqlite",
            on_progress=calls.append,
        )
        assert results[1, 2].tolist() == [2, 3]
    # a: two computed and reported, then two reported; b: two of each.
    assert calls == [
        1,
        1,
        1,
        1,
        1,
        1,
        1,
        1,
        1,
        1,
    ]


def test_a_batch_that_does_not_fit_into_memory_is_halved():
    sizes = []

    def cramped(batch):
        sizes.append(len(batch))
        if len(batch) > 1:
            raise torch.OutOfMemoryError
        return _lengths(batch)

    results = compute_in_batches(
        [(1,), (2,), (3,)],
        len,
        cramped,
        content={},
        cache_file=None,
        on_progress=lambda _: None,
    )
    assert [results[row,].tolist() for row in (1, 2, 3)] == [[1, 1], [1, 2], [1, 3]]
    assert sizes == [3, 1, 2, 1, 1]
    with pytest.raises(torch.OutOfMemoryError):
        compute_in_batches(
            [(1,)],
            len,
            lambda _: cramped([1, 2]),
            content={},
            cache_file=None,
            on_progress=lambda _: None,
        )
