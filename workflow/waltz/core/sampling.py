"""Samples that are the same on every machine; a larger sample contains every smaller one."""

import hashlib
from collections.abc import Sequence


def rank(item_id: str, seed: int) -> int:
    """Return the position of an item in the seeded order: a 64-bit hash of seed and id, the same on every platform."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{item_id}".encode()).digest()[:8], "big")


def sample(item_ids: Sequence[str], n: int | None, seed: int) -> list[str]:
    """Return the n items of lowest rank in the order of `item_ids`, or all of them if n is None.

    A sample of 100 is a subset of one of 200, and the choice of an item does not depend on the other items.

    Raises:
        ValueError: n is negative or above the number of items, or an id repeats.
    """
    if len(set(item_ids)) != len(item_ids):
        raise ValueError("item ids repeat")
    if n is None:
        return list(item_ids)
    if not 0 <= n <= len(item_ids):
        raise ValueError(f"cannot sample {n} of {len(item_ids)} items")
    sampled = set(sorted(item_ids, key=lambda item_id: (rank(item_id, seed), item_id))[:n])
    return [item_id for item_id in item_ids if item_id in sampled]
