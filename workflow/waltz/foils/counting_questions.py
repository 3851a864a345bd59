"""From a question "How many ...?" to the statement whose number it asks for."""

import re

from spacy.tokens import Doc, Token

from waltz.foils.candidates import Refused
from waltz.foils.english.nouns import singular_of
from waltz.foils.english.statements import IS_ARE, NOTHING, Forms, Statement, inflected, noun_forms, verb_forms

BE = ("is", "are", "was", "were")
DO = ("do", "does", "did")
HAVE = ("have", "has", "had")
MODALS = ("can", "could", "will", "would", "may", "might", "must", "should")
AUXILIARIES = frozenset((*BE, *DO, *HAVE, *MODALS))
FINITE = ("VBP", "VBZ", "VBD", "MD")
NOT_BEFORE_NOUN = ("IN", "TO", "EX", "MD", "VBP", ",")
PLURAL = ("NN", "NNS", "NNP", "NNPS", "VBZ", "JJ", "VB", "FW")
"""Tags that a parser gives to plural nouns, the last four by mistake."""
NOUNS = ("NN", "NNS", "NNP", "NNPS")
RELATIVE = ("WDT", "WP", "WRB")
BELIEFS = ("think", "believe", "guess", "suppose", "say", "look")
ESTIMATES = ("approximately", "approx", "roughly", "estimate")
TIMES = frozenset(("seconds", "minutes", "hours", "days", "weeks", "months", "years", "times"))
"""Measures of time, which stand behind all else: "They have been open exactly 60 years"."""
OF_PASSING_STATE = re.compile(
    "alone|available|asleep|awake|closed|empty|here|left|missing|next|nearby|open|off|on|out|present|there|up|visible"
)
"""What may follow the noun after "There are", beside participles and phrases with a preposition."""


def asked(question: Doc) -> Statement | Refused:
    """The statement whose number a question asks for.

    Args:
        question: Parse of the question ("How many dogs do you see?").
    Returns:
        The statement ("You see _ dogs."), or why the question cannot be turned into one. "How many dogs are shown?"
        becomes "There are _ dogs shown."; of "How many cars are red?", "How many people wear hats?" and "How many
        dogs can be seen?" the counted things stay the subject.
    """
    words = [token for token in question if not token.is_space]
    while words and words[-1].text in (".", "?", "!"):
        words.pop()
    if [word.lower_ for word in words[:2]] != ["how", "many"]:
        return Refused("the question does not begin with 'How many'")
    if any(word.lower_ in ESTIMATES for word in words):
        return Refused("the question asks for an estimate")
    if any(word.text in ("?", ".", ";", ",") or (word.tag_ in RELATIVE and _asks(word)) for word in words[2:]):
        return Refused("there is another question in it")
    verb = _verb(words)
    counted = words[2 : len(words) if verb is None else verb]
    noun = _noun(counted)
    if isinstance(noun, Refused):
        return noun
    if verb is None:
        return _there(counted, noun, IS_ARE, [])
    return _predicated(counted, noun, words[verb], words[verb + 1 :])


def _asks(word: Token) -> bool:
    return word.lower_ in ("how", "what", "why", "when") or (word.i > 0 and word.nbor(-1).lower_ in ("and", ","))


def _verb(words: list[Token]) -> int | None:
    """Place of the finite verb of the main clause: the first auxiliary, or a full verb before it that is the root."""
    for place, word in enumerate(words[2:], 2):
        if word.lower_ in AUXILIARIES or (word.tag_ in FINITE and place > 2 and word.dep_ == "ROOT"):
            return place
    return None


def _noun(counted: list[Token]) -> Token | Refused | None:
    """Head of what is counted; None where it is a part of something ("of the dog's legs")."""
    if not counted:
        return Refused("the question does not name what it counts")
    if counted[0].lower_ == "of":
        return None
    if counted[0].lower_ in ("more", "less", "fewer"):
        return Refused("the question compares")
    if any(word.tag_ in (*RELATIVE, "POS") or word.lower_ == "that" for word in counted):
        return Refused("a possessor or a relative clause stands by what the question counts")
    if any(word.tag_ == "CC" for word in counted):
        return Refused("the question counts several things together")
    noun = counted_noun(counted)
    return Refused("the question does not name what it counts") if noun.tag_ in ("RB", "IN", "EX") else noun


def counted_noun(words: list[Token], many: bool = True) -> Token:
    """The noun that is counted, among the words that follow "how many" or a numeral.

    Args:
        words: One or more tokens.
        many: Whether the noun is a plural, by which it is told from what stands around it.
    """
    run = words[: next((place for place, word in enumerate(words) if place and _ends(word, many)), len(words))]
    if many:
        marked = [
            place for place, word in enumerate(run) if word.tag_ in PLURAL and singular_of(word.text) != word.text
        ]
        last = next((place for place in marked if place + 1 not in marked), None)
        if last is not None:
            return run[last]
    nouns = [place for place, word in enumerate(run) if word.tag_ in NOUNS]
    last = next((place for place in nouns if place + 1 not in nouns or _names_doing(run[place + 1])), None)
    return run[-1 if many else 0] if last is None else run[last]


