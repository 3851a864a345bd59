"""Noun phrases: foils of FOIL-it with their captions, or foils built as FOIL-it builds them (thesis
3.3, A.1).

Without the annotations of FOIL-it, foils are built from COCO captions: the noun of a category of
COCO is replaced by another noun of the same supercategory that no caption of the image mentions
(Shekhar et al., ACL 2017, section 3). Unlike in FOIL-it, no captioning model selects the hardest
foil.
"""

import re
from collections.abc import Iterator, Sequence

from spacy.tokens import Doc, Token

from waltz.core.text_diff import slice_span
from waltz.foils.candidates import (
    MakerOptions,
    Outcome,
    Refusal,
    Row,
    SourceOutcomes,
    attach_row,
    build_candidate,
    select_type,
)
from waltz.foils.english.coco_nouns import (
    NO_NOUN,
    NOT_SALIENT,
    collect_words,
    find_category_nouns,
    is_salient,
    list_absent_nouns,
)
from waltz.foils.english.nouns import pluralize
from waltz.foils.english.numerals import is_denied, is_quoted
from waltz.foils.english.parsing import parse_rows
from waltz.foils.english.patterns import TokenPattern, matches_one_of
from waltz.foils.english.sentences import capitalize
from waltz.sources.records import CaptionRecord, FoilPairRecord

AN = re.compile(r"\ban\b")
VOWELS = "aeiou"
SINGULAR = TokenPattern(tags=("NN",))
DETERMINER = TokenPattern(relations=("det", "poss", "nummod", "predet"))
OF = TokenPattern(words=("of",))
CONTAINERS = frozenset(
    ("bottle", "bottles", "bowl", "bowls", "cup", "cups", "spoon", "spoons", "vase")
)
MASS_NOUNS = frozenset(("broccoli",))
"""Categories that can be neither one nor many."""
NOT_ASSERTED = "the caption does not say that there is such a thing"
CONTAINER = "the noun is a container or measure of other things"
WITHOUT_ARTICLE = "the noun has no article, so that another may not fit"
BESIDE_OTHERS = (
    "such a thing may be in the image as well, and only one caption says what is there"
)
CONJUNCT = TokenPattern(relations=("conj",))
NEIGHBOR = TokenPattern(words=("with", "beside", "near", "by", "alongside"))
NEXT_TO = TokenPattern(
    words=("to", "of"), head=TokenPattern(words=("next", "close", "front"))
)
ADDED = (
    CONJUNCT,
    TokenPattern(relations=("pobj",), head=NEIGHBOR),
    TokenPattern(relations=("pobj",), head=NEXT_TO),
)
EXISTENTIAL = TokenPattern(relations=("expl",))
OBJECT = TokenPattern(relations=("dobj",))
POSSESSION = {
    "carry", "contain", "display", "feature", "get", "have", "hold", "include", "show", "wear",
}  # fmt: skip
"""Verbs whose object does not exclude another object."""
AFTER_ARTICLE = TokenPattern(before=TokenPattern(words={"a", "an"}))


def build_candidates(rows: Sequence[Row], _: MakerOptions, __: str) -> SourceOutcomes:
    """Yield candidates, or refusals with their reasons, for each annotation of FOIL-it or each COCO
    caption.
    """
    # A source has either annotations of FOIL-it or captions.
    for row in select_type(rows, FoilPairRecord):
        yield row, _build_annotated_foil(row)
    yield from _build_from_captions(select_type(rows, CaptionRecord))


def _build_annotated_foil(row: FoilPairRecord) -> Outcome:
    # A usable row has the caption of its annotation.
    return build_noun_foil(row.caption or "", row.foil, row.target_word, row.foil_word)


def _build_from_captions(rows: Sequence[CaptionRecord]) -> SourceOutcomes:
    """Yield the candidates of captions, in the order of the rows."""
    # Salient and absent nouns depend on all captions of the image, so their words are collected
    # first.
    parsed_rows = list(parse_rows(rows))
    words_by_image: dict[str, list[set[str]]] = {}
    for row, doc in parsed_rows:
        words_by_image.setdefault(row.image, []).append(collect_words(doc))
    for row, doc in parsed_rows:
        outcomes = build_category_foils(doc, words_by_image[row.image])
        yield from attach_row(row, outcomes)


