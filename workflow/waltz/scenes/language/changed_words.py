"""Captions with one preposition exchanged, as the relations instrument makes them: true, false or neither."""

import re
from dataclasses import replace
from random import Random

from waltz.scenes.language.captions import draw_captions
from waltz.scenes.language.foils import replace_object
from waltz.scenes.world.graph import Graph, Object
from waltz.scenes.world.lexicon import NUMBERS, read_kinds

EXCHANGED = ("at", "behind", "from", "in", "into", "on", "over", "to", "under")
"""Prepositions of one word that captions of scenes have."""
PREPOSITION = re.compile(rf"(?<=\s)(?:{'|'.join(EXCHANGED)})\b")


def exchange_preposition(text: str, rng: Random) -> str | None:
    """Return a text with one of its prepositions exchanged.

    Returns:
        `A dog sleeps under the grass.` of `A dog sleeps on the grass.`; None where there is no preposition.
    """
    places = list(PREPOSITION.finditer(text))
    if not places:
        return None
    place = rng.choice(places)
    new = rng.choice([word for word in EXCHANGED if word != place.group()])
    return text[: place.start()] + new + text[place.end() :]


SINGULAR = ("exactly one", "a single")
PLURAL = ("some", "a number of")


def exchange_quantifier(text: str, entry: Object, rng: Random) -> str | None:
    """Return a text whose first indefinite mention of an object has a quantifier in the place of its determiner.

    Returns:
        `A single dog chases a cow.` of `A dog chases a cow.`; None where the text does not mention it so.
    """
    kind = read_kinds()[entry.kind]
    name, determiner = (kind.name, "an?|one") if entry.count == 1 else (kind.plural, NUMBERS[entry.count])
    new = rng.choice(SINGULAR if entry.count == 1 else PLURAL)
    mention = re.compile(rf"\b({determiner}) ((?:[a-z]+ )?{re.escape(name)})\b", re.IGNORECASE)
    match = mention.search(text)
    if match is None:
        return None
    words = new.capitalize() if match.start() == 0 else new
    return f"{text[: match.start()]}{words} {match.group(2)}{text[match.end() :]}"


def draw_number_pair(graph: Graph, rng: Random) -> tuple[str, str] | None:
    """Draw a quantified caption, and the same caption of a scene in which one kind has changed its number.

    Returns:
        (`A single dog is chasing a cow.`, `Some dogs are chasing a cow.`), or None where the caption drawn does not
        name the object drawn with an indefinite determiner, or no scene can be so.
    """
    entry = rng.choice(graph.objects)
    count = 1 if entry.count > 1 else rng.randrange(2, 5)
    changed = replace(entry, cells=(entry.cells * count)[:count])
    try:
        other = replace_object(graph, entry, changed)
    except ValueError:  # so many agents and themes do not go together
        return None
    seed, which = rng.random(), rng.randrange(5)
    texts = [
        exchange_quantifier(draw_captions(world, Random(seed))[which], shown, rng)
        for world, shown in ((graph, entry), (other, changed))
    ]
    return None if texts[0] is None or texts[1] is None else (texts[0], texts[1])
