"""Statements about a number of things that is open, and the questions "How many ...?" that ask for it.

"How many dogs are shown?" and "There are exactly 3 dogs shown." both hold the statement `There be _ dog(s) shown`.
Source: thesis 3.3 and A.1, existence and counting.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lemminflect import getInflection
from spacy.tokens import Doc, Token

from waltz.foils.candidates import Refusal, Row
from waltz.foils.english.nouns import get_engine, pluralise, singularise
from waltz.foils.english.parsing import parse

IRREGULAR_VERBS = {"are": "is", "were": "was", "have": "has", "do": "does"}
"""Plural verbs whose singular is no regular form."""

NOT_COUNTING = "the question asks for no number"

BE = ("is", "are", "was", "were")
DO = ("do", "does", "did")
HAVE = ("have", "has", "had")
MODALS = ("can", "could", "will", "would", "may", "might", "must", "should")
AUXILIARIES = frozenset((*BE, *DO, *HAVE, *MODALS))
FINITE_TAGS = ("VBP", "VBZ", "VBD", "MD")
TAGS_NOT_BEFORE_NOUN = ("IN", "TO", "EX", "MD", "VBP", ",")
PLURAL_TAGS = ("NN", "NNS", "NNP", "NNPS", "VBZ", "JJ", "VB", "FW")
"""Tags that a parser gives to plural nouns, the last four by mistake."""
NOUN_TAGS = ("NN", "NNS", "NNP", "NNPS")
RELATIVE_TAGS = ("WDT", "WP", "WRB")
BELIEF_VERBS = ("think", "believe", "guess", "suppose", "say", "look")
ESTIMATE_WORDS = ("approximately", "approx", "roughly", "estimate")
TIME_UNITS = frozenset(("seconds", "minutes", "hours", "days", "weeks", "months", "years", "times"))
"""Measures of time, which follow everything else: "They have been open exactly 60 years"."""
PASSING_STATE = re.compile(
    "alone|available|asleep|awake|closed|empty|here|left|missing|next|nearby|open|off|on|out|present|there|up|visible"
)
"""Words that may follow the noun after "There are", like participles and phrases with a preposition."""


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
        return str(get_engine().a(phrase)).split()[0] if phrase else ""

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


def parse_counting_questions(rows: Sequence[Row]) -> Iterator[tuple[Row, Doc | Refusal]]:
    """Yield each row with the parse of its question, in order; refused where it does not begin with "how many"."""
    is_counting = [row["question"].lower().startswith("how many") for row in rows]
    docs = parse(row["question"] for row, counts in zip(rows, is_counting, strict=True) if counts)
    for row, counts in zip(rows, is_counting, strict=True):
        yield row, next(docs) if counts else Refusal(NOT_COUNTING)


def convert_question(question: Doc) -> Statement | Refusal:
    """Return the statement whose number a question asks for, or why there is none.

    "How many dogs do you see?" becomes "You see _ dogs." and "How many dogs are shown?" "There are _ dogs shown."; of
    "How many cars are red?", "How many people wear hats?" and "How many dogs can be seen?" the counted things stay the
    subject.
    """
    words = [token for token in question if not token.is_space]
    while words and words[-1].text in (".", "?", "!"):
        words.pop()
    if [word.lower_ for word in words[:2]] != ["how", "many"]:
        return Refusal("the question does not begin with 'How many'")
    if any(word.lower_ in ESTIMATE_WORDS for word in words):
        return Refusal("the question asks for an estimate")
    if any(
        word.text in ("?", ".", ";", ",") or (word.tag_ in RELATIVE_TAGS and _opens_question(word))
        for word in words[2:]
    ):
        return Refusal("there is another question in it")
    verb_index = _find_verb(words)
    counted = words[2 : len(words) if verb_index is None else verb_index]
    noun = _find_noun(counted)
    if isinstance(noun, Refusal):
        return noun
    if verb_index is None:
        return _state_existence(counted, noun, IS_ARE, [])
    return _convert_predicate(counted, noun, words[verb_index], words[verb_index + 1 :])


def _opens_question(word: Token) -> bool:
    return word.lower_ in ("how", "what", "why", "when") or (word.i > 0 and word.nbor(-1).lower_ in ("and", ","))


def _find_verb(words: list[Token]) -> int | None:
    """Return the index of the main clause's finite verb: the first auxiliary, or a full verb before it as root."""
    for index, word in enumerate(words[2:], 2):
        if word.lower_ in AUXILIARIES or (word.tag_ in FINITE_TAGS and index > 2 and word.dep_ == "ROOT"):
            return index
    return None


