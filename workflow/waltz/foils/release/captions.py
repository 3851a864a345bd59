"""Reproduction of released plurality and relations items from the COCO captions that they were made from."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from waltz.core.text_diff import WORD
from waltz.foils.candidates import Candidate
from waltz.foils.english.noun_phrases import IN_PREPOSITION, NEGATED
from waltz.foils.english.parsing import parse_captions
from waltz.foils.plurality import QUANTIFIERS, build_plurality_foils
from waltz.foils.relations import NOT_ATTESTED, build_attested_foils, find_slots

PRONOUNS = {"he", "she", "it", "they", "him", "her", "them", "his", "its", "their", "himself", "herself", "itself"}
NO_PHRASE = "our parse has no such noun phrase"
OTHER_ANAPHORS = "other pronouns change with the noun"
OTHER_NOUNS = "another form of the noun"
OTHER_VERBS = "other verbs change with the noun"
NO_SLOT = "our parse has no such prepositions"
OTHER_CAPTION = "the released caption is no longer the COCO caption"


def reproduce_plurality(item: Mapping[str, Any], original: str) -> list[Candidate]:
    """Return the usable candidates of the COCO caption that a released plurality item was made from.

    Args:
        item: Record of the released file.
        original: The COCO caption with the item's `dataset_idx`.
    """
    doc = next(parse_captions([original]))
    outcomes = build_plurality_foils(doc)
    return [outcome for outcome in outcomes if isinstance(outcome, Candidate) and outcome.rejected is None]


def explain_plurality(item: Mapping[str, Any], candidates: Sequence[Candidate]) -> str:
    """Return why the caption and foil of a released plurality item are not among its candidates."""
    caption, foil = _words(item["caption"]), _words(item["foil"])
    foils = [_words(candidate.foil) for candidate in candidates if _words(candidate.caption) == caption]
    if not foils:
        phrases = (f"{quantifier} {noun} of" for quantifier in QUANTIFIERS["sg"] for noun in ("front", "top"))
        if any(phrase in item["caption"].lower() for phrase in phrases):
            return IN_PREPOSITION
        return NEGATED if {"no", "without"} & set(_words(item["orig_caption"])) else NO_PHRASE
    nearest_foil = min((set(words) for words in foils), key=lambda words: len(words ^ set(foil)))
    words = nearest_foil ^ set(foil)
    if words & PRONOUNS:
        return OTHER_ANAPHORS
    return OTHER_NOUNS if str(item["classes_foil"]).lower() in words else OTHER_VERBS


def reproduce_relations(item: Mapping[str, Any], original: str, sequences: Collection[str]) -> list[Candidate]:
    """Return the candidates of a COCO caption's slots with every attested sequence, without a proposer.

    Args:
        item: Record of the released file.
        original: The COCO caption with the item's `dataset_idx`.
        sequences: The attested sequences of prepositions of all captions.
    """
    doc = next(parse_captions([original]))
    return [candidate for slot in find_slots(doc) for candidate in build_attested_foils(doc.text, slot, sequences)]


def explain_relations(item: Mapping[str, Any], candidates: Sequence[Candidate]) -> str:
    """Return why the caption and foil of a released relations item are not among its candidates."""
    if _words(item["caption"]) not in {_words(candidate.caption) for candidate in candidates}:
        return OTHER_CAPTION if candidates else NO_SLOT
    if (item["classes"],) not in {candidate.caption_phrases for candidate in candidates}:
        return NO_SLOT
    return NOT_ATTESTED


def _words(text: str) -> tuple[str, ...]:
    return tuple(WORD.findall(text.lower().replace(" - ", "-").rstrip(" .")))
