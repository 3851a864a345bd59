"""Pronouns of a caption that take up one of its noun phrases, and their forms in the other number."""

from collections.abc import Iterator, Sequence

from spacy.tokens import Token

from waltz.foils.english.nouns import Number, numbers, singular_of

MALE = {
    "boy", "brother", "businessman", "dad", "father", "fireman", "gentleman", "grandfather", "groom", "guy", "husband",
    "male", "man", "policeman", "son",
}  # fmt: skip
FEMALE = {
    "bride", "daughter", "female", "girl", "grandmother", "lady", "mom", "mother", "sister", "wife", "woman",
}  # fmt: skip
PEOPLE = MALE | FEMALE | {
    "adult", "artist", "baby", "baseman", "batter", "bicyclist", "biker", "boarder", "catcher", "chef", "child", "cook",
    "couple", "cyclist", "driver", "guest", "kid", "motorcyclist", "officer", "passenger", "people", "person",
    "pitcher", "player", "rider", "skateboarder", "skater", "skier", "snowboarder", "student", "surfer", "teenager",
    "toddler", "umpire", "worker",
}  # fmt: skip
"""Nouns that "it" does not take up."""
SUBJECTS = {"nsubj", "nsubjpass"}
PLURAL_FORMS = {
    "he": "they", "she": "they", "it": "they", "him": "them", "himself": "themselves", "herself": "themselves",
    "itself": "themselves", "his": "their", "her": "their", "its": "their",
}  # fmt: skip
SINGULAR_FORMS = {
    "they": ("it", "he", "she"),
    "them": ("it", "him", "her"),
    "themselves": ("itself", "himself", "herself"),
    "their": ("its", "his", "her"),
}
"""Plural pronoun: singular for things and where no gender is told, male, female."""


def anaphors(noun: Token, number: Number, nouns: Sequence[Token]) -> Iterator[tuple[Token, str]]:
    """The pronouns that take up a noun, each with its form in the given number.

    Args:
        noun: Head of a noun phrase that has the other number.
        number: The number that the pronouns shall have.
        nouns: Heads of all noun phrases of the caption, in order.
    Yields:
        Later pronouns whose first fitting noun is this one: of their number and gender, not the subject of the verb
        that they are the object of, and not the noun whose modifier they stand in.
    """
    forms = PLURAL_FORMS if number == "pl" else SINGULAR_FORMS
    for token in noun.doc[noun.i + 1 :]:
        if token.lower_ in forms and token.pos_ == "PRON" and _antecedent(token, nouns) == noun:
            yield token, _plural(token) if number == "pl" else _singular(token, noun)


def _plural(pronoun: Token) -> str:
    is_object = pronoun.tag_ == "PRP" and pronoun.dep_ not in SUBJECTS and pronoun.lower_ in {"it", "her"}
    return "them" if is_object else PLURAL_FORMS[pronoun.lower_]


def _singular(pronoun: Token, noun: Token) -> str:
    word = singular_of(noun.lower_)
    return SINGULAR_FORMS[pronoun.lower_][1 if word in MALE else 2 if word in FEMALE else 0]


def _antecedent(pronoun: Token, nouns: Sequence[Token]) -> Token | None:
    return next((noun for noun in nouns if noun.i < pronoun.i and _fits(noun, pronoun)), None)


def _fits(noun: Token, pronoun: Token) -> bool:
    word = pronoun.lower_
    if ("pl" if word in SINGULAR_FORMS else "sg") not in numbers(noun):
        return False
    if pronoun.tag_ == "PRP" and not word.endswith(("self", "selves")):
        if noun.dep_ in SUBJECTS and pronoun.dep_ == "dobj" and pronoun.head == noun.head:
            return False
        if pronoun.dep_ == "pobj" and noun.is_ancestor(pronoun) and pronoun.head.head == noun:
            return False
    if word in SINGULAR_FORMS:
        return True
    if word in {"it", "its", "itself"}:
        return noun.lower_ not in PEOPLE
    return noun.lower_ not in (MALE if word in {"she", "her", "herself"} else FEMALE)
