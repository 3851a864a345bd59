"""Seeded samples that are equal on every machine; a larger sample contains every smaller sample."""

import hashlib
from collections.abc import Sequence


def rank(item_id: str, seed: int) -> int:
    """Return the sort key of an item in a seeded order: a 64-bit hash of seed and id, equal on
    every platform.
    """
    return int.from_bytes(
        hashlib.sha256(f"{seed}:{item_id}".encode()).digest()[:8], "big"
    )


def derive_seed(dataset: str, item_id: str, seed: int) -> int:
    """Return a seed for one item, 0 to 2**32 - 1, so that intervals over items include the noise of
    their draws.

    With one seed for all items, those with the same number of players would share their draws, and
    the noise of these draws would not become smaller with more items.
    """
    return rank(f"{dataset}/{item_id}", seed) % 2**32


def sample(item_ids: Sequence[str], n: int | None, seed: int) -> list[str]:
    """Return the n items of lowest rank, in the order of `item_ids`; all items if n is None.

    A sample of 100 is a subset of a sample of 200 with the same seed. The rank of an item does not
    depend on the other items.

    Raises:
        ValueError: n is negative or above the number of items, or an id repeats.
    """
    if len(set(item_ids)) != len(item_ids):
        raise ValueError("item ids repeat; name each item once")
    if n is None:
        return list(item_ids)
    if not 0 <= n <= len(item_ids):
        raise ValueError(
            f"cannot sample {n} of {len(item_ids)} items; ask for at most all of them"
        )
    # Equal hashes are practically impossible; the id breaks such ties.
    by_rank = sorted(item_ids, key=lambda item_id: (rank(item_id, seed), item_id))
    sampled = set(by_rank[:n])
    return [item_id for item_id in item_ids if item_id in sampled]


def sample_at_most(item_ids: Sequence[str], n: int | None, seed: int) -> list[str]:
    """Return a sample as `sample` does; all items if n is larger than their number."""
    if n is not None:
        n = min(n, len(item_ids))
    return sample(item_ids, n, seed)
