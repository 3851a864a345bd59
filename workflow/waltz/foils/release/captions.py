"""Released items of plurality and relations, rebuilt from the COCO captions that they were made from."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from waltz.core.text_diff import WORD
from waltz.foils.candidates import Candidate
from waltz.foils.coco_captions import parsed
from waltz.foils.english.noun_phrases import IN_PREPOSITION, NEGATED
from waltz.foils.plurality import QUANTIFIERS, plurality
from waltz.foils.relations import NOT_ATTESTED, attested_relations, slots

PRONOUNS = {"he", "she", "it", "they", "him", "her", "them", "his", "its", "their", "himself", "herself", "itself"}
NO_PHRASE = "our parse has no such noun phrase"
OTHER_ANAPHORS = "other pronouns change with the noun"
OTHER_NOUNS = "another form of the noun"
OTHER_VERBS = "other verbs change with the noun"
NO_SLOT = "our parse has no such prepositions"
OTHER_CAPTION = "the released caption is no longer the COCO caption"


def reproduce_plurality(item: Mapping[str, Any], original: str) -> list[Candidate]:
    """The usable candidates of the COCO caption that a released plurality item was made from.

    Args:
        item: Record of the released file.
        original: The COCO caption with the item's `dataset_idx`.
    """
    doc = next(parsed([original]))
    return [found for found in plurality(doc) if isinstance(found, Candidate) and found.rejected is None]


def cause_plurality(item: Mapping[str, Any], candidates: Sequence[Candidate]) -> str:
    """Why the caption and foil of a released plurality item are not among its candidates."""
    caption, foil = _words(item["caption"]), _words(item["foil"])
    foils = [_words(found.foil) for found in candidates if _words(found.caption) == caption]
    if not foils:
        spots = (f"{quantifier} {noun} of" for quantifier in QUANTIFIERS["sg"] for noun in ("front", "top"))
        if any(spot in item["caption"].lower() for spot in spots):
            return IN_PREPOSITION
        return NEGATED if {"no", "without"} & set(_words(item["orig_caption"])) else NO_PHRASE
    ours = min(foils, key=lambda words: len(_differing(words, foil)))
    words = _differing(ours, foil)
    if words & PRONOUNS:
        return OTHER_ANAPHORS
    return OTHER_NOUNS if str(item["classes_foil"]).lower() in words else OTHER_VERBS


def reproduce_relations(item: Mapping[str, Any], original: str, sequences: Collection[str]) -> list[Candidate]:
    """What the slots of a COCO caption give with every attested sequence, before any proposer.

    Args:
        item: Record of the released file.
        original: The COCO caption with the item's `dataset_idx`.
        sequences: The attested sequences of prepositions of all captions.
    """
    doc = next(parsed([original]))
    return [found for slot in slots(doc) for found in attested_relations(doc.text, slot, sequences)]


def cause_relations(item: Mapping[str, Any], candidates: Sequence[Candidate]) -> str:
    """Why the caption and foil of a released relations item are not among its candidates."""
    if _words(item["caption"]) not in {_words(found.caption) for found in candidates}:
        return OTHER_CAPTION if candidates else NO_SLOT
    if (item["classes"],) not in {found.caption_phrases for found in candidates}:
        return NO_SLOT
    return NOT_ATTESTED


def _words(text: str) -> tuple[str, ...]:
    return tuple(WORD.findall(text.lower().replace(" - ", "-").rstrip(" .")))


def _differing(one: tuple[str, ...], other: tuple[str, ...]) -> set[str]:
    return set(one) ^ set(other)
