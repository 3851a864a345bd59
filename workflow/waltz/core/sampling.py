"""Samples that are the same on every machine and grow by inclusion."""

import hashlib
from collections.abc import Sequence


def rank(item_id: str, seed: int) -> int:
    """Place of an item in the seeded order: a 64-bit hash of seed and id, free of platform and order."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{item_id}".encode()).digest()[:8], "big")


def sample(item_ids: Sequence[str], n: int | None, seed: int) -> list[str]:
    """The n items of lowest rank, in the order given; all of them where n is None.

    A sample of 100 is a subset of one of 200, and an item's presence does not hang on its neighbours.

    Raises:
        ValueError: n is negative or above the number of items, or an id repeats.
    """
    if len(set(item_ids)) != len(item_ids):
        raise ValueError("item ids repeat")
    if n is None:
        return list(item_ids)
    if not 0 <= n <= len(item_ids):
        raise ValueError(f"cannot sample {n} of {len(item_ids)} items")
    chosen = set(sorted(item_ids, key=lambda item_id: (rank(item_id, seed), item_id))[:n])
    return [item_id for item_id in item_ids if item_id in chosen]
