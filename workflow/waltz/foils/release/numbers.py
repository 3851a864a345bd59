"""Existence, counting and coreference, from the released captions and classes.

The questions of the released items are not at hand, so their statements are read from the released captions, as they
stand, and written with the released class.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from spacy.tokens import Doc, Token

from waltz.foils.candidates import Candidate
from waltz.foils.coreference import coreference
from waltz.foils.counting import recounted
from waltz.foils.counting_questions import counted_noun
from waltz.foils.english.nouns import plural_of
from waltz.foils.english.parsing import parse
from waltz.foils.english.statements import IS_ARE, NOTHING, Forms, Statement, noun_forms, verb_forms
from waltz.foils.existence import negated
from waltz.foils.release.compare import alike

EXISTING = re.compile(
    r"(?P<opening>there\b|you see\b|)\s*(?P<be>\b(?:is|are)\b|)\s*(?P<quantity>\b(?:no|an?)\b|)\s*(?P<rest>.+?)\s*\.?",
    re.I,
)
FINITE = ("VBP", "VBZ", "MD")


def reproduce_existence(item: Mapping[str, Any]) -> list[Candidate]:
    """The negation of a released caption."""
    found = EXISTING.fullmatch(item["caption"].strip())
    if found is None:
        return []
    one = found["be"].lower() == "is" or found["quantity"].lower() in ("a", "an")
    be = Forms(found["be"], found["be"]) if found["be"] else NOTHING
    things = Forms(found["rest"], found["rest"])
    statement = Statement(found["opening"], be, "", things, "", NOTHING, "")
    return [negated(statement, 1 if one else 2, found["quantity"].lower() != "no")]


def cause_existence(item: Mapping[str, Any], candidates: Sequence[Candidate]) -> str:
    """Why a released existence item is not among the candidates."""
    if item["caption"] == item["foil"]:
        return "caption and foil of the release are alike"
    if any(alike(item["foil"], candidate.foil) for candidate in candidates):
        return "the released caption has the wrong article"
    return "another form of the statement"


def reproduce_counting(item: Mapping[str, Any]) -> list[Candidate]:
    """The released caption with the released numeral of the foil; nothing else changes where neither number is 1."""
    text, number, other = item["caption"].strip().rstrip("."), item["classes"], item["classes_foil"]
    place = re.search(rf"(?P<adverb>\bexactly\s+)?\b{number}\b", text, re.I)
    if place is None or number == other:
        return []
    adverb = "exactly" if place["adverb"] else ""
    statement = Statement(text[: place.start()], NOTHING, "", NOTHING, "", NOTHING, text[place.end() :])
    if 1 in (number, other):
        (caption,) = parse([item["caption"]])
        statement = _agreeing(caption, place.start(), place.end(), number)
    return [recounted(statement, number, other, adverb)]


def cause_counting(item: Mapping[str, Any], candidates: Sequence[Candidate]) -> str:
    """Why a released counting item is not among the candidates."""
    if item["caption"] == item["foil"]:
        return "caption and foil of the release are alike"
    if not candidates:
        return "the numeral is not in the released caption"
    if any(not alike(item["caption"], candidate.caption) for candidate in candidates):
        return "noun or verb of the released caption do not agree with its number"
    numbered = item["caption"].replace(str(item["classes"]), str(item["classes_foil"]), 1)
    if alike(numbered, item["foil"]):
        return "the released foil only has the numeral replaced, so that it does not agree"
    if alike(re.sub(r"\bis\b", "are", numbered), re.sub(r"\bis\b", "are", item["foil"])):
        return "the released foil leaves the noun as it is, so that it does not agree"
    return "the release has another form of the noun, of what refers to it, or takes another word for it"


def reproduce_coreference(item: Mapping[str, Any]) -> list[Candidate]:
    """The released dialogue of one round with the contrary answer."""
    question = item["caption"].removeprefix(item["only_caption"]).removeprefix(". ")
    asked, _, answer = question.rpartition("? ")
    found = coreference(item["only_caption"], asked, answer, 1)
    return [found] if isinstance(found, Candidate) else []


def cause_coreference(item: Mapping[str, Any], candidates: Sequence[Candidate]) -> str:
    """Why a released coreference item is not among the candidates."""
    return "the released text has another form" if candidates else "no pronoun that this rule knows"


def _agreeing(caption: Doc, start: int, end: int, number: int) -> Statement:
    """A released caption as a statement; its quantity stands from one character to another."""
    words = [token for token in caption if token.text != "."]
    before = [token for token in words if token.idx < start]
    after = [token for token in words if token.idx >= end]
    be = NOTHING
    if [token.lower_ for token in before] in (["there", "is"], ["there", "are"]):
        before, be = before[:1], IS_ARE
    head = counted_noun(after, number != 1) if after and after[0].tag_ != "IN" else None
    place = 0 if head is None else after.index(head) + 1
    verb = None if before else _verb(after, place)
    forms = NOTHING if verb is None else verb_forms(after[verb].text, after[verb].tag_, after[verb].lemma_)
    stop = len(after) if verb is None else verb
    noun = NOTHING if head is None else _noun(head, number)
    rest = [] if verb is None else after[verb + 1 :]
    return Statement(
        _text(before),
        be,
        _text(after[: place - 1]) if place else "",
        noun,
        _text(after[place:stop]),
        forms,
        _text(rest),
    )


def _verb(after: list[Token], start: int) -> int | None:
    """Place of the first finite verb, unless its subject follows it."""
    place = next((at for at, word in enumerate(after) if at >= start and word.tag_ in FINITE), None)
    return None if place is None or [word.tag_ for word in after[place + 1 : place + 2]] == ["PRP"] else place


def _noun(head: Token, number: int) -> Forms:
    """Both numbers of a noun of a released caption, which has the form that the caption's number needs, or should."""
    if number == 1:
        return Forms(head.text, plural_of(head.text))
    return Forms(noun_forms(head.text, "NNS").singular, head.text)


def _text(words: list[Token]) -> str:
    return words[0].doc[words[0].i : words[-1].i + 1].text if words else ""
