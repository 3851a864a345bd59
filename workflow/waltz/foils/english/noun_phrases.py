"""Noun phrases of a parse, and the verbs and pronouns that agree with them, with their forms in the
other number.

The functions correct known mistakes of the parser on captions.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lemminflect import getAllLemmas, getInflection, getLemma
from spacy.tokens import Doc, Span, Token

from waltz.foils.english.nouns import (
    PLURAL_QUANTITIES,
    QUANTITIES,
    SINGULAR_DETERMINERS,
    Number,
    singularize,
)
from waltz.foils.english.patterns import TokenPattern, matches_one_of

DETERMINER_TAGS = {"CD", "DT", "PDT", "PRP$", "POS"}
LEFT_OF_NOUN = {
    "det",
    "predet",
    "amod",
    "compound",
    "nummod",
    "nmod",
    "poss",
    "quantmod",
    "advmod",
}
NEGATED = "the caption says that there is none"
EACH_ONE = "the caption speaks of each one"
IN_PREPOSITION = "the noun is part of a preposition"
PLACE_PREPOSITION = re.compile("(in|on) (back|front|side|top) of")
PLACE_ADVERBS = {"indoors", "outdoors", "upstairs", "downstairs", "overhead", "nearby"}
"""Adverbs that the parser tags as nouns."""
HYPHENS = {"-", "/", "–"}

SUBJECTS = {"nsubj", "nsubjpass"}
VERB = TokenPattern(parts_of_speech={"VERB", "AUX"})
# "is" in "a dog is running", "has" and "been" in "has been seen".
AUXILIARY = TokenPattern(relations={"aux", "auxpass"})
CLAUSE_SUBJECT = TokenPattern(relations={*SUBJECTS, "expl"})
# "who" in "a man who surfs": the verb of the clause agrees with "man".
RELATIVE_SUBJECT = TokenPattern(words={"who", "that", "which"}, relations=SUBJECTS)
CONJUNCTION = TokenPattern(words={"and"}, parts_of_speech={"CCONJ"})
CONJUNCT = TokenPattern(relations={"conj"})

LISTED_NOUN = TokenPattern(
    parts_of_speech={"NOUN"}, tags={"NN", "NNS"}, relations={"conj", "appos"}
)
"""Noun of a list or an apposition ("a cat" in "dogs, a cat")."""
COMPOUND_SUBJECT = TokenPattern(
    parts_of_speech={"NOUN"}, tags={"NNS"}, relations={"compound"}
)
"""Subject that the parser takes for a part of a compound ("dogs" in "dogs swim")."""
# "bathtub" in "a bathtub, window and a sink"; the parser takes some such nouns for adjectives.
NOUN_BEFORE_BREAK = TokenPattern(parts_of_speech={"NOUN", "PROPN", "ADJ"})

PRESENT_TAGS: dict[Number, str] = {"sg": "VBZ", "pl": "VBP"}
SINGULAR_VERB = TokenPattern(tags={"VBZ", "NNS"})
"""Verb in -s; the parser may take it for a plural noun."""
PLURAL_VERBS = (
    TokenPattern(tags={"VBP", "NN"}),
    # As root or conjunct the tag of an infinitive is a mistake for the present.
    TokenPattern(tags={"VB"}, relations={"ROOT", "conj"}),
)
"""Present tenses without -s; infinitives agree with no subject."""
TO_PLURAL = {
    "is": "are",
    "was": "were",
    "'s": " are",
    "has": "have",
    "does": "do",
    "am": "are",
}
TO_SINGULAR = {"are": "is", "were": "was", "'re": " is", "have": "has", "do": "does"}
IRREGULAR_FORMS: dict[Number, dict[str, str]] = {"pl": TO_PLURAL, "sg": TO_SINGULAR}
"""Forms of irregular verbs in a number, by their form in the other number."""

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
"""Nouns to which "it" does not refer."""
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
"""Singular forms of each plural pronoun: for things and unknown gender, for male and for female
nouns.
"""
PRONOUN = TokenPattern(parts_of_speech={"PRON"}, words={*PLURAL_FORMS, *SINGULAR_FORMS})
CHANGING_PRONOUNS: dict[Number, TokenPattern] = {
    "pl": TokenPattern(words=PLURAL_FORMS),
    "sg": TokenPattern(words=SINGULAR_FORMS),
}
"""Pronouns that have another form in a number."""
EXCLUDED_NOUNS = {
    **dict.fromkeys(("it", "its", "itself"), PEOPLE),
    **dict.fromkeys(("she", "her", "herself"), MALE),
    **dict.fromkeys(("he", "him", "his", "himself"), FEMALE),
}
"""Nouns to which a pronoun does not refer because of its gender; plurals show no gender."""
DETERMINERS_OF_NUMBER: dict[Number, set[str]] = {
    "pl": PLURAL_QUANTITIES,
    "sg": SINGULAR_DETERMINERS,
}
"""Words that show the number of the noun after them."""
ALIKE = {"aircraft", "bison", "cattle", "deer", "fish", "moose", "salmon", "sheep"}
"""Countable nouns with one form for singular and plural."""


@dataclass(frozen=True)
class NounPhrase:
    """A noun phrase from its first token to its head.

    Attributes:
        head: The noun.
        start: Index of the first token.
        stem: Index of the first token after determiners, numerals and possessives.
        verb: The verb of the noun where the parser took the verb for the head ("a girl grins");
            else None.
    """

    head: Token
    start: int
    stem: int
    verb: Token | None = None


def find_noun_phrases(doc: Doc) -> Iterator[NounPhrase]:
    """Yield the noun phrases of a parse whose heads are nouns, not pronouns, in the order of their
    heads.
    """
    phrases: list[NounPhrase] = []
    inside_chunks: set[int] = set()
    # Phrases from the chunks of the parser, then nouns that it left outside its chunks.
    for chunk in doc.noun_chunks:
        inside_chunks.update(range(chunk.start, chunk.end))
        phrases += _split_chunk(chunk)
    for token in doc:
        if token.i not in inside_chunks and _is_free_noun(token):
            phrases.append(_build_outside_chunks(token))
    yield from sorted(filter(_is_usable, phrases), key=lambda phrase: phrase.head.i)


def _is_usable(phrase: NounPhrase) -> bool:
    """Return True for a complete phrase of a common noun.

    Names, parts of hyphened words and phrases with only one quotation mark of a pair are not
    usable.
    """
    head = phrase.head
    if not head.is_alpha:
        return False
    if _is_name(phrase) or _has_hyphen(phrase):
        return False
    n_quotation_marks = [word.text for word in _get_words(phrase)].count('"')
    return n_quotation_marks % 2 == 0


def _get_words(phrase: NounPhrase) -> Span:
    """Return the words of a phrase from the first word after its determiners to its head."""
    return phrase.head.doc[phrase.stem : phrase.head.i + 1]


def _is_name(phrase: NounPhrase) -> bool:
    """Return True for a phrase without determiners that is a proper name."""
    if phrase.start != phrase.stem:
        return False
    head = phrase.head
    # At the start of a text a capital says nothing.
    has_telling_capital = phrase.start > 0 and head.is_title
    if has_telling_capital and head.tag_ in {"NNP", "NNPS"}:
        return True
    words = _get_words(phrase)
    return len(words) > 1 and {word.tag_ for word in words} == {"NNP"}


def _has_hyphen(phrase: NounPhrase) -> bool:
    """Return True where a hyphen or slash joins the phrase to the word before or after it."""
    doc = phrase.head.doc
    end = phrase.head.i + 1
    # A space between the hyphen and the phrase separates them: "a dog - cat".
    before = doc[max(phrase.stem - 1, 0) : phrase.stem].text_with_ws
    after = doc[end - 1 : end + 1].text.removeprefix(phrase.head.text)
    return before in HYPHENS or after in HYPHENS


def explain_rejection(phrase: NounPhrase) -> str | None:
    """Return the reason why a caption with a quantifier in place of the determiners is not true;
    None where it is.
    """
    doc = phrase.head.doc
    determiners = {word.lower_ for word in doc[phrase.start : phrase.stem]}
    follows_without = phrase.start > 0 and doc[phrase.start - 1].lower_ == "without"
    if follows_without or determiners & {"any", "no"}:
        return NEGATED
    if determiners & {"each", "every"}:
        return EACH_ONE
    if _is_in_preposition(phrase):
        return IN_PREPOSITION
    return None


def _is_in_preposition(phrase: NounPhrase) -> bool:
    """Return True for the noun of "in front of" or "on top of"."""
    head = phrase.head
    if phrase.start != head.i:
        return False
    words = head.doc[max(head.i - 1, 0) : head.i + 2]
    return PLACE_PREPOSITION.fullmatch(words.text.lower()) is not None


def _split_chunk(chunk: Span) -> Iterator[NounPhrase]:
    """Yield the noun phrases of a chunk of the parser, which may join several phrases."""
    head = _find_head(chunk)
    if head.pos_ not in {"NOUN", "PROPN"} or head.lower_ in PLACE_ADVERBS:
        return

    before = chunk.doc[max(head.i - 1, 0)]
    if _is_verb_after_subject(head, before, chunk):
        yield NounPhrase(
            before, chunk.start, _find_stem(chunk.start, before), verb=head
        )
        return

    # "a bathtub, window and a sink" is one chunk of three phrases.
    start = chunk.start
    for token in filter(_is_break, chunk[1:-1]):
        noun = token.nbor(-1)
        if NOUN_BEFORE_BREAK.matches(noun):
            yield NounPhrase(noun, start, _find_stem(start, noun))
        start = token.i + 1
    yield NounPhrase(head, start, _find_stem(start, head))


def _find_head(chunk: Span) -> Token:
    """Return the head of a chunk, without an adverb that the parser takes for the head of a
    compound ("a dog outdoors").
    """
    root = chunk.root
    if root.lower_ not in PLACE_ADVERBS or root.i == chunk.start:
        return root
    before = root.nbor(-1)
    return before if before.dep_ in {"compound", "nmod"} else root


def _is_break(token: Token) -> bool:
    """Return True for a token that separates two nouns which the parser took for one phrase ("a
    bathtub, window").
    """
    before = token.nbor(-1)
    if token.text == ",":
        return bool(before.dep_ == "nmod")
    if token.lower_ != "and" or token.nbor(1).tag_ not in DETERMINER_TAGS:
        return False
    return bool(before.pos_ == "NOUN" or singularize(before.lower_) != before.lower_)


def _is_verb_after_subject(head: Token, before: Token, chunk: Span) -> bool:
    """Return True where the head of a chunk is a verb that the parser took for a noun ("a girl
    grins").
    """
    if before.dep_ != "compound" or "VERB" not in getAllLemmas(head.lower_):
        return False
    first = chunk[0].lower_
    second = chunk[1].lower_
    if first in {"a", "an"} and second not in PLURAL_QUANTITIES:
        # A singular subject: its verb ends in -s and looks like a plural noun.
        noun_tags = ("NN", "NNS")
        is_clause = head.lower_.endswith("s") and head.dep_ in {
            "ROOT",
            "ccomp",
            "advcl",
        }
    else:
        # A plural subject: its verb has no ending and looks like a singular noun.
        noun_tags = ("NNS", "NN")
        is_plural = bool({first, second} & PLURAL_QUANTITIES)
        is_clause = is_plural and head.dep_ == "ROOT"
    return is_clause and (before.tag_, head.tag_) == noun_tags


def _is_free_noun(token: Token) -> bool:
    """Return True for a noun that is the head of a phrase although the parser has no chunk for it."""
    if COMPOUND_SUBJECT.matches(token):
        return bool(token.head.pos_ == "VERB")
    return LISTED_NOUN.matches(token) and token.lower_ not in PLACE_ADVERBS


def _build_outside_chunks(head: Token) -> NounPhrase:
    """Return the phrase of a noun outside all chunks: the noun and the words to its left that
    modify it.
    """
    start = head.i
    # Go left while the word modifies the head directly.
    while (
        start > 0
        and head.doc[start - 1].head == head
        and head.doc[start - 1].dep_ in LEFT_OF_NOUN
    ):
        start -= 1
    return NounPhrase(head, start, _find_stem(start, head))


def _find_stem(start: int, head: Token) -> int:
    """Return the index of the first token after the determiners, numerals and possessives of a
    phrase.
    """
    stem = start
    for token in head.doc[start : head.i]:
        if _is_determiner(token, start):
            stem = token.i + 1
        # The first modifier of the noun itself ends the determiners; words within a possessor do
        # not.
        elif head.head == token or token.dep_ != "poss":
            break
    return stem


def _is_determiner(token: Token, start: int) -> bool:
    """Return True for a word that a quantifier replaces: "the", "two", "his", "about" in "about two
    dogs".
    """
    if token.lower_ in QUANTITIES or token.dep_ == "quantmod":
        return True
    is_name = token.is_title and token.i > start  # "the One Direction poster"
    return token.tag_ in DETERMINER_TAGS and not is_name


def list_numbers(noun: Token) -> tuple[Number, ...]:
    """Return the number of a noun by its tag and form; both numbers where they leave it open
    ("sheep").
    """
    word = noun.lower_
    # One form for both numbers: only a determiner or numeral can decide.
    if word in ALIKE:
        words_before = {child.lower_ for child in noun.lefts}
        for number, determiners in DETERMINERS_OF_NUMBER.items():
            if words_before & determiners:
                return (number,)
        return ("sg", "pl")

    # The parser tags some plurals as adjectives, and plurals with the capital of a sentence as
    # names.
    is_capitalized = noun.tag_ == "NNP" and noun.is_sent_start
    is_tagged_plural = noun.tag_ in {"NNS", "NNPS", "JJ"} or is_capitalized
    can_be_plural = word.endswith("s") or singularize(word) != word
    if is_tagged_plural and can_be_plural:
        return ("pl",)
    return ("sg",)


def find_agreeing_verbs(subject: Token, number: Number) -> dict[int, str]:
    """Return the forms in a number of the verbs that agree with a noun or pronoun, by token index.

    They are the verbs of its clause, of clauses that are coordinated with its clause, and of its
    relative clauses. Modal verbs, past tenses and participles have one form and are skipped, as are
    the verbs of a coordinated subject.
    """
    forms: dict[int, str] = {}
    for verb in _find_finite_verbs(subject):
        form = inflect_verb(verb, number)
        if form is not None:
            forms[verb.i] = form
    return forms


def find_existential_verb(first: Token) -> Token | None:
    """Return the verb of "there is" that directly precedes a noun phrase and agrees with it; None
    where there is none.

    Args:
        first: First word of the noun phrase.
    """
    if first.i < 2:
        return None
    verb = first.nbor(-1)
    if first.nbor(-2).lower_ == "there" and verb.pos_ in {"VERB", "AUX"}:
        return verb
    return None


def inflect_verb(verb: Token, number: Number) -> str | None:
    """Return the form of a verb in a number; None where the verb needs no other form."""
    word = verb.lower_
    if word in TO_PLURAL | TO_SINGULAR:
        return IRREGULAR_FORMS[number].get(word)  # None: it has the number already
    if number == "pl":
        has_other_number = SINGULAR_VERB.matches(verb) and word.endswith("s")
    else:
        has_other_number = matches_one_of(verb, PLURAL_VERBS) or _is_mistaken_past(verb)
    if not has_other_number:
        return None
    return _inflect(word, PRESENT_TAGS[number])


def _is_mistaken_past(verb: Token) -> bool:
    """Return True for a verb that the parser took for a past tense although it can only be a
    present tense ("pat").
    """
    word = verb.lower_
    is_base_form = getLemma(word, "VERB") == (word,)
    is_past_form = word in getInflection(word, "VBD")
    return verb.tag_ == "VBD" and is_base_form and not is_past_form


def _inflect(word: str, tag: str) -> str | None:
    """Return the form of a verb with a Penn tag; None where there is no such form or it equals the
    word.
    """
    lemmas = getLemma(word, "VERB")
    if not lemmas:
        return None
    forms = getInflection(lemmas[0], tag)
    if not forms or forms[0] == word:
        return None
    return str(forms[0])


def _find_finite_verbs(subject: Token) -> Iterator[Token]:
    """Yield the finite verbs whose subject is a noun or pronoun, in its clause and in its relative
    clauses.
    """
    clause = subject.head
    is_compound_of_verb = subject.dep_ == "compound" and clause.pos_ == "VERB"
    is_subject = subject.dep_ in SUBJECTS or is_compound_of_verb
    # A coordinated subject stays a plural when one of its nouns changes number.
    if is_subject and not _is_coordinated(subject, _get_finite(clause)):
        yield from _add_conjuncts(clause)
    # "a man who is surfing": the verb of the relative clause agrees with the noun.
    for relative in filter(_is_clause_of_noun, subject.children):
        yield from _add_conjuncts(relative)


def _add_conjuncts(verb: Token) -> Iterator[Token]:
    """Yield the finite verb of a clause, and the verbs of later clauses with the same subject
    ("sits and eats").
    """
    finite = _get_finite(verb)
    yield finite
    for conjunct in VERB.select(verb.conjuncts):
        # A clause with another subject agrees with that subject.
        if conjunct.i < verb.i or CLAUSE_SUBJECT.matches_any(conjunct.children):
            continue
        # In "is sitting and eating" the one auxiliary is the finite verb of both.
        shares_auxiliary = finite != verb and _get_finite(conjunct) == conjunct
        if not shares_auxiliary:
            yield _get_finite(conjunct)


def _get_finite(verb: Token) -> Token:
    """Return the first auxiliary of a verb; the verb itself where it has no auxiliary."""
    return next(filter(AUXILIARY.matches, verb.children), verb)


def _is_coordinated(subject: Token, verb: Token) -> bool:
    """Return True where a subject is part of a list, also where the parser does not mark the list."""
    return (
        CONJUNCT.matches_any(subject.children)
        or _is_followed_by_and(subject, verb)
        or _is_preceded_by_and(subject)
    )


def _is_followed_by_and(subject: Token, verb: Token) -> bool:
    """Return True for a noun of a list that is followed by other nouns: "a dog" in "a dog, a cat
    and a bird sit".
    """
    between = subject.doc[subject.i + 1 : verb.i]
    parts_of_speech = {token.pos_ for token in between}
    if "VERB" in parts_of_speech or not CONJUNCTION.matches_any(between):
        return False
    return between[0].text in {",", "and"} and between[-1].text != ","


def _is_preceded_by_and(subject: Token) -> bool:
    """Return True for the last noun of a list at the beginning of the sentence, before any verb."""
    first = subject.left_edge.i
    if first < 2 or subject.doc[first - 1].lower_ != "and":
        return False
    return not VERB.matches_any(subject.doc[:first])


def _is_clause_of_noun(clause: Token) -> bool:
    """Return True for a relative clause whose subject is the relative pronoun: "a man who surfs"."""
    return clause.dep_ == "relcl" and RELATIVE_SUBJECT.matches_any(clause.children)


def find_antecedents(doc: Doc, nouns: Sequence[Token]) -> dict[Token, Token]:
    """Return for each pronoun the noun to which it refers; a pronoun without antecedent is absent.

    The antecedent is the first of all earlier `nouns` that has the number and gender of the
    pronoun, is not the subject of the verb whose object the pronoun is, and is not the noun that
    the phrase of the pronoun modifies.
    """
    antecedents = {}
    for pronoun in PRONOUN.select(doc):
        for noun in nouns:
            if noun.i < pronoun.i and _can_refer(pronoun, noun):
                antecedents[pronoun] = noun
                break
    return antecedents


def find_anaphors(
    noun: Token, number: Number, antecedents: Mapping[Token, Token]
) -> Iterator[tuple[Token, str]]:
    """Yield the pronouns that refer to a noun, each with its form in a number; pronouns of that
    number are skipped.
    """
    for pronoun in CHANGING_PRONOUNS[number].select(antecedents):
        if antecedents[pronoun] != noun:
            continue
        if number == "pl":
            yield pronoun, _pluralize(pronoun)
        else:
            yield pronoun, _singularize(pronoun, noun)


def _pluralize(pronoun: Token) -> str:
    """Return the plural of a pronoun in its position in the clause: "they" for "he"."""
    word = pronoun.lower_
    # "it" and "her" have two plurals: "they" or "their", and "them" as an object.
    is_object = pronoun.tag_ == "PRP" and pronoun.dep_ not in SUBJECTS
    if is_object and word in {"it", "her"}:
        return "them"
    return PLURAL_FORMS[word]


def _singularize(pronoun: Token, noun: Token) -> str:
    """Return the singular of a pronoun in the gender of a noun: "his" for "their" after "men"."""
    neuter, male, female = SINGULAR_FORMS[pronoun.lower_]
    word = singularize(noun.lower_)
    if word in MALE:
        return male
    if word in FEMALE:
        return female
    return neuter


def _can_refer(pronoun: Token, noun: Token) -> bool:
    """Return True where number, position in the clause and gender allow that a pronoun refers to a
    noun.
    """
    word = pronoun.lower_
    number = "pl" if word in SINGULAR_FORMS else "sg"
    if number not in list_numbers(noun):
        return False
    if noun.lower_ in EXCLUDED_NOUNS.get(word, ()):
        return False
    # The position in the clause restricts only personal pronouns that are not reflexive.
    is_reflexive = word.endswith(("self", "selves"))
    is_free = pronoun.tag_ != "PRP" or is_reflexive
    return is_free or not _is_excluded_by_clause(pronoun, noun)


def _is_excluded_by_clause(pronoun: Token, noun: Token) -> bool:
    """Return True where only a reflexive pronoun could refer to the noun, or a modifier of the noun
    has the pronoun.
    """
    if pronoun.dep_ == "dobj":
        return noun.dep_ in SUBJECTS and pronoun.head == noun.head  # "a man washes him"
    if pronoun.dep_ == "pobj":
        # "a man with him".
        return bool(noun.is_ancestor(pronoun) and pronoun.head.head == noun)
    return False
