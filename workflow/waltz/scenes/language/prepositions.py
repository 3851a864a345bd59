"""Captions with one preposition exchanged, as the relations instrument makes them: true, false or neither."""

import re
from random import Random

EXCHANGED = ("at", "behind", "from", "in", "into", "on", "over", "to", "under")
"""Prepositions of one word that captions of scenes have."""
PREPOSITION = re.compile(rf"(?<=\s)(?:{'|'.join(EXCHANGED)})\b")


def exchanged_preposition(text: str, rng: Random) -> str | None:
    """A text with one of its prepositions exchanged.

    Returns:
        `A dog sleeps under the grass.` of `A dog sleeps on the grass.`; None where there is no preposition.
    """
    places = list(PREPOSITION.finditer(text))
    if not places:
        return None
    place = rng.choice(places)
    new = rng.choice([word for word in EXCHANGED if word != place.group()])
    return text[: place.start()] + new + text[place.end() :]
