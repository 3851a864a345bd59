"""Enumerate all coalitions of a few players, and number them."""

import numpy as np


def enumerate_masks(players: int) -> np.ndarray:
    """Return all coalitions of some players: bool of shape (2**players, players); row k is the mask
    with number k.
    """
    numbers = np.arange(2**players)[:, None]
    # Bit i of a coalition's number says whether player i is visible.
    masks: np.ndarray = (numbers >> np.arange(players) & 1).astype(bool)
    return masks


def number_masks(masks: np.ndarray) -> np.ndarray:
    """Return the number of each mask, bool of shape (k, players): the sum of 2**i over its visible
    players i.
    """
    # Player i is bit i, the inverse of `enumerate_masks`.
    numbers: np.ndarray = masks @ (1 << np.arange(masks.shape[1]))
    return numbers
