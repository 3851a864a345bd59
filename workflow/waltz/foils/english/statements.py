"""Statements with a slot for a number of things, and the questions "How many ...?" that ask for
this number.

"How many dogs are shown?" and "There are exactly 3 dogs shown." share the statement `There be _
dog(s) shown`. Source: thesis 3.3 and A.1, existence and counting.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lemminflect import getInflection
from spacy.tokens import Doc, Token

from waltz.foils.candidates import Refusal, Row
from waltz.foils.english.nouns import get_engine, pluralize, singularize
from waltz.foils.english.parsing import parse

IRREGULAR_VERBS = {"are": "is", "were": "was", "have": "has", "do": "does"}
"""Plural verbs whose singular is irregular."""

NOT_COUNTING = "the question asks for no number"

BE = ("is", "are", "was", "were")
DO = ("do", "does", "did")
HAVE = ("have", "has", "had")
MODALS = ("can", "could", "will", "would", "may", "might", "must", "should")
AUXILIARIES = frozenset((*BE, *DO, *HAVE, *MODALS))
FINITE_TAGS = ("VBP", "VBZ", "VBD", "MD")
TAGS_NOT_BEFORE_NOUN = ("IN", "TO", "EX", "MD", "VBP", ",")
PLURAL_TAGS = ("NN", "NNS", "NNP", "NNPS", "VBZ", "JJ", "VB", "FW")
"""Tags that the parser gives to plural nouns; the last four are mistakes."""
NOUN_TAGS = ("NN", "NNS", "NNP", "NNPS")
RELATIVE_TAGS = ("WDT", "WP", "WRB")
BELIEF_VERBS = ("think", "believe", "guess", "suppose", "say", "look")
ESTIMATE_WORDS = ("approximately", "approx", "roughly", "estimate")
TIME_UNITS = frozenset(
    ("seconds", "minutes", "hours", "days", "weeks", "months", "years", "times")
)
"""Measures of time; in a statement they follow all other words: "They have been open exactly 60
years".
"""
PASSING_STATE = re.compile(
    "alone|available|asleep|awake|closed|empty|here|left|missing|next|nearby|open|off|on|out|present|there|up|visible"
)
"""Words for a state that may follow the noun after "There are", as participles and prepositional
phrases may.
"""


@dataclass(frozen=True)
class Forms:
    """A word in singular and plural."""

    singular: str
    plural: str

    def select(self, number: int) -> str:
        """Return the form that agrees with a number: the singular for 1, else the plural."""
        return self.singular if number == 1 else self.plural


IS_ARE = Forms("is", "are")
NO_FORMS = Forms("", "")


@dataclass(frozen=True)
class Statement:
    """A sentence with a slot for a quantity: `opening be _ modifiers noun complement verb rest.`

    Attributes:
        opening: Words before the quantity ("There", "You see", "The man has"); empty where the
            counted things are the subject.
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
        """Return the statement that the things exist: `There is a dog.` for 1, else `There are
        dogs.`
        """
        quantity = self.choose_article() if number == 1 else ""
        return self._write(quantity, number)

    def write_negation(self, number: int) -> str:
        """Return the negation of `write_existence`: `There is no dog.` for 1, else `There are no
        dogs.`
        """
        return self._write("no", number)

    def choose_article(self) -> str:
        """Return `a` or `an`, as the noun phrase in the singular needs it; empty where there is no
        noun.
        """
        phrase = f"{self.modifiers} {self.noun.singular}".strip()
        if not phrase:
            return ""
        return str(get_engine().a(phrase)).split()[0]

    def _write(self, quantity: str, number: int) -> str:
        parts = (
            self.opening,
            self.be.select(number),
            quantity,
            self.modifiers,
            self.noun.select(number),
        )
        text = " ".join((*parts, self.complement, self.verb.select(number), self.rest))
        text = " ".join(text.split())  # empty parts leave no double spaces
        text = text.replace("an other ", "another ")
        return f"{text[0].upper()}{text[1:]}."


def get_noun_forms(noun: str, tag: str) -> Forms:
    """Return singular and plural of a noun that may have either number: "cacti", "person", "sheep".

    Args:
        noun: One word, as in its sentence.
        tag: Penn tag of the word; it decides for unknown nouns and for nouns with one form for both
            numbers.
    """
    singular = singularize(noun)
    if singular != noun:
        return Forms(singular, noun)
    return Forms(noun, noun if tag in ("NNS", "NNPS") else pluralize(noun))


