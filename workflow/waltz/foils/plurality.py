"""Plurality: the number of a noun phrase of a COCO caption, one thing or more than one (thesis 3.3,
A.1).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

from spacy.tokens import Doc, Token

from waltz.foils.candidates import (
    Candidate,
    MakerOptions,
    Outcome,
    Refusal,
    SourceOutcomes,
    attach_row,
    build_candidate,
    split_readable,
)
from waltz.foils.english.noun_phrases import (
    SUBJECTS,
    NounPhrase,
    change_verb_number,
    explain_rejection,
    find_agreeing_verbs,
    find_anaphors,
    find_antecedents,
    find_distant_verbs,
    find_noun_phrases,
    list_numbers,
)
from waltz.foils.english.nouns import Number, pluralize, singularize
from waltz.foils.english.parsing import parse_rows
from waltz.foils.english.patterns import TokenPattern
from waltz.foils.english.quantifiable.noun_kinds import is_in_wordnet
from waltz.foils.english.quantifiable.pronouns import is_possession, resolve_pronouns
from waltz.foils.english.quantifiable.refusals import explain_refusal, find_text_fault
from waltz.foils.english.sentences import capitalize
from waltz.sources.records import CaptionRecord

QUANTIFIERS: dict[Number, tuple[str, ...]] = {
    "sg": ("exactly one", "a single"),
    "pl": ("some", "a number of"),
}
"""Quantifiers that state the number of a noun phrase in captions and foils."""
DETERMINER = TokenPattern(relations={"det", "poss", "nummod"})
SENTENCE_END = TokenPattern(words={".", "!", "?"})
OTHER_NUMBER: dict[Number, Number] = {"sg": "pl", "pl": "sg"}
UNCOUNTED = {
    "attire", "baggage", "clothing", "equipment", "food", "fur", "furniture", "gear", "hair", "homework", "jewelry",
    "luggage", "makeup", "money", "music", "wool", "work",
}  # fmt: skip
"""Possessions that keep their number when their owners become more or fewer."""


def build_candidates(
    rows: Sequence[CaptionRecord], options: MakerOptions, _: str
) -> SourceOutcomes:
    """Yield candidates for each COCO caption that is short enough, in the order of the rows.

    The refusals of the captions that the model cannot read come first.
    """
    usable_rows, refused_rows = split_readable(rows, options)
    yield from refused_rows
    for row, doc in parse_rows(usable_rows):
        yield from attach_row(row, build_plurality_foils(doc))


def build_plurality_foils(
    doc: Doc, *, rejects_doubtful: bool = True
) -> Iterator[Outcome]:
    """Yield candidates that change the number of a noun phrase, from one to many or from many to
    one; or a refusal.

    Each noun phrase gives four candidates: two quantifiers of its number in the caption, combined
    with two quantifiers of the other number in the foil. A quantifier replaces the determiners. In
    the foil, the head, the verbs that agree with it, its anaphors and the nouns that these possess
    change their number.

    Args:
        rejects_doubtful: Whether phrases that no quantifier fits are rejected
            (`english.quantifiable`); the released benchmark has some of them.
    """
    if rejects_doubtful:
        fault = find_text_fault(doc)
        if fault is not None:
            yield Refusal(fault)
            return
    phrases = list(find_noun_phrases(doc))
    if not phrases:
        yield Refusal("no noun phrase")
    # Every pronoun refers to one noun phrase, and changes only with this phrase.
    resolve = resolve_pronouns if rejects_doubtful else find_antecedents
    antecedents = resolve(doc, [phrase.head for phrase in phrases])
    words = [token.text_with_ws for token in doc]
    # The parser takes some nouns for names because of the capital of a caption ("Dog").
    if rejects_doubtful and is_in_wordnet(doc[:1].text.lower()):
        words[0] = words[0].lower()
    for phrase in phrases:
        rejected = explain_rejection(phrase)
        if rejected is None and rejects_doubtful:
            rejected = explain_refusal(phrase)
        opens_sentence = rejects_doubtful and _opens_later_sentence(phrase)
        write_text = partial(_write_text, words, phrase, opens_sentence)
        # A noun such as "sheep" can have either number, and gives candidates for both.
        for number in list_numbers(phrase.head):
            forms = _inflect_words(
                phrase, number, antecedents, as_released=not rejects_doubtful
            )
            for candidate in _change_number(write_text, phrase, number, forms):
                yield replace(candidate, rejected=rejected)


def _change_number(
    write_text: Callable[[str, dict[int, str]], str],
    phrase: NounPhrase,
    old: Number,
    forms: dict[int, str],
) -> Iterator[Candidate]:
    """Yield the candidates that change a noun phrase from one number to the other.

    Args:
        write_text: Function that returns the caption with a quantifier and new forms of words.
        forms: New forms of the words that change their number with the phrase, by token index.
    """
    new = OTHER_NUMBER[old]
    # The caption gets a quantifier, too, so that a quantifier alone does not tell that a text is a
    # foil.
    for quantifier, foil_quantifier in product(QUANTIFIERS[old], QUANTIFIERS[new]):
        yield build_candidate(
            caption=write_text(quantifier, {}),
            foil=write_text(foil_quantifier, forms),
            caption_phrase=phrase.head.text,
            foil_phrase=forms[phrase.head.i],
            direction=f"{old}2{new}",
        )


def _inflect_words(
    phrase: NounPhrase,
    old: Number,
    antecedents: Mapping[Token, Token],
    *,
    as_released: bool,
) -> dict[int, str]:
    """Return the new forms of all words that change their number with the phrase, by token index.

    Args:
        as_released: Whether verbs and possessions that the released benchmark leaves unchanged
            keep their number, and people become "he" or "she".
    """
    new = OTHER_NUMBER[old]
    inflect_noun = pluralize if new == "pl" else singularize
    head = phrase.head
    forms = {head.i: inflect_noun(head.text)}

    # Verbs: of the clause, one that the parser took for a noun, and that of "there is".
    forms |= find_agreeing_verbs(head, new)
    for verb in filter(None, (phrase.verb, phrase.existential_verb)):
        forms[verb.i] = change_verb_number(verb, new) or verb.text

    # Pronouns that refer to the noun, with their verbs and what they possess ("a man and his dog").
    if not as_released:
        for verb in find_distant_verbs(phrase):
            forms[verb.i] = change_verb_number(verb, new) or verb.text
    anaphors = find_anaphors(head, new, antecedents, people_are_they=not as_released)
    for pronoun, pronoun_form in anaphors:
        forms[pronoun.i] = pronoun_form
        # The singular "they" keeps its verb.
        if pronoun.dep_ in SUBJECTS and pronoun_form != pronoun.lower_:
            forms |= find_agreeing_verbs(pronoun, new)
        possessions = _list_possessions(pronoun, old, as_released)
        for noun in possessions:
            forms[noun.i] = inflect_noun(noun.text)
        # The verb of a list agrees with its first noun for the parser.
        if possessions:
            forms |= find_agreeing_verbs(possessions[0], new)
    return forms


def _list_possessions(pronoun: Token, old: Number, as_released: bool) -> list[Token]:
    """Return the nouns that change their number with the owner to which a possessive refers, the
    first one directly behind it ("his head, back and tail").

    Args:
        old: Number of the owner in the caption.
        as_released: Whether later nouns of a list keep their number, and directions change it, as
            in the released benchmark.
    """
    possession = _find_possession(pronoun, old)
    if possession is None:
        return []
    if as_released:
        return [possession]
    if not is_possession(possession):
        return []
    return [possession, *_list_bare_conjuncts(possession)]


def _find_possession(pronoun: Token, old: Number) -> Token | None:
    """Return the noun that a possessive pronoun precedes, if it changes its number with the owner
    ("a man and his dog"); else None.

    Args:
        old: Number of the owner in the caption.
    """
    if pronoun.dep_ != "poss":
        return None
    possession = pronoun.head
    while possession.dep_ == "poss":  # "his friend's dog"
        possession = possession.head
    if possession.lower_ in UNCOUNTED or old not in list_numbers(possession):
        return None
    return possession


def _list_bare_conjuncts(noun: Token) -> list[Token]:
    """Return the singular or plural nouns of a list that share the determiner of its first noun
    ("his head, back and tail").
    """
    nouns = [word for word in noun.conjuncts if word.tag_ == noun.tag_]
    return [word for word in nouns if not DETERMINER.matches_any(word.lefts)]


def _opens_later_sentence(phrase: NounPhrase) -> bool:
    """Return True for a phrase with a capital behind the end of a sentence."""
    before = phrase.head.doc[max(phrase.start - 1, 0) : phrase.start]
    return phrase.first_word.is_title and SENTENCE_END.matches_any(before)


def _write_text(
    words: Sequence[str],
    phrase: NounPhrase,
    opens_sentence: bool,
    quantifier: str,
    forms: dict[int, str],
) -> str:
    """Return the caption with a quantifier in place of the determiners of a phrase, and with new
    forms of some words.

    Args:
        words: Words of the caption, each with the space behind it.
        opens_sentence: Whether the phrase begins a sentence that is not the first one.
        forms: New forms by token index.
    """
    doc = phrase.head.doc
    pieces = list(words)
    for index, form in forms.items():
        token = doc[index]
        # A pronoun at the start of a later sentence.
        new_word = capitalize(form) if token.is_title else form
        pieces[index] = f"{new_word}{token.whitespace_}"

    # The first word of a sentence loses its capital if it is no name: a quantifier precedes it.
    stem = pieces[phrase.stem]
    is_first = phrase.stem == phrase.start and (phrase.stem == 0 or opens_sentence)
    is_name = (
        doc[phrase.stem].tag_ in {"NNP", "NNPS"} and not words[phrase.stem].islower()
    )
    if is_first and not is_name:
        stem = stem.lower()
    if opens_sentence:
        quantifier = capitalize(quantifier)
    # The quantifier replaces all tokens before the stem.
    pieces[phrase.start : phrase.stem + 1] = [quantifier, " ", stem]
    return capitalize("".join(pieces).strip())
