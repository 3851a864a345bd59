"""Existence: statements that things exist, or not, from "how many" questions with a number (thesis 3.3, A.1).

Without such questions, statements are made of COCO captions: things that several captions of an image mention exist,
and others of their kind that no caption mentions do not, so far as the captions tell.
"""

from collections.abc import Iterator, Sequence

from spacy.tokens import Doc

from waltz.foils.candidates import Candidate, MakerOptions, Outcome, Refusal, Row, SourceOutcomes, build_candidate
from waltz.foils.english.coco_nouns import (
    NO_NOUN,
    NOT_SALIENT,
    find_category_nouns,
    is_salient,
    list_absent_nouns,
    list_words,
)
from waltz.foils.english.nouns import parse_number, pluralise
from waltz.foils.english.parsing import parse_captions
from waltz.foils.english.statements import (
    IS_ARE,
    NO_FORMS,
    TIME_UNITS,
    Forms,
    Statement,
    convert_question,
    parse_counting_questions,
)

STATED = "an earlier caption of the image mentions the noun"


def build_candidates(rows: Sequence[Row], _: MakerOptions, __: str) -> SourceOutcomes:
    """Yield a candidate for each Visual7W question that is answered by a number, or those of each COCO caption."""
    if rows and "caption" in rows[0]:
        yield from _build_of_captions(rows)
        return
    for row, question in parse_counting_questions(rows):
        if isinstance(question, Refusal):
            yield row, question
        else:
            yield from ((row, outcome) for outcome in build_existence_foils(question, row["answer"] or ""))


def _build_of_captions(rows: Sequence[Row]) -> SourceOutcomes:
    """Yield the statements of each image by its captions, each statement once.

    A thing that exists belongs to the first caption that mentions it. Those that do not are shared out among all
    captions of the image, so that a selection of one candidate a caption can have several.
    """
    images: dict[str, list[tuple[Row, Doc]]] = {}
    for row, doc in zip(rows, parse_captions(row["caption"] for row in rows), strict=True):
        images.setdefault(row["image"], []).append((row, doc))
    for captions in images.values():
        words = [list_words(doc) for _, doc in captions]
        stated: set[str] = set()
        denied: dict[str, int] = {}
        for row, doc in captions:
            nouns = find_category_nouns(doc)
            if not nouns:
                yield row, Refusal(NO_NOUN)
            for noun, tokens in nouns.items():
                if not is_salient(noun, words):
                    yield row, Refusal(NOT_SALIENT)
                elif noun in stated:
                    yield row, Refusal(STATED)
                else:
                    number = 2 if tokens[0].tag_ == "NNS" else 1
                    stated.add(noun)
                    denied |= {other: number for other in list_absent_nouns(noun, words) if other not in denied}
                    yield row, build_category_statement(noun, number, True)
        for index, (noun, number) in enumerate(denied.items()):
            yield captions[index % len(captions)][0], build_category_statement(noun, number, False)


def build_category_statement(noun: str, number: int, exists: bool) -> Candidate:
    """Return the statement that there is a thing ("There is a dog."), with its negation; the false one is the foil.

    The exchanged phrases hold the noun, so that balancing them lets no noun tell whether it exists.

    Args:
        noun: The singular.
        number: 1 for the singular in both texts, 2 for the plural.
    """
    statement = Statement("there", IS_ARE, "", Forms(noun, pluralise(noun)), "", NO_FORMS, "")
    positive, negative = statement.write_existence(number), statement.write_negation(number)
    phrase = statement.noun.select(number)
    there_is, there_is_no = f"{statement.choose_article()} {phrase}" if number == 1 else phrase, f"no {phrase}"
    if exists:
        return build_candidate(positive, negative, there_is, there_is_no, "something-to-zero")
    return build_candidate(negative, positive, there_is_no, there_is, "zero-to-something")


def build_existence_foils(question: Doc, answer: str) -> Iterator[Outcome]:
    """Yield the statement that a question and its answer make, with its negation; or a refusal.

    For 0 "There are no animals shown." comes with "There are animals shown."; for 1 "There is an animal shown." with
    "There is no animal shown."; for more the plural of that.

    Args:
        question: Parse of the question ("How many animals are shown?").
        answer: A numeral, in digits or letters, with or without a full stop ("0.", "Two").
    """
    number, statement = parse_number(answer), convert_question(question)
    if number is None:
        yield Refusal("the answer is no numeral")
    elif isinstance(statement, Refusal):
        yield statement
    elif not statement.noun.plural:
        yield Refusal("the question counts parts of something")
    elif statement.noun.plural.lower() in TIME_UNITS:
        yield Refusal("the question measures time")
    elif not statement.be.plural and not statement.opening and "not" in statement.rest.split():
        yield Refusal("the question is negated")
    else:
        yield build_negation(statement, number, number > 0)


def build_negation(statement: Statement, number: int, exists: bool) -> Candidate:
    """Return the candidate whose caption says that there are things, or none, and whose foil says the contrary.

    Args:
        number: The number that noun and verb agree with, in both texts.
        exists: True where the caption says that there are such things.
    """
    positive, negative = statement.write_existence(number), statement.write_negation(number)
    quantity = statement.choose_article() if number == 1 else ()
    if exists:
        return build_candidate(positive, negative, quantity, "no", "something-to-zero")
    return build_candidate(negative, positive, "no", quantity, "zero-to-something")
