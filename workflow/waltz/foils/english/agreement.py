"""Finite verbs that agree with a noun or pronoun, and their forms in the other number."""

from collections.abc import Iterator

from lemminflect import getInflection, getLemma
from spacy.tokens import Token

from waltz.foils.english.nouns import Number

SUBJECTS = {"nsubj", "nsubjpass"}
RELATIVE_PRONOUNS = {"who", "that", "which"}
TO_PLURAL = {"is": "are", "was": "were", "'s": " are", "has": "have", "does": "do", "am": "are"}
TO_SINGULAR = {"are": "is", "were": "was", "'re": " is", "have": "has", "do": "does"}


def find_agreeing_verbs(subject: Token, number: Number) -> Iterator[tuple[Token, str]]:
    """Yield the verbs that agree with a noun or pronoun, each with its form in a number.

    Args:
        subject: Head of a noun phrase, or a pronoun.
        number: The number of the forms.
    Yields:
        Verbs of its clause, of clauses coordinated with that one, and of its relative clauses; not modal verbs, past
        tenses and participles, which have one form, nor the verbs of a coordinated subject.
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
