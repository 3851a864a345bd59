"""Statements about a number of things that is open: written with any number, or as existing or not.

"How many dogs are shown?" and "There are exactly 3 dogs shown." both hold the statement `There be _ dog(s) shown`.
Thesis 3.3 and A.1: existence and counting.
"""

from dataclasses import dataclass

import inflect
from lemminflect import getInflection

from waltz.foils.english.nouns import pluralise, singularise

_ENGINE = inflect.engine()

IRREGULAR_VERBS = {"are": "is", "were": "was", "have": "has", "do": "does"}
"""Plural verbs whose singular is no regular form."""


@dataclass(frozen=True)
class Forms:
    """A word in both numbers."""

    singular: str
    plural: str

    def select(self, number: int) -> str:
        """Return the form that agrees with a number: the singular for 1 only."""
        return self.singular if number == 1 else self.plural


IS_ARE = Forms("is", "are")
NO_FORMS = Forms("", "")


@dataclass(frozen=True)
class Statement:
    """A sentence with a slot for a quantity: `opening be _ modifiers noun complement verb rest.`

    Attributes:
        opening: Words before the quantity ("There", "You see", "The man has"); empty where the counted things
            are the subject.
        be: Verb between opening and quantity that agrees with the number, as after "There".
        modifiers: Words between quantity and noun.
        noun: The counted things; empty in "2 of the dog's legs".
        complement: Words that belong to the noun and follow it ("of pizza").
        verb: Verb of which the counted things are the subject.
        rest: All words that follow.
    """

    opening: str
    be: Forms
    modifiers: str
    noun: Forms
    complement: str
    verb: Forms
    rest: str

    def write_count(self, number: int, adverb: str = "exactly") -> str:
        """Return `There are exactly 3 dogs shown.` or, for 1, `There is exactly 1 dog shown.`"""
        return self._write(f"{adverb} {number}", number)

    def write_existence(self, number: int) -> str:
        """Return the statement that such things exist: `There is a dog.` for 1, else `There are dogs.`"""
        return self._write(self.choose_article() if number == 1 else "", number)

    def write_negation(self, number: int) -> str:
        """Return the negation of `write_existence`: `There is no dog.` for 1, else `There are no dogs.`"""
        return self._write("no", number)

    def choose_article(self) -> str:
        """Return `a` or `an`, as the singular needs it; empty where no noun follows."""
        phrase = f"{self.modifiers} {self.noun.singular}".strip()
        return str(_ENGINE.a(phrase)).split()[0] if phrase else ""

    def _write(self, quantity: str, number: int) -> str:
        parts = (self.opening, self.be.select(number), quantity, self.modifiers, self.noun.select(number))
        text = " ".join(" ".join((*parts, self.complement, self.verb.select(number), self.rest)).split())
        text = text.replace("an other ", "another ")
        return f"{text[0].upper()}{text[1:]}."


def get_noun_forms(noun: str, tag: str) -> Forms:
    """Return both numbers of a noun that may be in either: "cacti", "person", "sheep".

    Args:
        noun: One word, as its sentence has it.
        tag: Its Penn tag, which decides for nouns that are alike in both numbers or unknown.
    """
    singular = singularise(noun)
    if singular != noun:
        return Forms(singular, noun)
    return Forms(noun, noun if tag in ("NNS", "NNPS") else pluralise(noun))


def get_verb_forms(verb: str, tag: str, lemma: str) -> Forms:
    """Return both numbers of a finite verb; past tenses (but "was") and modal verbs have one form for both.

    Args:
        verb: The verb as its sentence has it.
        tag: Its Penn tag.
        lemma: Its base form.
    """
    lowered = verb.lower()
    for plural, singular in IRREGULAR_VERBS.items():
        if lowered in (plural, singular):
            return Forms(singular, plural)
    if tag not in ("VBP", "VBZ"):
        return Forms(verb, verb)
    return Forms(inflect_verb(lemma, "VBZ"), inflect_verb(lemma, "VBP"))


def inflect_verb(verb: str, tag: str) -> str:
    """Return a form of a verb by its Penn tag; a word that is no verb unchanged."""
    forms = getInflection(verb, tag)
    return str(forms[0]) if forms else verb
