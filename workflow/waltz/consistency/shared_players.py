"""Which players two prompts share: those of answer and explanation, and those before and after an edit."""

from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher

import numpy as np

from waltz.attribution.ratios import Profile
from waltz.core.errors import UserError

Token = int | str
Places = tuple[np.ndarray, np.ndarray]
"""Places of players in the one and in the other coalition, int64 of one shape: the k-th of both are the same player."""


def shared_players(
    answer: Sequence[Token],
    explanation: Sequence[Token],
    tails: tuple[int, int],
    profile: Profile,
    *,
    patches: int = 0,
    image_first: bool = False,
) -> Places:
    """The players that the prompts of an answer and of its explanation share.

    Args:
        answer: The answer's text players, as token ids or pieces.
        explanation: The explanation's.
        tails: How many text players at the end of each ask for just this answer or explanation.
        profile: `published` takes all players before the tails for shared, whatever they are; `equations` those with
            which both prompts begin.
        patches: Number of image players, the same of both.
        image_first: Whether image players stand before the text players.
    Returns:
        Places among all players, in their order.
    Raises:
        UserError: A tail is longer than its prompt, or, in `published`, not as many players stand before both.
    """
    before = [len(players) - tail for players, tail in zip((answer, explanation), tails, strict=True)]
    if min(before) < 0 or min(tails) < 0:
        raise UserError(
            f"tails of {tails[0]} and {tails[1]} tokens do not end prompts of {len(answer)} and {len(explanation)}; "
            "give the texts with which the prompts end"
        )
    if profile == "published" and before[0] != before[1]:
        raise UserError(
            f"{before[0]} players stand before the tail of the answer's prompt, {before[1]} before the explanation's; "
            "the published CC-SHAP compares as many: mend prompts or tails, or take the profile equations"
        )
    count = min(before)
    if profile == "equations":
        count = _begun_alike(answer[:count], explanation[:count])
    text = np.arange(count) + (patches if image_first else 0)

    def places(words: int) -> np.ndarray:
        image = np.arange(patches) + (0 if image_first else words)
        return np.concatenate([image, text] if image_first else [text, image])

    return places(len(answer)), places(len(explanation))


def stayed(before: Sequence[Hashable], after: Sequence[Hashable]) -> Places:
    """The players that an edit leaves, in order: what was inserted or changed is not among them.

    Args:
        before: What the players are before the edit, such as token ids, pieces, or the places of patches.
        after: Those after it.
    """
    begun = _begun_alike(before, after)
    found = SequenceMatcher(None, before[begun:], after[begun:], autojunk=False).get_matching_blocks()
    blocks = [(0, 0, begun), *((begun + one, begun + other, size) for one, other, size in found)]
    places = [np.concatenate([np.arange(block[side], block[side] + block[2]) for block in blocks]) for side in (0, 1)]
    return places[0], places[1]


def _begun_alike(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Length of the common beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (here, there) in pairs if here != there), min(len(one), len(other)))
