"""Pronouns of a caption that refer to one of its noun phrases, and their forms in the other number."""

from collections.abc import Iterator, Sequence

from spacy.tokens import Token

from waltz.foils.english.nouns import Number, list_numbers, singularise

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
"""Nouns that "it" does not refer to."""
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
"""Plural pronoun: singular for things and where the gender is unknown, male, female."""


def find_anaphors(noun: Token, number: Number, nouns: Sequence[Token]) -> Iterator[tuple[Token, str]]:
    """Yield the pronouns that refer to a noun, each with its form in a number.

    Args:
        noun: Head of a noun phrase of the other number.
        number: The number of the forms.
        nouns: Heads of all noun phrases of the caption, in order.
    Yields:
        Later pronouns whose first fitting noun is this one: of their number and gender, not the subject of the verb
        that they are the object of, and not the noun whose modifier they stand in.
    """
    forms = PLURAL_FORMS if number == "pl" else SINGULAR_FORMS
    for token in noun.doc[noun.i + 1 :]:
        if token.lower_ in forms and token.pos_ == "PRON" and _find_antecedent(token, nouns) == noun:
            yield token, _pluralise(token) if number == "pl" else _singularise(token, noun)


def _pluralise(pronoun: Token) -> str:
    is_object = pronoun.tag_ == "PRP" and pronoun.dep_ not in SUBJECTS and pronoun.lower_ in {"it", "her"}
    return "them" if is_object else PLURAL_FORMS[pronoun.lower_]


def _singularise(pronoun: Token, noun: Token) -> str:
    word = singularise(noun.lower_)
    return SINGULAR_FORMS[pronoun.lower_][1 if word in MALE else 2 if word in FEMALE else 0]


def _find_antecedent(pronoun: Token, nouns: Sequence[Token]) -> Token | None:
    return next((noun for noun in nouns if noun.i < pronoun.i and _can_refer(pronoun, noun)), None)


def _can_refer(pronoun: Token, noun: Token) -> bool:
    word = pronoun.lower_
    if ("pl" if word in SINGULAR_FORMS else "sg") not in list_numbers(noun):
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
