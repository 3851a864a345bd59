"""Actant swap: the two fillers of a short active caption are exchanged, and the sentence is
generated again.

"A tennis player throws a ball." becomes "A ball throws a tennis player.". The new sentence may need
another preposition and other articles ("A torso exercises for a man."), so every wording is
yielded; grammaticality and perplexity rank them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from waltz.foils.candidates import (
    Candidate,
    MakerOptions,
    Refusal,
    SourceOutcomes,
    attach_row,
    build_candidate,
)
from waltz.foils.english.nouns import add_article
from waltz.foils.english.wordnet import is_kind_of, read_hypernyms, read_swig_verbs
from waltz.foils.swig import (
    SWAP_PREPOSITIONS,
    ActionCaption,
    FillerNoun,
    build_action_captions,
    build_sentence,
    inflect_present,
)
from waltz.sources.records import FrameRecord

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


def build_candidates(
    rows: Sequence[FrameRecord], _: MakerOptions, __: str
) -> SourceOutcomes:
    """Yield every wording of the swapped sentence for each caption of each SWiG frame, in the order
    of the rows.
    """
    for row in rows:
        for caption in build_action_captions(row):
            if isinstance(caption, Refusal):
                yield row, caption
            else:
                yield from attach_row(row, build_swaps(caption, ()))


def build_swaps(
    caption: ActionCaption, prepositions: Sequence[str] = SWAP_PREPOSITIONS
) -> Iterator[Candidate]:
    """Yield every wording of the swapped sentence; a sentence that may also be true is `rejected`.

    The phrases of a candidate are the two fillers, in the order of its text.

    Args:
        prepositions: Words that are tried between verb and object, in addition to no word and to
            the preposition of the caption.
    """
    agent = caption.agent
    complement = caption.complement
    rejected = _explain_equivalence(caption)
    # The complement becomes the subject, so the verb takes its number.
    verb = inflect_present(read_swig_verbs()[caption.verb].base, complement.plural)
    # Without a preposition first, then the caption's; each preposition once.
    all_prepositions = dict.fromkeys(("", caption.preposition, *prepositions))
    wordings = product(
        all_prepositions, _list_subjects(complement), _list_objects(agent)
    )
    for preposition, subject, noun_phrase in wordings:
        foil, _ = build_sentence(subject, verb, preposition, noun_phrase)
        # Both fillers occur in both texts, so balancing sees a swap as no exchange.
        candidate = build_candidate(
            caption.text,
            foil,
            caption_phrase=(agent.noun, complement.noun),
            foil_phrase=(complement.noun, agent.noun),
            direction="swap",
        )
        yield replace(candidate, rejected=rejected)


def _explain_equivalence(caption: ActionCaption) -> str | None:
    """Return the reason why the swapped sentence may be true as well; None where it is false.

    Among men, "a person calls a man" is as true as "a man calls a person".
    """
    agent = caption.agent
    complement = caption.complement
    if agent.noun == complement.noun:
        return SAME_FILLER
    # Either filler may be the more general one.
    hypernyms = read_hypernyms()
    is_below = is_kind_of(agent.synset, complement.synset, hypernyms)
    is_above = is_kind_of(complement.synset, agent.synset, hypernyms)
    if is_below or is_above:
        return KIND_OF
    if caption.verb in RECIPROCAL_VERBS:
        return RECIPROCAL
    return None


def _list_subjects(filler: FillerNoun) -> list[str]:
    """Return the phrases of a filler as subject; a mass noun has also a phrase with an article, as
    in the release.
    """
    phrases = [filler.subject]
    if filler.bare:
        phrases.append(add_article(filler.noun))
    return phrases


def _list_objects(filler: FillerNoun) -> list[str]:
    """Return the phrases of a filler as the object: as the subject, with `the`, and a plural also
    without article.
    """
    phrases = [*_list_subjects(filler), filler.definite]
    if filler.plural:
        phrases.append(filler.noun)
    return list(dict.fromkeys(phrases))
