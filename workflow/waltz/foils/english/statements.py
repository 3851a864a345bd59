"""Statements about a number of things, whose number is open: written with any number, or as existing or not.

"How many dogs are shown?" and "There are exactly 3 dogs shown." both hold the statement `There be _ dog(s) shown`.
Thesis 3.3 and A.1: existence and counting.
"""

from dataclasses import dataclass

import inflect
from lemminflect import getInflection

from waltz.foils.english.nouns import plural_of, singular_of

_ENGINE = inflect.engine()

AGREEING = {"are": "is", "were": "was", "have": "has", "do": "does"}
"""Plural verbs whose singular is no regular form."""


@dataclass(frozen=True)
class Forms:
    """A word in both numbers."""

    singular: str
    plural: str

    def of(self, number: int) -> str:
        """The form that goes with a number: the singular with 1 alone."""
        return self.singular if number == 1 else self.plural


IS_ARE = Forms("is", "are")
NOTHING = Forms("", "")


@dataclass(frozen=True)
class Statement:
    """A sentence with a place for a quantity: `opening be _ modifiers noun complement verb rest.`

    Attributes:
        opening: What stands before the quantity ("There", "You see", "The man has"); empty where the counted things
            are the subject.
        be: Verb that agrees with the number and stands between opening and quantity, as after "There".
        modifiers: Words between quantity and noun.
        noun: What is counted; empty in "2 of the dog's legs".
        complement: What belongs to the noun and follows it ("of pizza").
        verb: Verb of which the counted things are the subject.
        rest: All that follows.
    """

    opening: str
    be: Forms
    modifiers: str
    noun: Forms
    complement: str
    verb: Forms
    rest: str

    def counting(self, number: int, adverb: str = "exactly") -> str:
        """`There are exactly 3 dogs shown.` or, for 1, `There is exactly 1 dog shown.`"""
        return self._written(f"{adverb} {number}", number)

    def existing(self, number: int) -> str:
        """That there are such things, of a number that is not given: `There is a dog.` for 1, else `There are dogs.`"""
        return self._written(self.article() if number == 1 else "", number)

    def missing(self, number: int) -> str:
        """The negation of `existing`: `There is no dog.` for 1, else `There are no dogs.`"""
        return self._written("no", number)

    def article(self) -> str:
        """`a` or `an`, as the singular needs it; empty where no noun follows."""
        phrase = f"{self.modifiers} {self.noun.singular}".strip()
        return str(_ENGINE.a(phrase)).split()[0] if phrase else ""

    def _written(self, quantity: str, number: int) -> str:
        parts = (self.opening, self.be.of(number), quantity, self.modifiers, self.noun.of(number))
        words = " ".join(" ".join((*parts, self.complement, self.verb.of(number), self.rest)).split())
        words = words.replace("an other ", "another ")
        return f"{words[0].upper()}{words[1:]}."


def noun_forms(noun: str, tag: str) -> Forms:
    """Both numbers of a noun that may stand in either: "cacti", "person", "sheep".

    Args:
        noun: One word, as it stands in its sentence.
        tag: Its Penn tag, which decides for nouns that are alike in both numbers or unknown.
    """
    one = singular_of(noun)
    if one != noun:
        return Forms(one, noun)
    return Forms(noun, noun if tag in ("NNS", "NNPS") else plural_of(noun))


def verb_forms(verb: str, tag: str, lemma: str) -> Forms:
    """Both numbers of a finite verb; past tenses (but "was") and modal verbs have one form for both.

    Args:
        verb: As it stands in its sentence.
        tag: Its Penn tag.
        lemma: Its base form.
    """
    lowered = verb.lower()
    for many, one in AGREEING.items():
        if lowered in (many, one):
            return Forms(one, many)
    if tag not in ("VBP", "VBZ"):
        return Forms(verb, verb)
    return Forms(inflected(lemma, "VBZ"), inflected(lemma, "VBP"))


def inflected(verb: str, tag: str) -> str:
    """A form of a verb by its Penn tag; of a word that is no verb, the word."""
    found = getInflection(verb, tag)
    return str(found[0]) if found else verb
