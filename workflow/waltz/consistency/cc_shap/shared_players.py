"""Players that two prompts share: an answer's and its explanation's, and those before and after an edit."""

from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher

import numpy as np

from waltz.core.errors import UserError
from waltz.fidelity import Fidelity

Token = int | str
SharedPlayers = tuple[np.ndarray, np.ndarray]
"""Shared players of the first and of the second game, int64 of one shape: the k-th of both are the same player."""


def find_shared_players(
    answer: Sequence[Token],
    explanation: Sequence[Token],
    suffixes: tuple[int, int],
    fidelity: Fidelity,
    *,
    patches: int = 0,
    image_first: bool = False,
) -> SharedPlayers:
    """Return the players that the prompts of an answer and of its explanation share.

    Args:
        answer: The answer's text players, as token ids or pieces.
        explanation: The explanation's.
        suffixes: Number of text players in the query suffix of each.
        fidelity: `published` takes all players before the suffixes for shared, whatever they are; `equations` those
            with which both prompts begin.
        patches: Number of image players, the same of both.
        image_first: Whether image players stand before the text players.
    Returns:
        Numbers among all players, in their order.
    Raises:
        UserError: A suffix is longer than its prompt, or, in `published`, the numbers of players before them differ.
    """
    before = [len(players) - suffix for players, suffix in zip((answer, explanation), suffixes, strict=True)]
    if min(before) < 0 or min(suffixes) < 0:
        raise UserError(
            f"query suffixes of {suffixes[0]} and {suffixes[1]} tokens do not end prompts of {len(answer)} and"
            f" {len(explanation)}; give the texts with which the prompts end"
        )
    if fidelity.shared_players == "count" and before[0] != before[1]:
        raise UserError(
            f"{before[0]} players stand before the query suffix of the answer's prompt, {before[1]} before the"
            " explanation's; the published CC-SHAP compares as many: change prompts or suffixes, or take the profile"
            " equations"
        )
    count = min(before)
    if fidelity.shared_players == "prefix":
        count = _count_common_prefix(answer[:count], explanation[:count])
    text = np.arange(count) + (patches if image_first else 0)

    def number_players(words: int) -> np.ndarray:
        image = np.arange(patches) + (0 if image_first else words)
        return np.concatenate([image, text] if image_first else [text, image])

    return number_players(len(answer)), number_players(len(explanation))


def find_unchanged_players(before: Sequence[Hashable], after: Sequence[Hashable]) -> SharedPlayers:
    """Return the players that an edit leaves, in order, without those that were inserted or changed.

    Args:
        before: Identities of the players before the edit, such as token ids, pieces, or patches.
        after: Those after it.
    """
    prefix = _count_common_prefix(before, after)
    matches = SequenceMatcher(None, before[prefix:], after[prefix:], autojunk=False).get_matching_blocks()
    blocks = [(0, 0, prefix), *((prefix + first, prefix + second, size) for first, second, size in matches)]
    numbers = [np.concatenate([np.arange(block[side], block[side] + block[2]) for block in blocks]) for side in (0, 1)]
    return numbers[0], numbers[1]


def _count_common_prefix(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Return the length of the common beginning."""
    pairs = enumerate(zip(first, second, strict=False))
    return next(
        (length for length, (player, counterpart) in pairs if player != counterpart), min(len(first), len(second))
    )