def _ends(word: Token, many: bool) -> bool:
    return bool(word.tag_ in NOT_BEFORE_NOUN or (word.tag_ == "VBZ" and (not many or word.lower_ in AUXILIARIES)))


def _names_doing(word: Token) -> bool:
    return bool(word.lower_ == "present" or (word.tag_ == "NN" and word.lower_.endswith("ing")))


def _predicated(counted: list[Token], noun: Token | None, verb: Token, tail: list[Token]) -> Statement | Refused:
    word = verb.lower_
    if word in BE:
        be = verb_forms(verb.text, verb.tag_, "be")
        if not tail:
            return _there(counted, noun, be, [])
        if tail[0].lower_ == "there":
            return _there(counted, noun, be, tail[1:])
        main = _first(tail, ("VBG", "VBN")) if _opens_subject(tail[0]) else None
        definite = main is not None and tail[0].tag_ in ("DT", "PRP$") and tail[main].tag_ == "VBG"
        if main is not None and (definite or tail[main].dep_ == "ROOT"):
            return _inverted(counted, noun, verb, tail, main)
        if main is not None or tail[0].tag_ == "PRP":
            return Refused("the question can be read in two ways")
        if _of_state(tail):
            return _there(counted, noun, be, tail)
        if any(word.tag_ in (*NOUNS, "DT") for word in tail[:2]):
            return Refused("the question equates what it counts with something")
    if tail and word in DO:
        if tail[0].lower_ in ("not", "n't"):
            return _subject(counted, noun, verb, tail)
        return _inverted(counted, noun, verb, tail, _first(tail, ("VB", "VBP")))
    if tail and word in (*HAVE, *MODALS) and _opens_subject(tail[0]):
        main = _first(tail, ("VB", "VBN", "VBD") if word in HAVE else ("VB",))
        if main is not None or word in MODALS:
            return _inverted(counted, noun, verb, tail, main)
        if word == "has":
            return Refused("the question can be read in two ways")
    return _subject(counted, noun, verb, tail)


def _opens_subject(word: Token) -> bool:
    return word.tag_ in ("PRP", "DT", "PRP$", *NOUNS)


def _first(tail: list[Token], tags: tuple[str, ...]) -> int | None:
    places = [place for place, word in enumerate(tail) if place and word.tag_ in tags]
    return next((place for place in places if tail[place].dep_ == "ROOT"), places[0] if places else None)


def _of_state(tail: list[Token]) -> bool:
    """Whether "There are dogs" may be followed by these words: a place, a participle, a passing state."""
    first = next((word for word in tail if word.tag_ != "RB" or OF_PASSING_STATE.fullmatch(word.lower_)), tail[-1])
    return first.tag_ in ("IN", "TO", "VBG", "VBN", "RP") or bool(OF_PASSING_STATE.fullmatch(first.lower_))


def _there(counted: list[Token], noun: Token | None, be: Forms, tail: list[Token]) -> Statement:
    return Statement("there", be, *_phrase(counted, noun), NOTHING, _text(tail))


def _subject(counted: list[Token], noun: Token | None, verb: Token, tail: list[Token]) -> Statement:
    forms = verb_forms(verb.text, verb.tag_, verb.lemma_)
    rest = _text(tail)
    return Statement("", NOTHING, *_phrase(counted, noun), forms, "not" + rest[3:] if rest.startswith("n't") else rest)


def _inverted(
    counted: list[Token], noun: Token | None, verb: Token, tail: list[Token], main: int | None
) -> Statement | Refused:
    """The counted things back where the clause lacks them: after its full verb, or the preposition left alone."""
    if not main:
        return Refused("the question has no full verb")
    subject, full, rest = tail[:main], tail[main], tail[main + 1 :]
    if any(word.tag_ in FINITE for word in rest) and full.lemma_ in BELIEFS:
        return Refused("the question asks for a belief")
    words = [_text(subject), *_finite(verb.lower_, full)]
    if (
        full.lemma_ != "have"
        and rest
        and rest[0].tag_ in ("IN", "RP", "TO")
        and not any(part.dep_ == "pobj" and part.i > rest[0].i for part in rest[0].children)
    ):
        words.append(rest.pop(0).text)
    if noun is not None and noun.lower_ in TIMES:
        words, rest = [*words, _text(rest)], []
    return Statement(" ".join(words), NOTHING, *_phrase(counted, noun), NOTHING, _text(rest))


def _finite(auxiliary: str, verb: Token) -> list[str]:
    """The verb of the statement: `do you see` gives `see`, `does he hold` `holds`, `can we see` `can see`."""
    tag = {"do": "VBP", "does": "VBZ", "did": "VBD"}.get(auxiliary)
    return [auxiliary, verb.text] if tag is None else [inflected(verb.lower_, tag)]


def _phrase(counted: list[Token], noun: Token | None) -> tuple[str, Forms, str]:
    """Modifiers, noun in both numbers and complement of what is counted."""
    if noun is None:
        return "", NOTHING, _text(counted)
    place = counted.index(noun)
    return _text(counted[:place]), noun_forms(noun.text, noun.tag_), _text(counted[place + 1 :])


def _text(words: list[Token]) -> str:
    return words[0].doc[words[0].i : words[-1].i + 1].text if words else ""
