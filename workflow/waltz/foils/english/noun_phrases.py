"""Noun phrases of a parse, with the parser's known mistakes on captions corrected."""

from collections.abc import Iterator
from dataclasses import dataclass

from lemminflect import getAllLemmas
from spacy.tokens import Doc, Span, Token

from waltz.foils.english.nouns import PLURAL_QUANTITIES, QUANTITIES, singularise

DETERMINER_TAGS = {"CD", "DT", "PDT", "PRP$", "POS"}
LEFT_OF_NOUN = {"det", "predet", "amod", "compound", "nummod", "nmod", "poss", "quantmod", "advmod"}
NEGATED = "the caption says that there is none"
EACH_ONE = "the caption speaks of each one"
IN_PREPOSITION = "the noun is part of a preposition"
PLACE_NOUNS = {"back", "front", "side", "top"}
PLACE_ADVERBS = {"indoors", "outdoors", "upstairs", "downstairs", "overhead", "nearby"}
"""Adverbs that the parser takes for nouns."""
HYPHENS = {"-", "/", "–"}


@dataclass(frozen=True)
class NounPhrase:
    """A noun phrase up to its head.

    Attributes:
        head: Its noun.
        start: Index of its first token.
        stem: Index of the first token after its determiners, numerals and possessives.
        verb: Its verb, where the parser mistook it for the noun ("a girl grins"); else None.
    """

    head: Token
    start: int
    stem: int
    verb: Token | None = None


def find_noun_phrases(doc: Doc) -> Iterator[NounPhrase]:
    """Yield the noun phrases of a parse whose head is a noun, no pronoun, in the order of their heads."""
    chunks = list(doc.noun_chunks)
    inside = {token.i for chunk in chunks for token in chunk}
    phrases = [phrase for chunk in chunks for phrase in _split_chunk(chunk)]
    phrases += [_build_outside_chunks(token) for token in doc if token.i not in inside and _is_free_noun(token)]
    yield from sorted(filter(_is_usable, phrases), key=lambda phrase: phrase.head.i)


def _is_usable(phrase: NounPhrase) -> bool:
    """Return True for a full phrase of a common noun: no name, no part of a hyphened word, no half of a quotation."""
    head, first = phrase.head, phrase.head.doc[phrase.stem]
    stem = head.doc[phrase.stem : head.i + 1]
    is_name = head.tag_ in {"NNP", "NNPS"} and head.is_title and phrase.stem == phrase.start > 0
    is_name |= len(stem) > 1 and phrase.start == phrase.stem and all(word.tag_ == "NNP" for word in stem)
    hyphened_before = phrase.stem > 0 and first.nbor(-1).text in HYPHENS and not first.nbor(-1).whitespace_
    hyphened_after = not head.whitespace_ and head.i + 1 < len(head.doc) and head.nbor(1).text in HYPHENS
    open_quotation = sum(word.text == '"' for word in stem) % 2 == 1
    return bool(head.is_alpha) and not (is_name or hyphened_before or hyphened_after or open_quotation)


def explain_rejection(phrase: NounPhrase) -> str | None:
    """Return why a quantifier instead of its determiners makes no true caption; None where it does."""
    words = {word.lower_ for word in phrase.head.doc[phrase.start : phrase.stem]}
    before = phrase.head.doc[phrase.start - 1].lower_ if phrase.start else ""
    if words & {"any", "no"} or before == "without":
        return NEGATED
    if words & {"each", "every"}:
        return EACH_ONE
    return IN_PREPOSITION if _in_preposition(phrase) else None


def _in_preposition(phrase: NounPhrase) -> bool:
    head = phrase.head
    if phrase.start != head.i or not 0 < head.i < len(head.doc) - 1:
        return False
    return head.nbor(-1).lower_ in {"in", "on"} and head.nbor(1).lower_ == "of" and head.lower_ in PLACE_NOUNS


def _split_chunk(chunk: Span) -> Iterator[NounPhrase]:
    head, before = chunk.root, chunk.doc[max(chunk.root.i - 1, 0)]
    if head.lower_ in PLACE_ADVERBS and head.i > chunk.start and before.dep_ in {"compound", "nmod"}:
        head, before = before, chunk.doc[max(before.i - 1, 0)]
    if head.pos_ not in {"NOUN", "PROPN"} or head.lower_ in PLACE_ADVERBS:
        return
    if _is_verb_after_subject(head, before, chunk):
        yield NounPhrase(before, chunk.start, _find_stem(chunk.start, before), verb=head)
        return
    breaks = [token.i for token in chunk[1:-1] if _is_break(token)]
    starts = [chunk.start, *(index + 1 for index in breaks)]
    nouns = [*(chunk.doc[index - 1] for index in breaks), head]
    for start, noun in zip(starts, nouns, strict=True):
        if noun.pos_ in {"NOUN", "PROPN", "ADJ"}:
            yield NounPhrase(noun, start, _find_stem(start, noun))


def _is_break(token: Token) -> bool:
    """Return True where one of the nouns that the parser took for one phrase ends before it ("a bathtub, window")."""
    if token.text == ",":
        return bool(token.nbor(-1).dep_ == "nmod")
    before = token.nbor(-1)
    is_noun = before.pos_ == "NOUN" or singularise(before.lower_) != before.lower_
    return token.lower_ == "and" and is_noun and token.nbor(1).tag_ in DETERMINER_TAGS


def _is_verb_after_subject(head: Token, before: Token, chunk: Span) -> bool:
    if before.dep_ != "compound" or "VERB" not in getAllLemmas(head.lower_):
        return False
    first, second = chunk[0].lower_, chunk[1].lower_
    if first in {"a", "an"} and second not in PLURAL_QUANTITIES:
        noun_tags = ("NN", "NNS")
        is_clause = head.lower_.endswith("s") and head.dep_ in {"ROOT", "ccomp", "advcl"}
    else:
        noun_tags = ("NNS", "NN")
        is_clause = bool({first, second} & PLURAL_QUANTITIES) and head.dep_ == "ROOT"
    return is_clause and (before.tag_, head.tag_) == noun_tags


def _is_free_noun(token: Token) -> bool:
    if token.pos_ != "NOUN" or token.tag_ not in {"NN", "NNS"}:
        return False
    subject_of_verb = token.dep_ == "compound" and token.head.pos_ == "VERB" and token.tag_ == "NNS"
    return subject_of_verb or (token.dep_ in {"conj", "appos"} and token.lower_ not in PLACE_ADVERBS)


def _build_outside_chunks(head: Token) -> NounPhrase:
    start = head.i
    while start > 0 and head.doc[start - 1].head == head and head.doc[start - 1].dep_ in LEFT_OF_NOUN:
        start -= 1
    return NounPhrase(head, start, _find_stem(start, head))


def _find_stem(start: int, head: Token) -> int:
    stem = start
    for token in head.doc[start : head.i]:
        is_name = token.is_title and token.i > start
        if (token.tag_ in DETERMINER_TAGS and not is_name) or token.lower_ in QUANTITIES or token.dep_ == "quantmod":
            stem = token.i + 1
        elif head.head == token or token.dep_ != "poss":
            break
    return stem