def _find_noun(counted: list[Token]) -> Token | Refusal | None:
    """Return the head of what is counted; None where it is a part of something ("of the dog's legs")."""
    if not counted:
        return Refusal("the question does not name what it counts")
    if counted[0].lower_ == "of":
        return None
    if counted[0].lower_ in ("more", "less", "fewer"):
        return Refusal("the question compares")
    if any(word.tag_ in (*RELATIVE_TAGS, "POS") or word.lower_ == "that" for word in counted):
        return Refusal("a possessor or a relative clause stands by what the question counts")
    if any(word.tag_ == "CC" for word in counted):
        return Refusal("the question counts several things together")
    noun = find_counted_noun(counted)
    return Refusal("the question does not name what it counts") if noun.tag_ in ("RB", "IN", "EX") else noun


def find_counted_noun(words: list[Token], plural: bool = True) -> Token:
    """Return the noun that is counted, among the words that follow "how many" or a numeral.

    Args:
        words: One or more tokens.
        plural: True where the noun is a plural, which distinguishes it from the words around it.
    """
    end = next((index for index, word in enumerate(words) if index and _ends_phrase(word, plural)), len(words))
    phrase = words[:end]
    if plural:
        plurals = [
            index
            for index, word in enumerate(phrase)
            if word.tag_ in PLURAL_TAGS and singularise(word.text) != word.text
        ]
        last = next((index for index in plurals if index + 1 not in plurals), None)
        if last is not None:
            return phrase[last]
    nouns = [index for index, word in enumerate(phrase) if word.tag_ in NOUN_TAGS]
    last = next((index for index in nouns if index + 1 not in nouns or _names_action(phrase[index + 1])), None)
    return phrase[-1 if plural else 0] if last is None else phrase[last]


def _ends_phrase(word: Token, plural: bool) -> bool:
    is_verb = word.tag_ == "VBZ" and (not plural or word.lower_ in AUXILIARIES)
    return bool(word.tag_ in TAGS_NOT_BEFORE_NOUN or is_verb)


def _names_action(word: Token) -> bool:
    return bool(word.lower_ == "present" or (word.tag_ == "NN" and word.lower_.endswith("ing")))


def _convert_predicate(counted: list[Token], noun: Token | None, verb: Token, tail: list[Token]) -> Statement | Refusal:
    """Return the statement of a question, from its finite verb and the words after it."""
    word = verb.lower_
    if word in BE:
        be = get_verb_forms(verb.text, verb.tag_, "be")
        if not tail:
            return _state_existence(counted, noun, be, [])
        if tail[0].lower_ == "there":
            return _state_existence(counted, noun, be, tail[1:])
        main = _find_main_verb(tail, ("VBG", "VBN")) if _opens_subject(tail[0]) else None
        definite = main is not None and tail[0].tag_ in ("DT", "PRP$") and tail[main].tag_ == "VBG"
        if main is not None and (definite or tail[main].dep_ == "ROOT"):
            return _invert(counted, noun, verb, tail, main)
        if main is not None or tail[0].tag_ == "PRP":
            return Refusal("the question can be read in two ways")
        if _describes_state(tail):
            return _state_existence(counted, noun, be, tail)
        if any(word.tag_ in (*NOUN_TAGS, "DT") for word in tail[:2]):
            return Refusal("the question equates what it counts with something")
    if tail and word in DO:
        if tail[0].lower_ in ("not", "n't"):
            return _state_subject(counted, noun, verb, tail)
        return _invert(counted, noun, verb, tail, _find_main_verb(tail, ("VB", "VBP")))
    if tail and word in (*HAVE, *MODALS) and _opens_subject(tail[0]):
        main = _find_main_verb(tail, ("VB", "VBN", "VBD") if word in HAVE else ("VB",))
        if main is not None or word in MODALS:
            return _invert(counted, noun, verb, tail, main)
        if word == "has":
            return Refusal("the question can be read in two ways")
    return _state_subject(counted, noun, verb, tail)


