"""Plurality: a noun phrase of a COCO caption that names one thing, or more than one (thesis 3.3, A.1)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from spacy.tokens import Doc, Token

from waltz.foils.candidates import (
    TOO_LONG,
    Candidate,
    MakerOptions,
    Outcome,
    Refusal,
    Row,
    SourceOutcomes,
    build_candidate,
    split_by_length,
)
from waltz.foils.english.noun_phrases import (
    SUBJECTS,
    NounPhrase,
    explain_rejection,
    find_agreeing_verbs,
    find_anaphors,
    find_antecedents,
    find_existential_verb,
    find_noun_phrases,
    inflect_verb,
    list_numbers,
)
from waltz.foils.english.nouns import Number, pluralise, singularise
from waltz.foils.english.parsing import parse_captions

QUANTIFIERS: dict[Number, tuple[str, ...]] = {"sg": ("exactly one", "a single"), "pl": ("some", "a number of")}
UNCOUNTED = {"baggage", "hair", "luggage"}
"""Possessions that keep their number when their owners become more or fewer."""


def build_candidates(rows: Sequence[Row], options: MakerOptions, _: str) -> SourceOutcomes:
    """Yield candidates for each COCO caption that is short enough, in the order of the rows, after the refusals."""
    short_rows, long_rows = split_by_length(rows, options)
    yield from ((row, Refusal(TOO_LONG)) for row in long_rows)
    for row, doc in zip(short_rows, parse_captions(row["caption"] for row in short_rows), strict=True):
        yield from ((row, outcome) for outcome in build_plurality_foils(doc))


def build_plurality_foils(doc: Doc) -> Iterator[Outcome]:
    """Yield every noun phrase with its number changed, from one to many or from many to one; or a refusal.

    Each gives four candidates: either quantifier of its number in the caption, with either quantifier of the other
    number in the foil, instead of its determiners. In the foil the head, the verbs that agree with it, its anaphors,
    and what those possess change number.
    """
    phrases = list(find_noun_phrases(doc))
    if not phrases:
        yield Refusal("no noun phrase")
    antecedents = find_antecedents(doc, [phrase.head for phrase in phrases])
    words = [token.text_with_ws for token in doc]
    for phrase in phrases:
        for number in list_numbers(phrase.head):
            yield from _change_number(words, phrase, number, antecedents)


def _change_number(
    words: Sequence[str], phrase: NounPhrase, old: Number, antecedents: Mapping[Token, Token]
) -> Iterator[Candidate]:
    """Yield the candidates of a phrase; `words` are those of the caption with the spaces behind them."""
    new: Number = "pl" if old == "sg" else "sg"
    forms = _inflect_words(phrase, old, new, antecedents)
    rejected = explain_rejection(phrase)
    captions = [_write_text(words, phrase, quantifier, {}) for quantifier in QUANTIFIERS[old]]
    foils = [_write_text(words, phrase, quantifier, forms) for quantifier in QUANTIFIERS[new]]
    for caption, foil in product(captions, foils):
        candidate = build_candidate(caption, foil, phrase.head.text, forms[phrase.head.i], f"{old}2{new}")
        yield replace(candidate, rejected=rejected)


def _inflect_words(phrase: NounPhrase, old: Number, new: Number, antecedents: Mapping[Token, Token]) -> dict[int, str]:
    """Return the new form of every word that changes number with the phrase, by token index."""
    inflect_noun = pluralise if new == "pl" else singularise
    forms = {phrase.head.i: inflect_noun(phrase.head.text)}
    forms |= {verb.i: form for verb, form in find_agreeing_verbs(phrase.head, new)}
    for verb in (phrase.verb, find_existential_verb(phrase.head.doc[phrase.start])):
        if verb is not None:
            forms[verb.i] = inflect_verb(verb, new) or verb.text
    for pronoun, form in find_anaphors(phrase.head, new, antecedents):
        forms[pronoun.i] = form
        if pronoun.dep_ in SUBJECTS:
            forms |= {verb.i: form for verb, form in find_agreeing_verbs(pronoun, new)}
        possession = _find_possession(pronoun)
        if possession is not None and old in list_numbers(possession) and possession.lower_ not in UNCOUNTED:
            forms[possession.i] = inflect_noun(possession.text)
    return forms


def _find_possession(pronoun: Token) -> Token | None:
    possession = pronoun
    while possession.dep_ == "poss":
        possession = possession.head
    return None if possession == pronoun else possession


def _write_text(words: Sequence[str], phrase: NounPhrase, quantifier: str, forms: dict[int, str]) -> str:
    """Return the caption with a quantifier instead of the phrase's determiners, and other forms of some words."""
    doc, stem = phrase.head.doc, phrase.stem
    pieces = list(words)
    for index, form in forms.items():
        pieces[index] = f"{form}{doc[index].whitespace_}"
    loses_capital = stem == 0 and doc[stem].tag_ not in {"NNP", "NNPS"}
    pieces[phrase.start : stem + 1] = [quantifier, " ", pieces[stem].lower() if loses_capital else pieces[stem]]
    text = "".join(pieces).strip()
    return text[:1].upper() + text[1:]
