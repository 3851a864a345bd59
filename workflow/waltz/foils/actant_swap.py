"""Actant swap: the two fillers of a short active caption change places, and the sentence is generated anew.

"A tennis player throws a ball." becomes "A ball throws a tennis player.". The new sentence has a preposition and
articles of its own ("A torso exercises for a man."): every wording is yielded; grammaticality and
perplexity rank them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from waltz.foils.candidates import Candidate, MakerOptions, Refusal, Row, SourceOutcomes, build_candidate
from waltz.foils.english.wordnet import is_kind_of, read_nouns, read_verbs
from waltz.foils.swig import (
    SWAP_PREPOSITIONS,
    ActionCaption,
    Filler,
    add_article,
    build_action_captions,
    build_sentence,
    inflect_present,
)

RECIPROCAL_VERBS = frozenset(
    {
        "brawling", "colliding", "communicating", "confronting", "congregating", "discussing", "embracing", "hugging",
        "intermingling", "kissing", "snuggling", "socializing",
    }
)  # fmt: skip
"""Verbs of SWiG for mutual actions: where they are true of a and b, they are true of b and a."""

KIND_OF = "one filler is a kind of the other"
SAME_FILLER = "both roles have the same filler"
RECIPROCAL = "the verb is true both ways"


def build_candidates(rows: Sequence[Row], _: MakerOptions, __: str) -> SourceOutcomes:
    """Yield every wording of the swapped sentence for each caption of each SWiG frame, in the order of the rows."""
    for row in rows:
        for caption in build_action_captions(row):
            if isinstance(caption, Refusal):
                yield row, caption
            else:
                swaps = build_swaps(caption, ())
                yield from ((row, candidate) for candidate in swaps)


def build_swaps(caption: ActionCaption, prepositions: Sequence[str] = SWAP_PREPOSITIONS) -> Iterator[Candidate]:
    """Yield every wording of the swapped sentence, `rejected` where it may be true as well.

    The phrases of the candidates are the two fillers, first that before the verb.

    Args:
        prepositions: Words that may stand between verb and object, besides none and the caption's own preposition.
    """
    agent, complement = caption.agent, caption.complement
    rejected = _explain_equivalence(agent, complement) or (RECIPROCAL if caption.verb in RECIPROCAL_VERBS else None)
    verb = inflect_present(read_verbs()[caption.verb].base, complement.plural)
    for preposition in dict.fromkeys(("", caption.preposition, *prepositions)):
        for subject in _list_subjects(complement):
            for noun_phrase in _list_objects(agent):
                foil, _ = build_sentence(subject, verb, preposition, noun_phrase)
                caption_fillers, foil_fillers = (agent.noun, complement.noun), (complement.noun, agent.noun)
                candidate = build_candidate(caption.text, foil, caption_fillers, foil_fillers, "swap")
                yield replace(candidate, rejected=rejected)


def _explain_equivalence(agent: Filler, complement: Filler) -> str | None:
    """Return why the swap may change nothing: "a person calls a man" is as true as "a man calls a person" among men."""
    if agent.noun == complement.noun:
        return SAME_FILLER
    if agent.synset is None or complement.synset is None:
        return None
    nouns = read_nouns()
    pairs = ((agent.synset, complement.synset), (complement.synset, agent.synset))
    return KIND_OF if any(is_kind_of(lower, higher, nouns) for lower, higher in pairs) else None


def _list_subjects(filler: Filler) -> tuple[str, ...]:
    """Return the phrase, and for a mass noun also the one that counts it ("a food"), as in the release."""
    return (filler.subject, add_article(filler.noun)) if filler.bare else (filler.subject,)


def _list_objects(filler: Filler) -> tuple[str, ...]:
    """Return the phrase and the definite one; a plural also without article."""
    without_article = (filler.noun,) if filler.plural else ()
    return tuple(dict.fromkeys((*_list_subjects(filler), filler.definite, *without_article)))
