"""Noun phrases of a parse, with what the parser of captions is known to get wrong set right."""

from collections.abc import Iterator
from dataclasses import dataclass

from lemminflect import getAllLemmas
from spacy.tokens import Doc, Span, Token

from waltz.foils.nouns import QUANTITIES

DETERMINER_TAGS = {"CD", "DT", "PDT", "PRP$", "POS"}
LEFT_OF_NOUN = {"det", "predet", "amod", "compound", "nummod", "nmod", "poss", "quantmod", "advmod"}


@dataclass(frozen=True)
class NounPhrase:
    """A noun phrase without what follows its head.

    Attributes:
        head: Its noun.
        start: Index of its first token.
        stem: Index of the first token after its determiners, numerals and possessives.
        verb: Its verb, where the parser took that for the noun ("a girl grins"); else None.
    """

    head: Token
    start: int
    stem: int
    verb: Token | None = None


def noun_phrases(doc: Doc) -> Iterator[NounPhrase]:
    """The noun phrases of a parse whose head is a noun, no pronoun, in the order of their heads."""
    chunks = list(doc.noun_chunks)
    inside = {token.i for chunk in chunks for token in chunk}
    found = [phrase for chunk in chunks for phrase in _of_chunk(chunk)]
    found += [_alone(token) for token in doc if token.i not in inside and _is_free_noun(token)]
    yield from sorted(found, key=lambda phrase: phrase.head.i)


def _of_chunk(chunk: Span) -> Iterator[NounPhrase]:
    head, before = chunk.root, chunk.doc[max(chunk.root.i - 1, 0)]
    if head.pos_ not in {"NOUN", "PROPN"}:
        return
    if _is_verb_after_subject(head, before, chunk):
        yield NounPhrase(before, chunk.start, _stem(chunk.start, before), verb=head)
        return
    commas = [token.i for token in chunk if token.text == "," and token.nbor(-1).dep_ == "nmod"]
    starts = [chunk.start, *(comma + 1 for comma in commas)]
    heads = [*(chunk.doc[comma - 1] for comma in commas), head]
    for start, noun in zip(starts, heads, strict=True):
        yield NounPhrase(noun, start, _stem(start, noun))


def _is_verb_after_subject(head: Token, before: Token, chunk: Span) -> bool:
    singular_article = chunk[0].lower_ in {"a", "an"}
    return (
        singular_article
        and head.tag_ == "NNS"
        and before.tag_ == "NN"
        and before.dep_ == "compound"
        and head.dep_ in {"ROOT", "ccomp", "advcl"}
        and "VERB" in getAllLemmas(head.lower_)
    )


def _is_free_noun(token: Token) -> bool:
    if token.pos_ != "NOUN" or token.tag_ not in {"NN", "NNS"}:
        return False
    subject_of_verb = token.dep_ == "compound" and token.head.pos_ == "VERB" and token.tag_ == "NNS"
    return subject_of_verb or token.dep_ in {"conj", "appos"}


def _alone(head: Token) -> NounPhrase:
    start = head.i
    while start > 0 and head.doc[start - 1].head == head and head.doc[start - 1].dep_ in LEFT_OF_NOUN:
        start -= 1
    return NounPhrase(head, start, _stem(start, head))


def _stem(start: int, head: Token) -> int:
    stem = start
    for token in head.doc[start : head.i]:
        if token.tag_ in DETERMINER_TAGS or token.lower_ in QUANTITIES or token.dep_ == "quantmod":
            stem = token.i + 1
        elif head.head == token or token.dep_ != "poss":
            break
    return stem
