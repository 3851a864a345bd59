"""Statements with a slot for a number of things, and the questions "How many ...?" that ask for
this number.

"How many dogs are shown?" and "There are exactly 3 dogs shown." share the statement `There be _
dog(s) shown`. Source: thesis 3.3 and A.1, existence and counting.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile, groupby, takewhile
from operator import itemgetter

from spacy.tokens import Doc, Token

from waltz.foils.candidates import Outcome, Refusal, SourceOutcomes, attach_row
from waltz.foils.english.nouns import (
    add_article,
    has_other_singular,
    parse_number,
    pluralize,
    singularize,
)
from waltz.foils.english.parsing import parse
from waltz.foils.english.patterns import TokenPattern, matches_one_of
from waltz.foils.english.sentences import write_sentence
from waltz.foils.english.verbs import inflect_verb
from waltz.sources.records import QuestionRecord

AN_OTHER = re.compile(r"\b(an) (other )", re.IGNORECASE)

NOT_COUNTING = "the question asks for no number"
NOTHING_COUNTED = "the question does not name what it counts"
TWO_READINGS = "the question can be read in two ways"

BE = ("is", "are", "was", "were")
DO_TAGS = {"do": "VBP", "does": "VBZ", "did": "VBD"}
"""Penn tag of each form of `do`, which the full verb of the statement takes over."""
DO = tuple(DO_TAGS)
HAVE = ("have", "has", "had")
MODALS = ("can", "could", "will", "would", "may", "might", "must", "should")
AUXILIARIES = frozenset((*BE, *DO, *HAVE, *MODALS))
FINITE_TAGS = ("VBP", "VBZ", "VBD", "MD")
NOT_BEFORE_NOUN = TokenPattern(tags=("IN", "TO", "EX", "MD", "VBP", ","))
VERB_IN_S = TokenPattern(tags=("VBZ",))
AUXILIARY_IN_S = TokenPattern(tags=("VBZ",), words=AUXILIARIES)
PLURAL_TAGS = ("NN", "NNS", "NNP", "NNPS", "VBZ", "JJ", "VB", "FW")
"""Tags that the parser gives to plural nouns; the last four are mistakes."""
NOUN_TAGS = ("NN", "NNS", "NNP", "NNPS")
RELATIVE_TAGS = ("WDT", "WP", "WRB")
BELIEF_VERBS = ("think", "believe", "guess", "suppose", "say", "look")
# "Approximately how many people are there?" has no exact answer.
ESTIMATE = TokenPattern(words=("approximately", "approx", "roughly", "estimate"))
FINITE_VERB = TokenPattern(tags=FINITE_TAGS)
ROOT = TokenPattern(relations=("ROOT",))
# Full verb of the main clause: "wear" in "How many people wear hats?".
ROOT_VERB = TokenPattern(tags=FINITE_TAGS, relations=("ROOT",))
NOUN = TokenPattern(tags=NOUN_TAGS)
SUBJECT_START = TokenPattern(tags=("PRP", "DT", "PRP$", *NOUN_TAGS))
"""First word of a subject that is not the counted things ("you", "the man")."""
# "How many dogs are the animals?" equates two things.
EQUATED = TokenPattern(tags=(*NOUN_TAGS, "DT"))
PREPOSITION = TokenPattern(tags=("IN", "RP", "TO"))
# Object of a preposition: "man" in "with the man".
OBJECT = TokenPattern(relations=("pobj",))
NOT = TokenPattern(words=("not", "n't"))

FINAL_MARK = TokenPattern(words=(".", "?", "!"))
CLAUSE_STARTS = (
    TokenPattern(words=("?", ".", ";", ",")),
    TokenPattern(tags=RELATIVE_TAGS, words=("how", "what", "why", "when")),
    # "and who is sitting": any relative word after a conjunction or comma.
    TokenPattern(tags=RELATIVE_TAGS, before=TokenPattern(words=("and", ","))),
)
"""Words with which another question or clause begins."""
CLAUSE_IN_NOUN = "a possessor or a relative clause stands by what the question counts"
REFUSED_WORDS = (
    (TokenPattern(tags=(*RELATIVE_TAGS, "POS")), CLAUSE_IN_NOUN),
    (TokenPattern(words=("that",)), CLAUSE_IN_NOUN),
    (TokenPattern(tags=("CC",)), "the question counts several things together"),
)
"""Words that must not be among the counted words, each with the reason for a refusal."""
MAIN_VERB_TAGS = {
    **dict.fromkeys(DO, ("VB", "VBP")),
    **dict.fromkeys(MODALS, ("VB",)),
    **dict.fromkeys(HAVE, ("VB", "VBN", "VBD")),
}
"""Tags of the full verb that an auxiliary precedes, with another subject between them."""
TIME_UNITS = frozenset(
    ("seconds", "minutes", "hours", "days", "weeks", "months", "years", "times")
)
"""Measures of time; in a statement they follow all other words: "They have been open exactly 60
years".
"""
PASSING_STATES = frozenset((
    "alone", "asleep", "available", "awake", "closed", "empty", "here", "left", "missing", "nearby", "next", "off",
    "on", "open", "out", "present", "there", "up", "visible",
))  # fmt: skip
STATES = (
    # First word of a place or a participle.
    TokenPattern(tags=("IN", "TO", "VBG", "VBN", "RP")),
    TokenPattern(words=PASSING_STATES),
)
"""First word of a state that may follow the noun after "There are dogs"."""
# "currently", which is no state itself.
MERE_ADVERB = TokenPattern(tags=("RB",), excluded_words=PASSING_STATES)


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
IRREGULAR_VERBS = (
    IS_ARE,
    Forms("was", "were"),
    Forms("has", "have"),
    Forms("does", "do"),
)
IRREGULAR_FORMS = {
    **{verb.singular: verb for verb in IRREGULAR_VERBS},
    **{verb.plural: verb for verb in IRREGULAR_VERBS},
}
"""Irregular verbs by each of their forms."""


@dataclass(frozen=True, kw_only=True)
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

    opening: str = ""
    be: Forms = NO_FORMS
    modifiers: str = ""
    noun: Forms = NO_FORMS
    complement: str = ""
    verb: Forms = NO_FORMS
    rest: str = ""

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
        return add_article(phrase).split()[0]

    def _write(self, quantity: str, number: int) -> str:
        sentence = write_sentence(
            self.opening,
            self.be.select(number),
            quantity,
            self.modifiers,
            self.noun.select(number),
            self.complement,
            self.verb.select(number),
            self.rest,
        )
        return AN_OTHER.sub(r"\1\2", sentence)  # "another dog"


@dataclass(frozen=True)
class CountingQuestion:
    """The parts of a question: `How many` + counted things + finite verb + tail.

    Attributes:
        counted: Words between "how many" and the verb.
        noun: The counted noun among them; None where parts of something are counted ("of the dog's
            legs").
        verb: The finite verb.
        tail: Words after the verb.
    """

    counted: list[Token]
    noun: Token | None
    verb: Token
    tail: list[Token]


def get_noun_forms(noun: str, tag: str) -> Forms:
    """Return singular and plural of a noun that may have either number: "cacti", "person", "sheep".

    Args:
        noun: One word, as in its sentence.
        tag: Penn tag of the word; it decides for unknown nouns and for nouns with one form for both
            numbers.
    """
    if has_other_singular(noun):
        return Forms(singularize(noun), noun)
    if tag in ("NNS", "NNPS"):
        return Forms(noun, noun)
    return Forms(noun, pluralize(noun))


def get_verb_forms(verb: str, tag: str, lemma: str) -> Forms:
    """Return singular and plural of a finite verb; past tenses (except "was") and modal verbs have
    one form for both.

    Args:
        verb: The verb, as in its sentence.
        tag: Penn tag of the verb.
        lemma: Base form of the verb.
    """
    irregular_forms = IRREGULAR_FORMS.get(verb.lower())
    if irregular_forms is not None:
        return irregular_forms
    if tag not in ("VBP", "VBZ"):
        return Forms(verb, verb)
    return Forms(inflect_verb(lemma, "VBZ"), inflect_verb(lemma, "VBP"))


def build_from_questions(
    rows: Sequence[QuestionRecord], build: Callable[[Doc, str], Iterable[Outcome]]
) -> SourceOutcomes:
    """Yield the outcomes of each question "How many ...?", in the order of the rows; all other
    questions are refused.

    Args:
        build: Returns the outcomes of the parse of a question and its answer.
    """
    docs = parse(row.question for row in filter(asks_how_many, rows))
    for row in rows:
        if asks_how_many(row):
            yield from attach_row(row, build(next(docs), row.answer or ""))
        else:
            yield row, Refusal(NOT_COUNTING)


def asks_how_many(row: QuestionRecord) -> bool:
    """Return True for a question that begins with "how many"."""
    return row.question.lower().startswith("how many")


@dataclass(frozen=True)
class AnsweredQuestion:
    """The statement of a question, and the number of things that its answer gives."""

    statement: Statement
    number: int


def convert_answered_question(question: Doc, answer: str) -> AnsweredQuestion | Refusal:
    """Return the statement of a question with the number of its answer, or a refusal.

    Args:
        question: Parse of the question ("How many signs are pictured?").
        answer: A numeral, in digits or letters, with or without a full stop ("0.", "Two").
    """
    number = parse_number(answer)
    if number is None:
        return Refusal("the answer is no numeral")
    statement = convert_question(question)
    if isinstance(statement, Refusal):
        return statement
    return AnsweredQuestion(statement, number)


def convert_question(question: Doc) -> Statement | Refusal:
    """Return the statement for whose number a question asks, or a refusal.

    "How many dogs do you see?" becomes "You see _ dogs."; "How many dogs are shown?" becomes "There
    are _ dogs shown.". In "How many cars are red?", "How many people wear hats?" and "How many dogs
    can be seen?" the counted things stay the subject.
    """
    words = _list_words(question)
    if [word.lower_ for word in words[:2]] != ["how", "many"]:
        return Refusal("the question does not begin with 'How many'")
    if ESTIMATE.matches_any(words):
        return Refusal("the question asks for an estimate")
    if any(matches_one_of(word, CLAUSE_STARTS) for word in words[2:]):
        return Refusal("there is another question in it")

    verb_index = _find_verb(words)
    counted = words[2:verb_index]  # all words where there is no verb
    noun = _find_noun(counted)
    if isinstance(noun, Refusal):
        return noun
    if verb_index is None:
        return _state_existence(counted, noun, IS_ARE, [])
    tail = words[verb_index + 1 :]
    return _convert_predicate(CountingQuestion(counted, noun, words[verb_index], tail))


def _list_words(question: Doc) -> list[Token]:
    """Return the words of a question, without line breaks and the punctuation at its end."""
    words = [token for token in question if not token.is_space]
    while FINAL_MARK.matches_any(words[-1:]):
        words.pop()
    return words


def _find_verb(words: list[Token]) -> int | None:
    """Return the index of the finite verb of the main clause; None where there is none.

    It is the first auxiliary, or an earlier full verb that is the root of the parse.
    """
    for index, word in enumerate(words[2:], 2):
        # The word directly after "how many" is counted, whatever the parser says.
        is_full_verb = index > 2 and ROOT_VERB.matches(word)
        if is_full_verb or word.lower_ in AUXILIARIES:
            return index
    return None


def _find_noun(counted: list[Token]) -> Token | Refusal | None:
    """Return the noun that is counted; None where parts of something are counted ("of the dog's
    legs").
    """
    if not counted:
        return Refusal(NOTHING_COUNTED)
    if counted[0].lower_ == "of":
        return None
    if counted[0].lower_ in ("more", "less", "fewer"):
        return Refusal("the question compares")
    for pattern, reason in REFUSED_WORDS:
        if pattern.matches_any(counted):
            return Refusal(reason)
    noun = find_counted_noun(counted)
    if noun.tag_ in ("RB", "IN", "EX"):
        return Refusal(NOTHING_COUNTED)
    return noun


def find_counted_noun(words: list[Token], plural: bool = True) -> Token:
    """Return the noun that is counted among the words after "how many" or a numeral.

    Args:
        words: One or more tokens.
        plural: True where the noun is a plural, which tells it from the words around it.
    """
    phrase = _cut_phrase(words, plural)
    if plural:
        # The last of the first plurals in a row: "legs" in "table legs of the dogs".
        plurals = _find_first_run(map(_is_plural, phrase))
        if plurals:
            return phrase[plurals[-1]]

    # The last of the first nouns in a row, but "people" in "people skiing".
    nouns = _find_first_run(map(NOUN.matches, phrase))
    for index in nouns[:-1]:
        if _names_action(phrase[index + 1]):
            return phrase[index]
    if nouns:
        return phrase[nouns[-1]]
    return phrase[-1] if plural else phrase[0]


def _find_first_run(flags: Iterable[bool]) -> list[int]:
    """Return the consecutive indices of the first True values; none where all are False."""
    for flag, group in groupby(enumerate(flags), key=itemgetter(1)):
        if flag:
            return [index for index, _ in group]
    return []


def _cut_phrase(words: list[Token], plural: bool) -> list[Token]:
    """Return the words up to the first word that cannot precede the noun, such as "in" or "are";
    the first of all words is always kept.
    """
    # A regular plural can have the tag of a verb in -s by mistake, so that only auxiliaries are
    # certain.
    verb = AUXILIARY_IN_S if plural else VERB_IN_S
    ends = (NOT_BEFORE_NOUN, verb)
    rest = takewhile(lambda word: not matches_one_of(word, ends), words[1:])
    return [words[0], *rest]


def _is_plural(word: Token) -> bool:
    """Return True for a noun in the plural, also where its tag is a mistake ("sheds" as a verb)."""
    return word.tag_ in PLURAL_TAGS and has_other_singular(word.text)


def _names_action(word: Token) -> bool:
    """Return True for a word that is an action of the noun before it: "skiing" in "people skiing"."""
    is_gerund = word.tag_ == "NN" and word.lower_.endswith("ing")
    return is_gerund or bool(word.lower_ == "present")


def _convert_predicate(question: CountingQuestion) -> Statement | Refusal:
    """Return the statement of a question that has a finite verb, or a refusal."""
    auxiliary = question.verb.lower_
    if auxiliary in BE:
        return _convert_be(question)
    if not _has_other_subject(question):
        return _state_subject(question)

    main = _find_main_verb(question.tail, MAIN_VERB_TAGS[auxiliary])
    if main is not None:
        return _invert(question, main)
    # "How many dogs has the man?": without a full verb, `have` may be the full verb.
    if auxiliary == "has":
        return Refusal(TWO_READINGS)
    if auxiliary in HAVE:
        return _state_subject(question)
    return Refusal("the question has no full verb")


def _has_other_subject(question: CountingQuestion) -> bool:
    """Return True where the subject follows an auxiliary, so that it is not the counted things.

    "How many dogs can he see?" has another subject, "How many dogs can be seen?" and "How many
    people swim?" have not.
    """
    auxiliary = question.verb.lower_
    if not question.tail or auxiliary not in MAIN_VERB_TAGS:
        return False
    first = question.tail[0]
    if auxiliary in DO:
        return not NOT.matches(first)  # "How many dogs do not sit?"
    return SUBJECT_START.matches(first)


def _convert_be(question: CountingQuestion) -> Statement | Refusal:
    """Return the statement of a question whose finite verb is a form of `be`, or a refusal."""
    counted = question.counted
    noun = question.noun
    tail = question.tail
    be = get_verb_forms(question.verb.text, question.verb.tag_, "be")
    if not tail:
        return _state_existence(counted, noun, be, [])  # "How many dogs are?"
    first = tail[0]
    if first.lower_ == "there":
        return _state_existence(counted, noun, be, tail[1:])

    # "How many dogs is the man walking?": another subject and a participle follow.
    if SUBJECT_START.matches(first):
        main = _find_main_verb(tail, ("VBG", "VBN"))
        if main is not None:
            return _convert_participle(question, main)
    if first.tag_ == "PRP":
        return Refusal(TWO_READINGS)

    if _describes_state(tail):
        return _state_existence(counted, noun, be, tail)
    if EQUATED.matches_any(tail[:2]):
        return Refusal("the question equates what it counts with something")
    return _state_subject(question)  # "How many cars are red?"


def _convert_participle(question: CountingQuestion, main: int) -> Statement | Refusal:
    """Return the statement of "How many dogs is the man walking?", or a refusal.

    Args:
        main: Index of the participle in the tail.
    """
    participle = question.tail[main]
    is_definite = question.tail[0].tag_ in ("DT", "PRP$")
    is_active = is_definite and participle.tag_ == "VBG"
    if is_active or participle.dep_ == "ROOT":
        return _invert(question, main)
    return Refusal(TWO_READINGS)


def _find_main_verb(tail: list[Token], tags: tuple[str, ...]) -> int | None:
    """Return the index of the full verb after a subject: the root of the parse, else the first word
    with such a tag.
    """
    # The first word belongs to the subject.
    verbs = TokenPattern(tags=tags).select(tail[1:])
    main_verbs = ROOT.select(verbs) or verbs
    return tail.index(main_verbs[0]) if main_verbs else None


def _describes_state(tail: list[Token]) -> bool:
    """Return True for words that may follow "There are dogs": a place, a participle, or a passing
    state.
    """
    # Adverbs come before it, but some are a state themselves ("outside").
    words = dropwhile(MERE_ADVERB.matches, tail)
    first = next(words, tail[-1])
    return matches_one_of(first, STATES)


def _state_existence(
    counted: list[Token], noun: Token | None, be: Forms, tail: list[Token]
) -> Statement:
    """Return the statement "There are _ dogs", with the tail after the noun."""
    phrase = _split_phrase(counted, noun)
    return replace(phrase, opening="there", be=be, rest=join_tokens(tail))


def _state_subject(question: CountingQuestion) -> Statement:
    """Return the statement in which the counted things are the subject."""
    verb = question.verb
    forms = get_verb_forms(verb.text, verb.tag_, verb.lemma_)
    rest = re.sub("^n't", "not", join_tokens(question.tail))
    phrase = _split_phrase(question.counted, question.noun)
    return replace(phrase, verb=forms, rest=rest)


def _invert(question: CountingQuestion, main: int) -> Statement | Refusal:
    """Return the statement of a question with another subject: "do you see" becomes "You see _
    dogs.".

    The counted things follow the full verb, or a preposition without an object ("He plays with _
    dogs.").

    Args:
        main: Index of the full verb in the tail, which is subject + full verb + all other words.
    """
    full_verb = question.tail[main]
    rest = question.tail[main + 1 :]
    noun = question.noun
    # "How many dogs do you think are shown?" asks for a belief about the image.
    if full_verb.lemma_ in BELIEF_VERBS and FINITE_VERB.matches_any(rest):
        return Refusal("the question asks for a belief")

    subject = join_tokens(question.tail[:main])
    words = [subject, _inflect_after(question.verb.lower_, full_verb)]
    # "How many dogs does he play with?" becomes "He plays with _ dogs."
    has_preposition = bool(rest) and _is_preposition_alone(rest[0])
    if has_preposition and full_verb.lemma_ != "have":
        words.append(rest.pop(0).text)
    # "They have been open exactly 60 years.": measures of time stand at the end.
    if noun is not None and noun.lower_ in TIME_UNITS:
        words.append(join_tokens(rest))
        rest = []
    phrase = _split_phrase(question.counted, noun)
    return replace(phrase, opening=" ".join(words), rest=join_tokens(rest))


def _is_preposition_alone(word: Token) -> bool:
    """Return True for a preposition or particle that no object follows."""
    return PREPOSITION.matches(word) and not OBJECT.matches_any(word.rights)


def _inflect_after(auxiliary: str, verb: Token) -> str:
    """Return the verb of the statement: "do you see" gives `see`, "does he hold" `holds`, "can we
    see" `can see`.
    """
    if auxiliary not in DO_TAGS:
        return f"{auxiliary} {verb.text}"
    return inflect_verb(verb.lower_, DO_TAGS[auxiliary])


def _split_phrase(counted: list[Token], noun: Token | None) -> Statement:
    """Return a statement that has only the counted words: modifiers, the noun in both numbers, and
    its complement.
    """
    if noun is None:
        return Statement(complement=join_tokens(counted))
    index = counted.index(noun)
    return Statement(
        modifiers=join_tokens(counted[:index]),
        noun=get_noun_forms(noun.text, noun.tag_),
        complement=join_tokens(counted[index + 1 :]),
    )


def join_tokens(words: list[Token]) -> str:
    """Return the text from the first to the last token of a list of one parse; empty for an empty
    list.
    """
    if not words:
        return ""
    return str(words[0].doc[words[0].i : words[-1].i + 1].text)
