"""Noun phrases of a parse, and the verbs and pronouns that agree with them, with their forms in the other number.

The parser's known mistakes on captions are corrected.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lemminflect import getAllLemmas, getInflection, getLemma
from spacy.tokens import Doc, Span, Token

from waltz.foils.english.nouns import PLURAL_QUANTITIES, QUANTITIES, SINGULAR_DETERMINERS, Number, singularise

DETERMINER_TAGS = {"CD", "DT", "PDT", "PRP$", "POS"}
LEFT_OF_NOUN = {"det", "predet", "amod", "compound", "nummod", "nmod", "poss", "quantmod", "advmod"}
NEGATED = "the caption says that there is none"
EACH_ONE = "the caption speaks of each one"
IN_PREPOSITION = "the noun is part of a preposition"
PLACE_NOUNS = {"back", "front", "side", "top"}
PLACE_ADVERBS = {"indoors", "outdoors", "upstairs", "downstairs", "overhead", "nearby"}
"""Adverbs that the parser takes for nouns."""
HYPHENS = {"-", "/", "–"}

SUBJECTS = {"nsubj", "nsubjpass"}
RELATIVE_PRONOUNS = {"who", "that", "which"}
TO_PLURAL = {"is": "are", "was": "were", "'s": " are", "has": "have", "does": "do", "am": "are"}
TO_SINGULAR = {"are": "is", "were": "was", "'re": " is", "have": "has", "do": "does"}

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
ALIKE = {"aircraft", "bison", "cattle", "deer", "fish", "moose", "salmon", "sheep"}
"""Things that can be counted and have one form."""


@dataclass(frozen=True)
class NounPhrase:
    """A noun phrase up to its head.

    Attributes:
        head: Its noun.
        start: Index of its first token.
        stem: Index of the first token after its determiners, numerals and possessives.
        verb: Its verb, where the parser mistook it for the noun ("a girl grins"); else None.
    """

    head: Token
    start: int
    stem: int
    verb: Token | None = None


def find_noun_phrases(doc: Doc) -> Iterator[NounPhrase]:
    """Yield the noun phrases of a parse whose head is a noun, no pronoun, in the order of their heads."""
    chunks = list(doc.noun_chunks)
    inside = {token.i for chunk in chunks for token in chunk}
    phrases = [phrase for chunk in chunks for phrase in _split_chunk(chunk)]
    phrases += [_build_outside_chunks(token) for token in doc if token.i not in inside and _is_free_noun(token)]
    yield from sorted(filter(_is_usable, phrases), key=lambda phrase: phrase.head.i)


def _is_usable(phrase: NounPhrase) -> bool:
    """Return True for a full phrase of a common noun: no name, no part of a hyphened word, no half of a quotation."""
    head, first = phrase.head, phrase.head.doc[phrase.stem]
    stem = head.doc[phrase.stem : head.i + 1]
    is_name = head.tag_ in {"NNP", "NNPS"} and head.is_title and phrase.stem == phrase.start > 0
    is_name |= len(stem) > 1 and phrase.start == phrase.stem and all(word.tag_ == "NNP" for word in stem)
    hyphened_before = phrase.stem > 0 and first.nbor(-1).text in HYPHENS and not first.nbor(-1).whitespace_
    hyphened_after = not head.whitespace_ and head.i + 1 < len(head.doc) and head.nbor(1).text in HYPHENS
    open_quotation = sum(word.text == '"' for word in stem) % 2 == 1
    return bool(head.is_alpha) and not (is_name or hyphened_before or hyphened_after or open_quotation)


def explain_rejection(phrase: NounPhrase) -> str | None:
    """Return why a quantifier instead of its determiners makes no true caption; None where it does."""
    words = {word.lower_ for word in phrase.head.doc[phrase.start : phrase.stem]}
    before = phrase.head.doc[phrase.start - 1].lower_ if phrase.start else ""
    if words & {"any", "no"} or before == "without":
        return NEGATED
    if words & {"each", "every"}:
        return EACH_ONE
    return IN_PREPOSITION if _in_preposition(phrase) else None


def _in_preposition(phrase: NounPhrase) -> bool:
    head = phrase.head
    if phrase.start != head.i or not 0 < head.i < len(head.doc) - 1:
        return False
    return head.nbor(-1).lower_ in {"in", "on"} and head.nbor(1).lower_ == "of" and head.lower_ in PLACE_NOUNS


def _split_chunk(chunk: Span) -> Iterator[NounPhrase]:
    head, before = chunk.root, chunk.doc[max(chunk.root.i - 1, 0)]
    if head.lower_ in PLACE_ADVERBS and head.i > chunk.start and before.dep_ in {"compound", "nmod"}:
        head, before = before, chunk.doc[max(before.i - 1, 0)]
    if head.pos_ not in {"NOUN", "PROPN"} or head.lower_ in PLACE_ADVERBS:
        return
    if _is_verb_after_subject(head, before, chunk):
        yield NounPhrase(before, chunk.start, _find_stem(chunk.start, before), verb=head)
        return
    breaks = [token.i for token in chunk[1:-1] if _is_break(token)]
    starts = [chunk.start, *(index + 1 for index in breaks)]
    nouns = [*(chunk.doc[index - 1] for index in breaks), head]
    for start, noun in zip(starts, nouns, strict=True):
        if noun.pos_ in {"NOUN", "PROPN", "ADJ"}:
            yield NounPhrase(noun, start, _find_stem(start, noun))


def _is_break(token: Token) -> bool:
    """Return True where one of the nouns that the parser took for one phrase ends before it ("a bathtub, window")."""
    if token.text == ",":
        return bool(token.nbor(-1).dep_ == "nmod")
    before = token.nbor(-1)
    is_noun = before.pos_ == "NOUN" or singularise(before.lower_) != before.lower_
    return token.lower_ == "and" and is_noun and token.nbor(1).tag_ in DETERMINER_TAGS


def _is_verb_after_subject(head: Token, before: Token, chunk: Span) -> bool:
    if before.dep_ != "compound" or "VERB" not in getAllLemmas(head.lower_):
        return False
    first, second = chunk[0].lower_, chunk[1].lower_
    if first in {"a", "an"} and second not in PLURAL_QUANTITIES:
        noun_tags = ("NN", "NNS")
        is_clause = head.lower_.endswith("s") and head.dep_ in {"ROOT", "ccomp", "advcl"}
    else:
        noun_tags = ("NNS", "NN")
        is_clause = bool({first, second} & PLURAL_QUANTITIES) and head.dep_ == "ROOT"
    return is_clause and (before.tag_, head.tag_) == noun_tags


def _is_free_noun(token: Token) -> bool:
    if token.pos_ != "NOUN" or token.tag_ not in {"NN", "NNS"}:
        return False
    subject_of_verb = token.dep_ == "compound" and token.head.pos_ == "VERB" and token.tag_ == "NNS"
    return subject_of_verb or (token.dep_ in {"conj", "appos"} and token.lower_ not in PLACE_ADVERBS)


def _build_outside_chunks(head: Token) -> NounPhrase:
    start = head.i
    while start > 0 and head.doc[start - 1].head == head and head.doc[start - 1].dep_ in LEFT_OF_NOUN:
        start -= 1
    return NounPhrase(head, start, _find_stem(start, head))


def _find_stem(start: int, head: Token) -> int:
    stem = start
    for token in head.doc[start : head.i]:
        is_name = token.is_title and token.i > start
        if (token.tag_ in DETERMINER_TAGS and not is_name) or token.lower_ in QUANTITIES or token.dep_ == "quantmod":
            stem = token.i + 1
        elif head.head == token or token.dep_ != "poss":
            break
    return stem


def list_numbers(noun: Token) -> tuple[Number, ...]:
    """Return the number of a noun in a parse, by its tag as far as its form allows; both where it is open ("sheep")."""
    word = noun.lower_
    if word in ALIKE:
        before = {child.lower_ for child in noun.children if child.i < noun.i}
        if before & PLURAL_QUANTITIES:
            return ("pl",)
        return ("sg",) if before & SINGULAR_DETERMINERS else ("sg", "pl")
    tagged_plural = noun.tag_ in {"NNS", "NNPS", "JJ"} or (noun.tag_ == "NNP" and noun.is_sent_start)
    return ("pl",) if tagged_plural and (word.endswith("s") or singularise(word) != word) else ("sg",)


def find_agreeing_verbs(subject: Token, number: Number) -> Iterator[tuple[Token, str]]:
    """Yield the verbs that agree with a noun or pronoun, each with its form in a number.

    They are those of its clause, of clauses coordinated with that one, and of its relative clauses; not modal verbs,
    past tenses and participles, which have one form, nor the verbs of a coordinated subject.
    """
    for verb in _find_finite_verbs(subject):
        form = inflect_verb(verb, number)
        if form is not None:
            yield verb, form


def find_existential_verb(first: Token) -> Token | None:
    """Return the verb of "there is" before the first word of a noun phrase; it agrees with that phrase."""
    if first.i < 2 or first.nbor(-2).lower_ != "there" or first.nbor(-1).pos_ not in {"VERB", "AUX"}:
        return None
    return first.nbor(-1)


def inflect_verb(verb: Token, number: Number) -> str | None:
    """Return the form of a verb in a number; None where it has no other form than its own."""
    word, irregular = verb.lower_, TO_PLURAL if number == "pl" else TO_SINGULAR
    if word in irregular:
        return irregular[word]
    if word in TO_PLURAL or word in TO_SINGULAR:
        return None
    if number == "pl":
        return _inflect(word, "VBP") if verb.tag_ in {"VBZ", "NNS"} and word.endswith("s") else None
    infinitive = verb.tag_ == "VB" and verb.dep_ not in {"ROOT", "conj"}
    present = verb.tag_ in {"VBP", "VB", "NN"} or (verb.tag_ == "VBD" and _is_base_form(word))
    return _inflect(word, "VBZ") if present and not infinitive else None


def _is_base_form(word: str) -> bool:
    """Return True for a word that the parser took for a past tense, but that can only be a present one ("pat")."""
    return getLemma(word, "VERB") == (word,) and word not in getInflection(word, "VBD")


def _inflect(word: str, tag: str) -> str | None:
    lemmas = getLemma(word, "VERB")
    forms = getInflection(lemmas[0], tag) if lemmas else ()
    return forms[0] if forms and forms[0] != word else None


def _find_finite_verbs(subject: Token) -> Iterator[Token]:
    clause = subject.head
    is_subject = subject.dep_ in SUBJECTS or (subject.dep_ == "compound" and clause.pos_ == "VERB")
    if is_subject and not _is_coordinated(subject, _get_finite(clause)):
        yield from _add_conjuncts(clause)
    for relative in subject.children:
        if relative.dep_ == "relcl" and _has_relative_subject(relative):
            yield from _add_conjuncts(relative)


def _add_conjuncts(verb: Token) -> Iterator[Token]:
    finite = _get_finite(verb)
    yield finite
    for conjunct in verb.conjuncts:
        has_subject = any(child.dep_ in SUBJECTS or child.dep_ == "expl" for child in conjunct.children)
        shares_auxiliary = finite != verb and _get_finite(conjunct) == conjunct
        if conjunct.i > verb.i and conjunct.pos_ in {"VERB", "AUX"} and not has_subject and not shares_auxiliary:
            yield _get_finite(conjunct)


def _get_finite(verb: Token) -> Token:
    return next((child for child in verb.children if child.dep_ in {"aux", "auxpass"}), verb)


def _is_coordinated(subject: Token, verb: Token) -> bool:
    """Return True where a subject is part of a list, which the parser does not always mark."""
    if any(child.dep_ == "conj" for child in subject.children):
        return True
    after = subject.doc[subject.i + 1 : verb.i]
    and_follows = (
        any(token.lower_ == "and" and token.pos_ == "CCONJ" for token in after)
        and after[0].text in {",", "and"}
        and after[-1].text != ","
    )
    first = subject.left_edge.i
    and_precedes = first > 1 and subject.doc[first - 1].lower_ == "and"
    is_first_clause = not any(token.pos_ in {"VERB", "AUX"} for token in subject.doc[:first])
    return (and_follows and not any(token.pos_ == "VERB" for token in after)) or (and_precedes and is_first_clause)


def _has_relative_subject(clause: Token) -> bool:
    return any(child.dep_ in SUBJECTS and child.lower_ in RELATIVE_PRONOUNS for child in clause.children)


def find_antecedents(doc: Doc, nouns: Sequence[Token]) -> dict[Token, Token]:
    """Return the noun that each pronoun refers to; pronouns without one are absent.

    It is the first of all earlier `nouns` that fits: of the pronoun's number and gender, not the subject of the verb
    that the pronoun is the object of, and not the noun whose modifier it stands in.
    """
    pronouns = [token for token in doc if token.pos_ == "PRON" and token.lower_ in (PLURAL_FORMS | SINGULAR_FORMS)]
    antecedents = {pronoun: _find_antecedent(pronoun, nouns) for pronoun in pronouns}
    return {pronoun: noun for pronoun, noun in antecedents.items() if noun is not None}


def find_anaphors(noun: Token, number: Number, antecedents: Mapping[Token, Token]) -> Iterator[tuple[Token, str]]:
    """Yield the pronouns that refer to a noun, each with its form in the other number."""
    forms = PLURAL_FORMS if number == "pl" else SINGULAR_FORMS
    for pronoun, antecedent in antecedents.items():
        if antecedent == noun and pronoun.lower_ in forms:
            yield pronoun, _pluralise(pronoun) if number == "pl" else _singularise(pronoun, noun)


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
