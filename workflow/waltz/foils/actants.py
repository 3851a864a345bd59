"""Actant swap: the two fillers of a short active caption change places, and the sentence is generated anew.

"A tennis player throws a ball." becomes "A ball throws a tennis player.". The new sentence has a preposition and
articles of its own ("A torso exercises for a man."): every wording is yielded; grammaticality and
perplexity rank them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from waltz.foils.actions import ActionCaption, finite, sentence
from waltz.foils.candidates import Candidate, exchanged
from waltz.foils.english.wordnet import is_kind_of, read_nouns
from waltz.foils.swig_fillers import Filler, with_article

PREPOSITIONS = (
    "like", "on", "for", "at", "to", "with", "over", "behind", "toward", "as", "from", "beside", "by", "about", "after",
    "under", "into",
)  # fmt: skip
"""What the released swaps have between verb and object, those that more than four of them have."""

RECIPROCAL = frozenset(
    {
        "brawling", "colliding", "communicating", "confronting", "congregating", "discussing", "embracing", "hugging",
        "intermingling", "kissing", "snuggling", "socializing",
    }
)  # fmt: skip
"""Verbs of SWiG that one does together: where they are true of a and b, they are true of b and a."""

KIND = "one filler is a kind of the other"
SAME = "both roles have the same filler"
MUTUAL = "the verb is true both ways"


def actant_swaps(caption: ActionCaption, base: str, prepositions: Sequence[str] = PREPOSITIONS) -> Iterator[Candidate]:
    """Every wording of the swapped sentence.

    Args:
        caption: The caption.
        base: Base form of its verb.
        prepositions: What may stand between verb and object, beside nothing and the caption's own preposition.
    Yields:
        Candidates of the direction `swap`, their phrases the two fillers, first that before the verb; `rejected` where
        the swapped sentence may be true as well.
    """
    agent, other = caption.agent, caption.other
    rejected = _same(agent, other) or (MUTUAL if caption.verb in RECIPROCAL else None)
    verb = finite(base, other.plural)
    for preposition in dict.fromkeys(("", caption.preposition, *prepositions)):
        for subject in _subjects(other):
            for complement in _objects(agent):
                foil, _ = sentence(subject, verb, preposition, complement)
                pair = (agent.noun, other.noun)
                found = exchanged(caption.text, foil, pair, (other.noun, agent.noun), "swap")
                yield replace(found, rejected=rejected)


def _same(agent: Filler, other: Filler) -> str | None:
    """Why the exchange may change nothing: "a person calls a man" is as true as "a man calls a person" among men."""
    if agent.noun == other.noun:
        return SAME
    if agent.synset is None or other.synset is None:
        return None
    nouns = read_nouns()
    both = ((agent.synset, other.synset), (other.synset, agent.synset))
    return KIND if any(is_kind_of(lower, higher, nouns) for lower, higher in both) else None


def _subjects(given: Filler) -> tuple[str, ...]:
    """The phrase, and for a mass noun also the one that counts it ("a food"), as the release has it."""
    return (given.subject, with_article(given.noun)) if given.bare else (given.subject,)


def _objects(given: Filler) -> tuple[str, ...]:
    """The phrase and the definite one; a plural also bare."""
    bare = (given.noun,) if given.plural else ()
    return tuple(dict.fromkeys((*_subjects(given), given.definite, *bare)))