def build_category_foils(doc: Doc, captions: Sequence[set[str]]) -> Iterator[Outcome]:
    """Yield candidates in which a noun of a COCO category is replaced by another category of its
    supercategory.

    All mentions of the noun are replaced, in the same number, and the articles before them are
    adapted. Nouns that are part of a compound are not replaced.

    Args:
        doc: The parsed caption.
        captions: Lower-cased words of each caption of the image.
    """
    nouns = find_category_nouns(doc)
    if not nouns:
        yield Refusal(NO_NOUN)
    for target, tokens in nouns.items():
        if not is_salient(target, captions):
            yield Refusal(NOT_SALIENT)
            continue
        reason = _explain_no_exchange(tokens)
        # Several captions together name most of what an image shows; one alone leaves things out.
        if reason is None and len(captions) == 1 and any(map(_is_added, tokens)):
            reason = BESIDE_OTHERS
        if reason is not None:
            yield Refusal(reason)
            continue
        for foil_noun in list_absent_nouns(target, captions):
            if foil_noun in MASS_NOUNS:
                continue
            foil = _replace_nouns(doc, tokens, foil_noun)
            yield build_candidate(doc.text, foil, target, foil_noun, "noun")


def _explain_no_exchange(tokens: Sequence[Token]) -> str | None:
    """Return the reason why another noun would give no grammatical or no false text; None where it
    would.
    """
    reasons = map(_explain_kept_noun, tokens)
    return next(filter(None, reasons), None)


def _explain_kept_noun(noun: Token) -> str | None:
    """Return the reason why a noun of the text cannot be exchanged; None where it can."""
    if is_denied(noun) or is_quoted(noun):
        return NOT_ASSERTED
    # "A bowl of soup", but not "a dog of his"
    if noun.lower_ in CONTAINERS and OF.matches_any(noun.children):
        return CONTAINER
    if noun.lower_ in MASS_NOUNS:
        return WITHOUT_ARTICLE
    # "Eats cake", "suit and tie"
    if SINGULAR.matches(noun) and not DETERMINER.matches_any(noun.children):
        return WITHOUT_ARTICLE
    return None


def _is_added(token: Token) -> bool:
    """Return True for a thing that stands next to others or is one of those that somebody has ("a cup
    and a fork", "a dog with a cat", "there is a dog"): the foil may name one more thing of the image.
    """
    verb = token.head
    is_object = OBJECT.matches(token) and verb.lemma_ in POSSESSION
    is_listed = matches_one_of(token, ADDED) or CONJUNCT.matches_any(token.children)
    return is_object or is_listed or EXISTENTIAL.matches_any(verb.children)


def _replace_nouns(doc: Doc, tokens: Sequence[Token], foil_noun: str) -> str:
    """Return the caption with another noun in the number and case of each token, and with adapted
    articles.
    """
    article = "an" if foil_noun[0] in VOWELS else "a"
    # Each word keeps the space behind it, so that the words join to the caption.
    words = [token.text_with_ws for token in doc]
    for token in tokens:
        noun = pluralize(foil_noun) if token.tag_ == "NNS" else foil_noun
        words[token.i] = _copy_capital(token, noun)
        # The article depends on the first letter of the new noun.
        if AFTER_ARTICLE.matches(token):
            before = token.nbor(-1)
            words[before.i] = _copy_capital(before, article)
    return "".join(words)


def _copy_capital(token: Token, word: str) -> str:
    """Return a word with the capital of the token that it replaces, and the space behind it."""
    text = capitalize(word) if token.text[0].isupper() else word
    return f"{text}{token.whitespace_}"


def build_noun_foil(
    caption: str, foil: str, target_word: str, foil_word: str
) -> Outcome:
    """Return a candidate of a caption and its foil in FOIL-it, both in lower case as in the
    released benchmark.

    In the foil every mention of the noun is replaced, and articles may change; the spans reach from
    the first to the last changed word. Pairs with other differences are refused.
    """
    candidate = build_candidate(
        caption.strip().lower(), foil.strip().lower(), target_word, foil_word, "noun"
    )
    if candidate.caption == candidate.foil:
        return Refusal("caption and foil are alike")

    # With the noun replaced and every "an" as "a", the changed parts of the two texts must be
    # equal.
    caption_part = slice_span(candidate.caption, candidate.caption_span)
    foil_part = slice_span(candidate.foil, candidate.foil_span)
    expected = caption_part.replace(target_word.lower(), foil_word.lower())
    if AN.sub("a", expected) != AN.sub("a", foil_part):
        return Refusal("caption and foil differ in more than the word")
    return candidate