def get_verb_forms(verb: str, tag: str, lemma: str) -> Forms:
    """Return singular and plural of a finite verb; past tenses (except "was") and modal verbs have
    one form for both.

    Args:
        verb: The verb, as in its sentence.
        tag: Penn tag of the verb.
        lemma: Base form of the verb.
    """
    lowered = verb.lower()
    for plural, singular in IRREGULAR_VERBS.items():
        if lowered in (plural, singular):
            return Forms(singular, plural)
    if tag not in ("VBP", "VBZ"):
        return Forms(verb, verb)
    return Forms(inflect_verb(lemma, "VBZ"), inflect_verb(lemma, "VBP"))


def inflect_verb(verb: str, tag: str) -> str:
    """Return the form of a verb with a Penn tag; a word that is not a verb stays unchanged."""
    forms = getInflection(verb, tag)
    return str(forms[0]) if forms else verb


def parse_counting_questions(
    rows: Sequence[Row],
) -> Iterator[tuple[Row, Doc | Refusal]]:
    """Yield each row with the parse of its question, in order, or with a refusal where no "how
    many" begins it.
    """
    counting_questions = [row["question"] for row in rows if _asks_how_many(row)]
    docs = parse(counting_questions)
    for row in rows:
        if _asks_how_many(row):
            yield row, next(docs)
        else:
            yield row, Refusal(NOT_COUNTING)


def _asks_how_many(row: Row) -> bool:
    return str(row["question"]).lower().startswith("how many")


def convert_question(question: Doc) -> Statement | Refusal:
    """Return the statement for whose number a question asks, or a refusal.

    "How many dogs do you see?" becomes "You see _ dogs."; "How many dogs are shown?" becomes "There
    are _ dogs shown.". In "How many cars are red?", "How many people wear hats?" and "How many dogs
    can be seen?" the counted things stay the subject.
    """
    words = [token for token in question if not token.is_space]
    # The parser makes tokens of punctuation and line breaks.
    while words and words[-1].text in (".", "?", "!"):
        words.pop()
    if [word.lower_ for word in words[:2]] != ["how", "many"]:
        return Refusal("the question does not begin with 'How many'")
    if any(word.lower_ in ESTIMATE_WORDS for word in words):
        return Refusal("the question asks for an estimate")
    if any(_opens_question(word) for word in words[2:]):
        return Refusal("there is another question in it")

    # "How many" + counted things + finite verb + the words after it.
    verb_index = _find_verb(words)
    counted = words[2:verb_index]  # all words where there is no verb
    noun = _find_noun(counted)
    if isinstance(noun, Refusal):
        return noun
    if verb_index is None:
        return _state_existence(counted, noun, IS_ARE, [])
    return _convert_predicate(counted, noun, words[verb_index], words[verb_index + 1 :])


def _opens_question(word: Token) -> bool:
    """Return True where another question or clause begins at a word."""
    if word.text in ("?", ".", ";", ","):
        return True
    if word.tag_ not in RELATIVE_TAGS:
        return False
    if word.lower_ in ("how", "what", "why", "when"):
        return True
    return word.i > 0 and word.nbor(-1).lower_ in ("and", ",")


def _find_verb(words: list[Token]) -> int | None:
    """Return the index of the finite verb of the main clause; None where there is none.

    It is the first auxiliary, or an earlier full verb that is the root of the parse.
    """
    for index, word in enumerate(words[2:], 2):
        if word.lower_ in AUXILIARIES:
            return index
        # The word directly after "how many" is counted, whatever the parser says.
        is_full_verb = word.tag_ in FINITE_TAGS and word.dep_ == "ROOT"
        if is_full_verb and index > 2:
            return index
    return None


def _find_noun(counted: list[Token]) -> Token | Refusal | None:
    """Return the noun that is counted; None where parts of something are counted ("of the dog's
    legs").
    """
    if not counted:
        return Refusal("the question does not name what it counts")
    if counted[0].lower_ == "of":
        return None
    if counted[0].lower_ in ("more", "less", "fewer"):
        return Refusal("the question compares")
    if any(_belongs_to_clause(word) for word in counted):
        return Refusal(
            "a possessor or a relative clause stands by what the question counts"
        )
    if any(word.tag_ == "CC" for word in counted):
        return Refusal("the question counts several things together")
    noun = find_counted_noun(counted)
    if noun.tag_ in ("RB", "IN", "EX"):
        return Refusal("the question does not name what it counts")
    return noun


def _belongs_to_clause(word: Token) -> bool:
    """Return True for the sign of a possessor ('s), and for a word that begins a relative clause."""
    return word.tag_ in (*RELATIVE_TAGS, "POS") or word.lower_ == "that"


