"""Reproduction of released existence, counting and coreference items from their captions and classes.

The questions of the released items are not known, so their statements are read from the released captions unchanged
and written with the released class.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from spacy.tokens import Doc, Token

from waltz.foils.candidates import Candidate
from waltz.foils.coreference import build_coreference_foil
from waltz.foils.counting import replace_number
from waltz.foils.counting_questions import find_counted_noun, join_tokens
from waltz.foils.english.nouns import pluralise
from waltz.foils.english.parsing import parse
from waltz.foils.english.statements import IS_ARE, NO_FORMS, Forms, Statement, get_noun_forms, get_verb_forms
from waltz.foils.existence import build_negation
from waltz.foils.release.comparison import texts_match

EXISTING = re.compile(
    r"(?P<opening>there\b|you see\b|)\s*(?P<be>\b(?:is|are)\b|)\s*(?P<quantity>\b(?:no|an?)\b|)\s*(?P<rest>.+?)\s*\.?",
    re.I,
)
FINITE = ("VBP", "VBZ", "MD")


def reproduce_existence(item: Mapping[str, Any]) -> list[Candidate]:
    """Return the negation of a released caption."""
    match = EXISTING.fullmatch(item["caption"].strip())
    if match is None:
        return []
    singular = match["be"].lower() == "is" or match["quantity"].lower() in ("a", "an")
    be = Forms(match["be"], match["be"]) if match["be"] else NO_FORMS
    things = Forms(match["rest"], match["rest"])
    statement = Statement(match["opening"], be, "", things, "", NO_FORMS, "")
    return [build_negation(statement, 1 if singular else 2, match["quantity"].lower() != "no")]


def explain_existence(item: Mapping[str, Any], candidates: Sequence[Candidate]) -> str:
    """Return why a released existence item is not among the candidates."""
    if item["caption"] == item["foil"]:
        return "caption and foil of the release are alike"
    if any(texts_match(item["foil"], candidate.foil) for candidate in candidates):
        return "the released caption has the wrong article"
    return "another form of the statement"


def reproduce_counting(item: Mapping[str, Any]) -> list[Candidate]:
    """Return the released caption with the foil's released numeral; nothing else changes where neither number is 1."""
    text, number, foil_number = item["caption"].strip().rstrip("."), item["classes"], item["classes_foil"]
    match = re.search(rf"(?P<adverb>\bexactly\s+)?\b{number}\b", text, re.I)
    if match is None or number == foil_number:
        return []
    adverb = "exactly" if match["adverb"] else ""
    statement = Statement(text[: match.start()], NO_FORMS, "", NO_FORMS, "", NO_FORMS, text[match.end() :])
    if 1 in (number, foil_number):
        (caption,) = parse([item["caption"]])
        statement = _build_statement(caption, match.start(), match.end(), number)
    return [replace_number(statement, number, foil_number, adverb)]


def explain_counting(item: Mapping[str, Any], candidates: Sequence[Candidate]) -> str:
    """Return why a released counting item is not among the candidates."""
    if item["caption"] == item["foil"]:
        return "caption and foil of the release are alike"
    if not candidates:
        return "the numeral is not in the released caption"
    if any(not texts_match(item["caption"], candidate.caption) for candidate in candidates):
        return "noun or verb of the released caption do not agree with its number"
    numbered = item["caption"].replace(str(item["classes"]), str(item["classes_foil"]), 1)
    if texts_match(numbered, item["foil"]):
        return "the released foil only has the numeral replaced, so that it does not agree"
    if texts_match(re.sub(r"\bis\b", "are", numbered), re.sub(r"\bis\b", "are", item["foil"])):
        return "the released foil leaves the noun as it is, so that it does not agree"
    return "the release has another form of the noun, of what refers to it, or takes another word for it"


def reproduce_coreference(item: Mapping[str, Any]) -> list[Candidate]:
    """Return the released dialogue of one round with the contrary answer."""
    dialogue = item["caption"].removeprefix(item["only_caption"]).removeprefix(". ")
    question, _, answer = dialogue.rpartition("? ")
    outcome = build_coreference_foil(item["only_caption"], question, answer, 1)
    return [outcome] if isinstance(outcome, Candidate) else []


def explain_coreference(item: Mapping[str, Any], candidates: Sequence[Candidate]) -> str:
    """Return why a released coreference item is not among the candidates."""
    return "the released text has another form" if candidates else "no pronoun that this rule knows"


def _build_statement(caption: Doc, start: int, end: int, number: int) -> Statement:
    """Return a released caption as a statement.

    Args:
        caption: Parse of the caption.
        start: First character of its quantity.
        end: Character after its quantity.
        number: The number that it names.
    """
    words = [token for token in caption if token.text != "."]
    before = [token for token in words if token.idx < start]
    after = [token for token in words if token.idx >= end]
    be = NO_FORMS
    if [token.lower_ for token in before] in (["there", "is"], ["there", "are"]):
        before, be = before[:1], IS_ARE
    head = find_counted_noun(after, number != 1) if after and after[0].tag_ != "IN" else None
    noun_end = 0 if head is None else after.index(head) + 1
    verb = None if before else _find_verb(after, noun_end)
    forms = NO_FORMS if verb is None else get_verb_forms(after[verb].text, after[verb].tag_, after[verb].lemma_)
    stop = len(after) if verb is None else verb
    noun = NO_FORMS if head is None else _get_noun_forms(head, number)
    rest = [] if verb is None else after[verb + 1 :]
    return Statement(
        join_tokens(before),
        be,
        join_tokens(after[: noun_end - 1]) if noun_end else "",
        noun,
        join_tokens(after[noun_end:stop]),
        forms,
        join_tokens(rest),
    )


def _find_verb(words: list[Token], start: int) -> int | None:
    """Return the index of the first finite verb from `start` on, unless its subject follows it."""
    verb = next((index for index, word in enumerate(words) if index >= start and word.tag_ in FINITE), None)
    return None if verb is None or [word.tag_ for word in words[verb + 1 : verb + 2]] == ["PRP"] else verb


def _get_noun_forms(head: Token, number: int) -> Forms:
    """Return both numbers of a noun of a released caption, which has, or should have, the form of its number."""
    if number == 1:
        return Forms(head.text, pluralise(head.text))
    return Forms(get_noun_forms(head.text, "NNS").singular, head.text)