def _opens_subject(word: Token) -> bool:
    return word.tag_ in ("PRP", "DT", "PRP$", *NOUN_TAGS)


def _find_main_verb(tail: list[Token], tags: tuple[str, ...]) -> int | None:
    indices = [index for index, word in enumerate(tail) if index and word.tag_ in tags]
    return next((index for index in indices if tail[index].dep_ == "ROOT"), indices[0] if indices else None)


def _describes_state(tail: list[Token]) -> bool:
    """Return True where "There are dogs" may be followed by these words: a place, a participle, a passing state."""
    first = next((word for word in tail if word.tag_ != "RB" or PASSING_STATE.fullmatch(word.lower_)), tail[-1])
    return first.tag_ in ("IN", "TO", "VBG", "VBN", "RP") or bool(PASSING_STATE.fullmatch(first.lower_))


def _state_existence(counted: list[Token], noun: Token | None, be: Forms, tail: list[Token]) -> Statement:
    return Statement("there", be, *_split_phrase(counted, noun), NO_FORMS, join_tokens(tail))


def _state_subject(counted: list[Token], noun: Token | None, verb: Token, tail: list[Token]) -> Statement:
    forms = get_verb_forms(verb.text, verb.tag_, verb.lemma_)
    rest = join_tokens(tail)
    if rest.startswith("n't"):
        rest = "not" + rest[3:]
    return Statement("", NO_FORMS, *_split_phrase(counted, noun), forms, rest)


def _invert(
    counted: list[Token], noun: Token | None, verb: Token, tail: list[Token], main: int | None
) -> Statement | Refusal:
    """Return the clause with the counted things where it lacks them: after its verb, or a preposition left alone."""
    if not main:
        return Refusal("the question has no full verb")
    subject, full_verb, rest = tail[:main], tail[main], tail[main + 1 :]
    if any(word.tag_ in FINITE_TAGS for word in rest) and full_verb.lemma_ in BELIEF_VERBS:
        return Refusal("the question asks for a belief")
    words = [join_tokens(subject), *_inflect_after(verb.lower_, full_verb)]
    if (
        full_verb.lemma_ != "have"
        and rest
        and rest[0].tag_ in ("IN", "RP", "TO")
        and not any(child.dep_ == "pobj" and child.i > rest[0].i for child in rest[0].children)
    ):
        words.append(rest.pop(0).text)
    if noun is not None and noun.lower_ in TIME_UNITS:
        words, rest = [*words, join_tokens(rest)], []
    return Statement(" ".join(words), NO_FORMS, *_split_phrase(counted, noun), NO_FORMS, join_tokens(rest))


def _inflect_after(auxiliary: str, verb: Token) -> list[str]:
    """Return the verb of the statement: `do you see` gives `see`, `does he hold` `holds`, `can we see` `can see`."""
    tag = {"do": "VBP", "does": "VBZ", "did": "VBD"}.get(auxiliary)
    return [auxiliary, verb.text] if tag is None else [inflect_verb(verb.lower_, tag)]


def _split_phrase(counted: list[Token], noun: Token | None) -> tuple[str, Forms, str]:
    """Return modifiers, noun in both numbers and complement of what is counted."""
    if noun is None:
        return "", NO_FORMS, join_tokens(counted)
    index = counted.index(noun)
    return join_tokens(counted[:index]), get_noun_forms(noun.text, noun.tag_), join_tokens(counted[index + 1 :])


def join_tokens(words: list[Token]) -> str:
    """Return the text from the first to the last of some tokens of one parse."""
    return words[0].doc[words[0].i : words[-1].i + 1].text if words else ""