def find_counted_noun(words: list[Token], plural: bool = True) -> Token:
    """Return the noun that is counted among the words after "how many" or a numeral.

    Args:
        words: One or more tokens.
        plural: True where the noun is a plural, which tells it from the words around it.
    """
    phrase = _cut_phrase(words, plural)
    if plural:
        # The last of the first plurals in a row: "legs" in "table legs of the dogs".
        plurals = [index for index, word in enumerate(phrase) if _is_plural(word)]
        for index in plurals:
            if index + 1 not in plurals:
                return phrase[index]

    # The last of the first nouns in a row, but "people" in "people skiing".
    nouns = [index for index, word in enumerate(phrase) if word.tag_ in NOUN_TAGS]
    for index in nouns:
        if index + 1 not in nouns or _names_action(phrase[index + 1]):
            return phrase[index]
    return phrase[-1] if plural else phrase[0]


def _cut_phrase(words: list[Token], plural: bool) -> list[Token]:
    """Return the words up to the first word that cannot precede the noun; the first of all words is
    always kept.
    """
    for index, word in enumerate(words):
        if index > 0 and _ends_phrase(word, plural):
            return words[:index]
    return words


def _is_plural(word: Token) -> bool:
    return word.tag_ in PLURAL_TAGS and singularize(word.text) != word.text


def _ends_phrase(word: Token, plural: bool) -> bool:
    if word.tag_ in TAGS_NOT_BEFORE_NOUN:
        return True
    # A regular plural can have the tag of a verb in -s by mistake, so that only auxiliaries are
    # certain.
    return word.tag_ == "VBZ" and (not plural or word.lower_ in AUXILIARIES)


def _names_action(word: Token) -> bool:
    return bool(
        word.lower_ == "present" or (word.tag_ == "NN" and word.lower_.endswith("ing"))
    )


def _convert_predicate(
    counted: list[Token], noun: Token | None, verb: Token, tail: list[Token]
) -> Statement | Refusal:
    """Return the statement of a question, or a refusal, from its finite verb and the words after
    it.

    Args:
        counted: Words between "how many" and the verb.
        noun: The counted noun among them.
        tail: Words after the verb.
    """
    auxiliary = verb.lower_
    # "How many people swim?": nothing follows, so the counted things are the subject.
    if not tail and auxiliary not in BE:
        return _state_subject(counted, noun, verb, tail)
    if auxiliary in BE:
        return _convert_be(counted, noun, verb, tail)
    # "How many dogs do you see?" has another subject; "How many dogs do not sit?" has not.
    if auxiliary in DO:
        if tail[0].lower_ in ("not", "n't"):
            return _state_subject(counted, noun, verb, tail)
        return _invert(counted, noun, verb, tail, _find_main_verb(tail, ("VB", "VBP")))

    # "How many dogs can he see?" has another subject; "How many dogs can be seen?" has not.
    has_other_subject = auxiliary in (*HAVE, *MODALS) and _opens_subject(tail[0])
    if not has_other_subject:
        return _state_subject(counted, noun, verb, tail)
    if auxiliary in MODALS:
        return _invert(counted, noun, verb, tail, _find_main_verb(tail, ("VB",)))
    main = _find_main_verb(tail, ("VB", "VBN", "VBD"))
    if main is not None:
        return _invert(counted, noun, verb, tail, main)
    if auxiliary == "has":
        return Refusal("the question can be read in two ways")
    return _state_subject(counted, noun, verb, tail)


def _convert_be(
    counted: list[Token], noun: Token | None, verb: Token, tail: list[Token]
) -> Statement | Refusal:
    """Return the statement of a question whose finite verb is a form of `be`, or a refusal."""
    be = get_verb_forms(verb.text, verb.tag_, "be")
    if not tail:
        return _state_existence(counted, noun, be, [])  # "How many dogs are?"
    first = tail[0]
    if first.lower_ == "there":
        return _state_existence(counted, noun, be, tail[1:])

    # "How many dogs is the man walking?": another subject and a participle follow.
    main = _find_main_verb(tail, ("VBG", "VBN")) if _opens_subject(first) else None
    if main is not None:
        is_definite = first.tag_ in ("DT", "PRP$") and tail[main].tag_ == "VBG"
        if is_definite or tail[main].dep_ == "ROOT":
            return _invert(counted, noun, verb, tail, main)
    if main is not None or first.tag_ == "PRP":
        return Refusal("the question can be read in two ways")

    if _describes_state(tail):
        return _state_existence(counted, noun, be, tail)
    if any(word.tag_ in (*NOUN_TAGS, "DT") for word in tail[:2]):
        return Refusal("the question equates what it counts with something")
    return _state_subject(counted, noun, verb, tail)  # "How many cars are red?"


def _opens_subject(word: Token) -> bool:
    return word.tag_ in ("PRP", "DT", "PRP$", *NOUN_TAGS)


