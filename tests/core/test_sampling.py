import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waltz.core.sampling import derive_seed, rank, sample

IDS = [f"item_{number}" for number in range(500)]


def test_a_rank_is_the_first_64_bits_of_a_sha256():
    assert rank("zebra", 7) == int(hashlib.sha256(b"7:zebra").hexdigest()[:16], 16)


def test_every_item_has_a_seed_of_its_own():
    seeds = [
        derive_seed(*item)
        for item in (("d", "1", 1), ("d", "2", 1), ("e", "1", 1), ("d", "1", 2))
    ]
    assert len(set(seeds)) == 4
    assert derive_seed("d", "1", 1) == seeds[0] < 2**32


def test_a_smaller_sample_is_a_subset_of_a_larger_one():
    assert set(sample(IDS, 100, 1520)) < set(sample(IDS, 200, 1520))


def test_another_seed_gives_another_sample():
    assert sample(IDS, 100, 1) != sample(IDS, 100, 2)


@given(st.permutations(IDS[:30]), st.integers(0, 30))
def test_the_order_of_the_items_does_not_matter(shuffled, n):
    assert set(sample(shuffled, n, 3)) == set(sample(IDS[:30], n, 3))
    assert len(sample(shuffled, n, 3)) == n


def test_removing_an_item_that_was_not_sampled_changes_nothing():
    sampled = sample(IDS, 50, 9)
    unsampled = next(item for item in IDS if item not in sampled)
    assert sample([item for item in IDS if item != unsampled], 50, 9) == sampled


@pytest.mark.parametrize(("ids", "n"), [(["a", "a"], 1), (["a"], 2), (["a"], -1)])
def test_repeated_ids_and_impossible_sizes_are_refused(ids, n):
    with pytest.raises(ValueError, match=r"repeat|cannot sample"):
        sample(ids, n, 0)
