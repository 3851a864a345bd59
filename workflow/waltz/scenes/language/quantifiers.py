"""Captions with another quantifier, and the same captions of a world in which there are more or fewer."""

import re
from dataclasses import replace
from random import Random

from waltz.scenes.language.captions import captions
from waltz.scenes.language.foils import with_object
from waltz.scenes.world.graph import Graph, Object
from waltz.scenes.world.lexicon import NUMBERS, kinds

SINGULAR = ("exactly one", "a single")
PLURAL = ("some", "a number of")


def quantified(text: str, entry: Object, rng: Random) -> str | None:
    """A text whose first indefinite mention of an object has a quantifier in the place of its determiner.

    Returns:
        `A single dog chases a cow.` of `A dog chases a cow.`; None where the text does not mention it so.
    """
    kind = kinds()[entry.kind]
    name, found = (kind.name, "an?|one") if entry.count == 1 else (kind.plural, NUMBERS[entry.count])
    new = rng.choice(SINGULAR if entry.count == 1 else PLURAL)
    mention = re.compile(rf"\b({found}) ((?:[a-z]+ )?{re.escape(name)})\b", re.IGNORECASE)
    match = mention.search(text)
    if match is None:
        return None
    words = new.capitalize() if match.start() == 0 else new
    return f"{text[: match.start()]}{words} {match.group(2)}{text[match.end() :]}"


def number_pair(graph: Graph, rng: Random) -> tuple[str, str] | None:
    """A quantified caption, and the same caption of a scene in which one kind has changed its number.

    Returns:
        (`A single dog is chasing a cow.`, `Some dogs are chasing a cow.`), or None where the caption drawn does not
        name the object drawn with an indefinite determiner, or no scene can be so.
    """
    entry = rng.choice(graph.objects)
    count = 1 if entry.count > 1 else rng.randrange(2, 5)
    changed = replace(entry, cells=(entry.cells * count)[:count])
    try:
        other = with_object(graph, entry, changed)
    except ValueError:  # so many agents and themes do not go together
        return None
    seed, which = rng.random(), rng.randrange(5)
    texts = [
        quantified(captions(world, Random(seed))[which], shown, rng)
        for world, shown in ((graph, entry), (other, changed))
    ]
    return None if texts[0] is None or texts[1] is None else (texts[0], texts[1])
