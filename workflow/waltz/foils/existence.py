"""Existence: statements that things exist or do not exist, from "how many" questions (thesis 3.3,
A.1).

Without such questions, statements are built from COCO captions: things that several captions of an
image mention exist, and things of the same kind that no caption mentions are taken not to exist.
"""

from collections.abc import Callable, Iterator, Sequence

from spacy.tokens import Doc

from waltz.foils.candidates import (
    Candidate,
    MakerOptions,
    Outcome,
    Refusal,
    Row,
    SourceOutcomes,
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
from waltz.foils.english.noun_phrases import (
    NounPhrase,
    explain_rejection,
    find_noun_phrases,
)
from waltz.foils.english.nouns import (
    TENS,
    has_other_singular,
    pluralize,
    singularize,
)
from waltz.foils.english.numerals import (
    NO_COUNT_AFTER,
    NUMERAL,
    UNITS,
    is_denied,
    is_quoted,
)
from waltz.foils.english.parsing import parse_rows
from waltz.foils.english.patterns import TokenPattern
from waltz.foils.english.quantifiable.doubtful_verbs import has_doubtful_verb
from waltz.foils.english.quantifiable.quantities import LARGE_QUANTITIES
from waltz.foils.english.statements import (
    IS_ARE,
    TIME_UNITS,
    Forms,
    Statement,
    build_from_questions,
    convert_answered_question,
    get_noun_forms,
)
from waltz.sources.records import CaptionRecord, QuestionRecord

SINGULAR = TokenPattern(tags=("NN",))
PLURAL = TokenPattern(tags=("NNS",))
ARTICLE = TokenPattern(words=("a", "an"))
OF = TokenPattern(words=("of",))
# "Other items" and "the same place" name things by what the statement lacks.
UNNAMED = TokenPattern(
    words=(
        *("different", "first", "group", "last", "next", "other", "own", "same"),
        *("second", "third", "whole"),
    )
)
SIMPLE_MODIFIER = TokenPattern(tags=("JJ", "NN", "VBG", "VBN"))
DEPICTIONS = frozenset((
    "art", "cartoon", "costume", "design", "doll", "drawing", "figurine", "graffiti", "illustration", "image",
    "logo", "mural", "painting", "picture", "poster", "print", "sculpture", "sign", "statue", "sticker",
    "tattoo", "toy",
))  # fmt: skip
"""Things that show other things, which need not exist."""
LIKENESSES = frozenset((
    "absent", "as", "away", "drawn", "except", "fake", "for", "form", "former", "future", "if", "imaginary", "instead",
    "invisible", "like", "missing", "painted", "resembling", "shape", "shaped", "silhouette", "style", "than",
))  # fmt: skip
"""Words by which a caption names a thing that need not exist ("looks like a horse", "in the shape of
a fish").
"""
DEPICTION = TokenPattern(words=DEPICTIONS | LIKENESSES)
LARGE_QUANTITY = TokenPattern(words=LARGE_QUANTITIES)
AFTER_NUMERAL = TokenPattern(words=NO_COUNT_AFTER)
NO_THINGS = frozenset((
    "face", "item", "items", "object", "objects", "picture", "pictures", "places", "process", "size", "sizes", "thing",
    "things", "types", "kinds", "sorts", "directions", "expression", "smile", "pose", "poses",
    "action", "air", "amount", "angle", "area", "arrangement", "attempt", "back", "background", "bit", "black",
    "bottom", "break", "bunch", "center", "centre", "circle", "circles", "close", "collection", "color",
    "colors", "corner", "couple", "dark", "day", "deal", "direction", "distance", "edge", "end", "fashion",
    "foreground", "formation", "front", "game", "group", "hit", "hurry", "inside", "jump", "kind", "left",
    "line", "lines", "look", "lot", "lots", "manner", "match", "middle", "moment", "mood", "morning", "motion",
    "night", "number", "one", "ones", "other", "others", "outside", "pair", "part", "photo", "photograph",
    "piece", "place", "position", "preparation", "rest", "ride", "right", "row", "rows", "set", "shot", "side",
    "sides", "sort", "sunset", "swing", "time", "times", "top", "trick", "turn", "type", "variety", "view",
    "walk", "way", "while", "white",
))  # fmt: skip
"""Nouns of places in an image, of quantities, times, activities and colors, which name no thing."""
NOT_ASSERTED = "the caption does not say that there is such a thing"
UNCOUNTED = "a noun without an article or plural, which may not be countable"
NO_THING = "a noun that names no thing"
STATED = "an earlier caption of the image mentions the noun"


def build_candidates(rows: Sequence[Row], _: MakerOptions, __: str) -> SourceOutcomes:
    """Yield a candidate for each Visual7W question whose answer is a number, or the candidates of
    each COCO caption.
    """
    # A source has either captions or questions.
    yield from _build_from_captions(select_type(rows, CaptionRecord))
    questions = select_type(rows, QuestionRecord)
    yield from build_from_questions(questions, build_existence_foils)


def _build_from_captions(rows: Sequence[CaptionRecord]) -> SourceOutcomes:
    """Yield the statements that the captions of each image give, each statement once."""
    images: dict[str, list[tuple[CaptionRecord, Doc]]] = {}
    for row, doc in parse_rows(rows):
        images.setdefault(row.image, []).append((row, doc))
    # Whether a thing is mentioned is decided by all captions of its image.
    for captions in images.values():
        yield from _build_for_image(captions)


def _build_for_image(captions: Sequence[tuple[CaptionRecord, Doc]]) -> SourceOutcomes:
    """Yield the statements of the captions of one image.

    A thing that exists belongs to the first caption that mentions it. Things that do not exist are
    distributed over all captions of the image in turn, so that a selection of one candidate for
    each caption can have several of them.
    """
    words = [collect_words(doc) for _, doc in captions]
    stated: set[str] = set()
    denied: dict[str, int] = {}  # grammatical number of each thing that does not exist
    for row, doc in captions:
        # Things that exist: categories of COCO that enough captions of the image mention.
        nouns = find_category_nouns(doc)
        if not nouns:
            yield row, Refusal(NO_NOUN)
        for noun, tokens in nouns.items():
            if not is_salient(noun, words):
                yield row, Refusal(NOT_SALIENT)
                continue
            if noun in stated:
                yield row, Refusal(STATED)
                continue
            stated.add(noun)
            number = 2 if tokens[0].tag_ == "NNS" else 1
            for absent_noun in list_absent_nouns(noun, words):
                denied.setdefault(absent_noun, number)
            yield row, build_category_statement(noun, number, True)

    # Things that do not exist, in turn over the captions.
    for index, (noun, number) in enumerate(denied.items()):
        row, _ = captions[index % len(captions)]
        yield row, build_category_statement(noun, number, False)


def build_mention_foils(doc: Doc) -> Iterator[Outcome]:
    """Yield the statements that the things of a single caption exist ("There is a brown dog.") with
    their negations, or refusals.

    Things that the caption does not mention may exist, so none is stated to be absent. A singular
    noun is stated with the article that it has in the caption, which shows that it can be counted.

    Args:
        doc: The parsed caption.
    """
    phrases = list(find_noun_phrases(doc))
    if not phrases:
        yield Refusal("no noun phrase")
    stated: set[str] = set()
    for phrase in phrases:
        reason = _explain_no_statement(phrase)
        if reason is not None:
            yield Refusal(reason)
            continue
        statement = _state_phrase(phrase)
        number = 2 if phrase.head.tag_ == "NNS" else 1
        text = statement.write_negation(number)
        if text not in stated:
            stated.add(text)
            yield build_negation(statement, number, True)


def _explain_no_statement(phrase: NounPhrase) -> str | None:
    """Return the reason why a caption does not show that there is the thing of a noun phrase, or
    that it can be counted; None where it does.
    """
    for reason, applies in NO_STATEMENT:
        if applies(phrase):
            return reason
    return None


def _is_denied(phrase: NounPhrase) -> bool:
    """Return True for what is denied, quoted, or spoken of without a quantity ("without a dog")."""
    if is_denied(phrase.head) or is_quoted(phrase.head):
        return True
    return explain_rejection(phrase) is not None


def _is_depicted(phrase: NounPhrase) -> bool:
    """Return True for what is shown or only resembled ("a statue of a horse", "looks like a horse")."""
    modifiers = phrase.head.doc[phrase.start : phrase.head.i]
    return DEPICTION.matches_any((*phrase.head.ancestors, *modifiers))


def _is_uncounted(phrase: NounPhrase) -> bool:
    """Return True for a singular without an article, and for a plural with one or without a singular."""
    noun = phrase.head
    has_article = ARTICLE.matches(phrase.first_word)
    if SINGULAR.matches(noun):
        return not has_article
    if not PLURAL.matches(noun):
        return True
    # "A skateboarder doing tricks", of which the parser makes one phrase.
    if has_article:
        return True
    # "Broccoli" and "police" are tagged as plurals.
    return not has_other_singular(noun.lower_)


def _names_no_thing(phrase: NounPhrase) -> bool:
    """Return True for a noun that names no thing, or one with "of" ("a picture", "a slice of pizza")."""
    if phrase.head.lower_ in NO_THINGS or OF.matches_any(phrase.head.children):
        return True
    return _is_measure(phrase)


def _has_numbered_modifier(phrase: NounPhrase) -> bool:
    """Return True for a numeral that belongs to a modifier ("two story houses")."""
    if not NUMERAL.matches_any(phrase.determiners[-1:]):
        return False
    modifiers = phrase.words[:-1]
    return AFTER_NUMERAL.matches_any(modifiers[:1])


def _has_unclear_words(phrase: NounPhrase) -> bool:
    """Return True for words that are no plain modifiers, and near a verb that the parser misread."""
    if not SIMPLE_MODIFIER.matches_all(phrase.words[:-1]):
        return True
    return has_doubtful_verb(phrase)


def _is_named_by_contrast(phrase: NounPhrase) -> bool:
    """Return True for a thing that is named by what a statement lacks ("other items")."""
    return UNNAMED.matches_any(phrase.words[:-1])


def _is_measure(phrase: NounPhrase) -> bool:
    """Return True for a unit with a number, a decade, and a noun behind "dozen" ("30,000 feet", "in
    his forties").
    """
    if LARGE_QUANTITY.matches_any(phrase.words):
        return True
    noun = phrase.head.lower_
    if singularize(noun) in TENS:
        return True
    is_unit = noun in UNITS or pluralize(noun) in UNITS
    return is_unit and NUMERAL.matches_any(phrase.determiners)


NO_STATEMENT: tuple[tuple[str, Callable[[NounPhrase], bool]], ...] = (
    (NOT_ASSERTED, _is_denied),
    (NOT_ASSERTED, _is_depicted),
    (UNCOUNTED, _is_uncounted),
    (NO_THING, _names_no_thing),
    (UNCOUNTED, _has_numbered_modifier),
    (UNCOUNTED, _has_unclear_words),
    (NO_THING, _is_named_by_contrast),
)
"""Reasons why a phrase gives no statement, each with its condition; the first that holds decides."""


def _state_phrase(phrase: NounPhrase) -> Statement:
    """Return the statement that there is the thing of a noun phrase, without its determiners and
    numerals.
    """
    modifiers = str(phrase.head.doc[phrase.stem : phrase.head.i].text)
    # A first word that is not a name loses its capital.
    if phrase.stem == 0:
        modifiers = modifiers.lower()
    return Statement(
        opening="there",
        be=IS_ARE,
        modifiers=modifiers,
        noun=get_noun_forms(phrase.head.lower_, phrase.head.tag_),
    )


def build_category_statement(noun: str, number: int, exists: bool) -> Candidate:
    """Return a candidate of the statement that there is a thing ("There is a dog.") and its
    negation.

    The true text is the caption, the false text the foil. The exchanged phrases contain the noun,
    so that after balancing no noun reveals whether its thing exists.

    Args:
        noun: The noun in the singular.
        number: 1 for the singular in both texts, 2 for the plural.
        exists: True where the statement is the caption, False where its negation is.
    """
    forms = Forms(noun, pluralize(noun))
    statement = Statement(opening="there", be=IS_ARE, noun=forms)
    noun_form = forms.select(number)
    quantified = noun_form
    if number == 1:
        quantified = f"{statement.choose_article()} {noun_form}"
    negated = f"no {noun_form}"
    return _order_texts(statement, number, exists, quantified, negated)


def _order_texts(
    statement: Statement,
    number: int,
    exists: bool,
    quantified: str | tuple[str, ...],
    negated: str,
) -> Candidate:
    """Return a candidate of a statement that there are things and its negation; the true text is
    the caption.

    Args:
        quantified: Phrases of the statement that are exchanged.
        negated: Phrase of the negation that is exchanged.
    """
    positive = statement.write_existence(number)
    negative = statement.write_negation(number)
    if exists:
        return build_candidate(
            positive, negative, quantified, negated, "something-to-zero"
        )
    return build_candidate(negative, positive, negated, quantified, "zero-to-something")


def build_existence_foils(question: Doc, answer: str) -> Iterator[Outcome]:
    """Yield a candidate of the statement that answers a question and its negation, or a refusal.

    For the answer 0 the caption is "There are no animals shown." and the foil "There are animals
    shown."; for 1 they are "There is an animal shown." and "There is no animal shown."; for more
    the same in the plural.

    Args:
        question: Parse of the question ("How many animals are shown?").
        answer: A numeral, in digits or letters, with or without a full stop ("0.", "Two").
    """
    answered = convert_answered_question(question, answer)
    if isinstance(answered, Refusal):
        yield answered
        return
    refusal = _refuse_statement(answered.statement)
    if refusal is not None:
        yield refusal
        return
    yield build_negation(answered.statement, answered.number, answered.number > 0)


def _refuse_statement(statement: Statement) -> Refusal | None:
    """Return a refusal where no negation is false whenever the statement is true; else None."""
    plural = statement.noun.plural
    # "2 of the dog's legs": the noun is inside the phrase, so no form of it can be negated.
    if not plural:
        return Refusal("the question counts parts of something")
    if plural.lower() in TIME_UNITS:
        return Refusal("the question measures time")
    # "There are dogs not sitting" has a negation; "Dogs are not sitting" would have two.
    counted_is_subject = not statement.be.plural and not statement.opening
    if counted_is_subject and "not" in statement.rest.split():
        return Refusal("the question is negated")
    return None


def build_negation(statement: Statement, number: int, exists: bool) -> Candidate:
    """Return a candidate of a statement that there are things and its negation; the true text is
    the caption.

    Args:
        number: The grammatical number of noun and verb in both texts: 1 for the singular.
        exists: True where there are such things.
    """
    # In the plural nothing stands in the position of "no", so no phrase is exchanged for it.
    article = statement.choose_article() if number == 1 else ()
    return _order_texts(statement, number, exists, article, "no")
