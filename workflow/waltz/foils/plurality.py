"""Plurality: whether a noun phrase of a COCO caption names one thing or more than one (thesis 3.3, A.1)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from spacy.tokens import Doc, Token

from waltz.foils.candidates import Candidate, Found, Refused, exchanged
from waltz.foils.coco_captions import parsed
from waltz.foils.english.agreement import SUBJECTS, agreeing_verbs, existential_verb, in_number
from waltz.foils.english.anaphors import anaphors
from waltz.foils.english.noun_phrases import NounPhrase, noun_phrases, unusable
from waltz.foils.english.nouns import Number, numbers, plural_of, singular_of

QUANTIFIERS: dict[Number, tuple[str, ...]] = {"sg": ("exactly one", "a single"), "pl": ("some", "a number of")}
UNCOUNTED = {"baggage", "hair", "luggage"}
"""Possessions that stay as they are when their owners become more or fewer."""


def plurality(doc: Doc) -> Iterator[Found]:
    """Every noun phrase with its number changed, from one to many or from many to one.

    Args:
        doc: Parse of one caption.
    Yields:
        Four candidates for a noun phrase: either quantifier of its number in the caption, with either quantifier of the
        other number in the foil, each in the place of its determiners. In the foil the head, the verbs that agree with
        it, its anaphors, and what those possess change number. Refused where the caption has no noun phrase.
    """
    phrases = list(noun_phrases(doc))
    if not phrases:
        yield Refused("no noun phrase")
    heads = [phrase.head for phrase in phrases]
    for phrase in phrases:
        for number in numbers(phrase.head):
            yield from _with_number_changed(doc, phrase, number, heads)


def plurality_of(caption: str) -> list[Found]:
    """What `plurality` yields for one caption as it is written."""
    return list(plurality(next(parsed([caption]))))


def _with_number_changed(doc: Doc, phrase: NounPhrase, old: Number, heads: Sequence[Token]) -> Iterator[Candidate]:
    new: Number = "pl" if old == "sg" else "sg"
    forms = _forms(phrase, old, new, heads)
    rejected = unusable(phrase)
    captions = [_written(doc, phrase, quantifier, {}) for quantifier in QUANTIFIERS[old]]
    foils = [_written(doc, phrase, quantifier, forms) for quantifier in QUANTIFIERS[new]]
    for caption, foil in product(captions, foils):
        candidate = exchanged(caption, foil, phrase.head.text, forms[phrase.head.i], f"{old}2{new}")
        yield replace(candidate, rejected=rejected)


def _forms(phrase: NounPhrase, old: Number, new: Number, heads: Sequence[Token]) -> dict[int, str]:
    inflect = plural_of if new == "pl" else singular_of
    forms = {phrase.head.i: inflect(phrase.head.text)}
    forms |= {verb.i: form for verb, form in agreeing_verbs(phrase.head, new)}
    for verb in (phrase.verb, existential_verb(phrase.head.doc[phrase.start])):
        if verb is not None:
            forms[verb.i] = in_number(verb, new) or verb.text
    for pronoun, form in anaphors(phrase.head, new, heads):
        forms[pronoun.i] = form
        if pronoun.dep_ in SUBJECTS:
            forms |= {verb.i: form for verb, form in agreeing_verbs(pronoun, new)}
        possessed = _possessed(pronoun)
        if possessed is not None and old in numbers(possessed) and possessed.lower_ not in UNCOUNTED:
            forms[possessed.i] = inflect(possessed.text)
    return forms


def _possessed(pronoun: Token) -> Token | None:
    possessed = pronoun
    while possessed.dep_ == "poss":
        possessed = possessed.head
    return None if possessed == pronoun else possessed


def _written(doc: Doc, phrase: NounPhrase, quantifier: str, forms: dict[int, str]) -> str:
    pieces: list[str] = []
    for token in doc:
        if token.i == phrase.stem:
            pieces.append(f"{quantifier} ")
        if not phrase.start <= token.i < phrase.stem:
            word = forms.get(token.i, token.text)
            inside = token.i == phrase.stem == 0 and token.tag_ not in {"NNP", "NNPS"}
            pieces.append(f"{word.lower() if inside else word}{token.whitespace_}")
    text = "".join(pieces).strip()
    return text[:1].upper() + text[1:]