def _find_main_verb(tail: list[Token], tags: tuple[str, ...]) -> int | None:
    """Return the index of the full verb after a subject: the root of the parse, else the first word
    with such a tag.
    """
    indices = [
        index for index, word in enumerate(tail) if index > 0 and word.tag_ in tags
    ]
    for index in indices:
        if tail[index].dep_ == "ROOT":
            return index
    return indices[0] if indices else None


def _describes_state(tail: list[Token]) -> bool:
    """Return True for words that may follow "There are dogs": a place, a participle, or a passing
    state.
    """
    # Adverbs before the first word that counts are skipped, but for those that are a state
    # themselves ("outside").
    words = (
        word
        for word in tail
        if word.tag_ != "RB" or PASSING_STATE.fullmatch(word.lower_)
    )
    first = next(words, tail[-1])
    if first.tag_ in ("IN", "TO", "VBG", "VBN", "RP"):
        return True
    return PASSING_STATE.fullmatch(first.lower_) is not None


def _state_existence(
    counted: list[Token], noun: Token | None, be: Forms, tail: list[Token]
) -> Statement:
    return Statement(
        "there", be, *_split_phrase(counted, noun), NO_FORMS, join_tokens(tail)
    )


def _state_subject(
    counted: list[Token], noun: Token | None, verb: Token, tail: list[Token]
) -> Statement:
    forms = get_verb_forms(verb.text, verb.tag_, verb.lemma_)
    rest = join_tokens(tail)
    if rest.startswith("n't"):
        rest = "not" + rest[3:]
    return Statement("", NO_FORMS, *_split_phrase(counted, noun), forms, rest)


def _invert(
    counted: list[Token],
    noun: Token | None,
    verb: Token,
    tail: list[Token],
    main: int | None,
) -> Statement | Refusal:
    """Return the statement of a question with another subject: "do you see" becomes "You see _
    dogs.".

    The counted things follow the full verb, or a preposition without an object ("He plays with _
    dogs.").

    Args:
        tail: Words after the auxiliary `verb`: subject, full verb, all other words.
        main: Index of the full verb in `tail`.
    """
    if not main:
        return Refusal("the question has no full verb")
    # tail = subject + full verb + rest
    subject = tail[:main]
    full_verb = tail[main]
    rest = tail[main + 1 :]
    # "How many dogs do you think are shown?" asks for a belief about the image.
    has_second_verb = any(word.tag_ in FINITE_TAGS for word in rest)
    if has_second_verb and full_verb.lemma_ in BELIEF_VERBS:
        return Refusal("the question asks for a belief")

    words = [join_tokens(subject), *_inflect_after(verb.lower_, full_verb)]
    # "How many dogs does he play with?" becomes "He plays with _ dogs."
    if full_verb.lemma_ != "have" and rest and _is_preposition_alone(rest[0]):
        words.append(rest.pop(0).text)
    # "They have been open exactly 60 years.": measures of time stand at the end.
    if noun is not None and noun.lower_ in TIME_UNITS:
        words.append(join_tokens(rest))
        rest = []
    opening = " ".join(words)
    return Statement(
        opening, NO_FORMS, *_split_phrase(counted, noun), NO_FORMS, join_tokens(rest)
    )


def _is_preposition_alone(word: Token) -> bool:
    """Return True for a preposition or particle that no object follows."""
    if word.tag_ not in ("IN", "RP", "TO"):
        return False
    return not any(child.dep_ == "pobj" and child.i > word.i for child in word.children)


def _inflect_after(auxiliary: str, verb: Token) -> list[str]:
    """Return the verb of the statement: "do you see" gives `see`, "does he hold" `holds`, "can we
    see" `can see`.
    """
    tag = {"do": "VBP", "does": "VBZ", "did": "VBD"}.get(auxiliary)
    if tag is None:
        return [auxiliary, verb.text]
    return [inflect_verb(verb.lower_, tag)]


def _split_phrase(counted: list[Token], noun: Token | None) -> tuple[str, Forms, str]:
    """Split the counted words into modifiers, the noun in both numbers, and its complement."""
    if noun is None:
        return "", NO_FORMS, join_tokens(counted)
    index = counted.index(noun)
    modifiers = join_tokens(counted[:index])
    complement = join_tokens(counted[index + 1 :])
    return modifiers, get_noun_forms(noun.text, noun.tag_), complement


def join_tokens(words: list[Token]) -> str:
    """Return the text from the first to the last token of a list of one parse; empty for an empty
    list.
    """
    if not words:
        return ""
    return str(words[0].doc[words[0].i : words[-1].i + 1].text)
