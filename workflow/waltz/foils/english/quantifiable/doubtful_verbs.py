"""Verbs that the parser joined to another noun than their subject."""

from functools import lru_cache
from itertools import chain, pairwise, starmap

from lemminflect import getAllLemmas
from spacy.tokens import Doc, Span, Token

from waltz.foils.english.noun_phrases import (
    NounPhrase,
    change_verb_number,
    find_agreeing_verbs,
    find_distant_verbs,
)
from waltz.foils.english.nouns import Number
from waltz.foils.english.patterns import TokenPattern, contains_one_of, matches_one_of
from waltz.foils.english.quantifiable.misread_verbs import (
    has_verb_form,
    stands_as_verb,
    stands_before_infinitive,
)
from waltz.foils.english.quantifiable.noun_kinds import is_being, looks_like_participle
from waltz.foils.english.quantifiable.quantities import GROUPS, MEASURES
from waltz.foils.english.quantifiable.syntax import (
    LINK,
    LIST_MEMBER,
    NUMERAL,
    PLURAL,
    SINGULAR_ARTICLE,
    SUBJECT,
    can_be_plural,
    get_next_word,
    get_words_after,
)

# The lists of words come from captions of COCO, Flickr30k and other origins that were read.
POSSESSIVE_VERBS = frozenset(
    {
        "carry", "drink", "eat", "have", "hold", "lift", "raise", "ride", "use", "wave", "wear", "sport",
    }
)  # fmt: skip
"""Verbs whose object each of several subjects can have for itself ("men wear hats")."""
PLURAL_MODIFIERS = frozenset({"arts", "sales", "sports"})
"""Plurals that modify another noun ("a sports car")."""
CLAUSE_WORDS = (
    # "boys ride ponies" as one phrase
    TokenPattern(tags={"NNS"}, excluded_words=PLURAL_MODIFIERS),
    # "whose handles"
    TokenPattern(tags={"DT", "IN", "PRP$", "TO", "VB", "VBP", "VBZ", "WP$"}),
    TokenPattern(words={"...", "…"}),
)
"""Words before a noun that show that the parser took a clause for a noun phrase."""
ADJECTIVE = TokenPattern(parts_of_speech={"ADJ"})
GERUND = TokenPattern(tags={"VBG"})
COMMON_NOUN = TokenPattern(parts_of_speech={"NOUN"})
PRESENT_OF_ONE = TokenPattern(tags={"VBZ"})
AUXILIARY = TokenPattern(relations={"aux", "auxpass"})
RELATIVE_CLAUSE = TokenPattern(relations={"relcl"})
RELATIVE_PRONOUN = TokenPattern(tags={"WDT", "WP"})
DETERMINER_BEHIND_VERB = TokenPattern(
    tags={"DT", "PRP$"}, excluded_words={"all", "both"}
)
OTHER_SUBJECTS = {"VBZ": "NNS", "VBP": "NN"}
"""Tag of nouns that are never the subject of a verb, by its tag."""
FINITE_VERBS_OR_CLAUSES = (
    TokenPattern(tags={"MD", "VBD", "VBP", "VBZ", "WDT", "WP", "WP$", "WRB", ":"}),
    TokenPattern(
        words={
            "after", "although", "as", "because", "before", "but", "if", "since", "so", "that", "though", "until",
            "while",
        }
    ),
)  # fmt: skip
"""Finite verbs, and words behind which the verb of another clause follows."""
LIST_MARK = TokenPattern(words={"and", "or", ","})


def has_doubtful_verb(phrase: NounPhrase) -> bool:
    """Return True where another word of the sentence may be the verb of the phrase ("boys ride
    ponies", "a boy in a kayak paddles").
    """
    if contains_one_of(phrase.words[:-1], CLAUSE_WORDS):
        return True
    if _shares_verb(phrase):
        return True
    if _precedes_verb(phrase):
        return True
    if _holds_participle(phrase):
        return True
    if _begins_with_verb(phrase):
        return True
    return _precedes_doubtful_verb(phrase)


def keeps_verb(phrase: NounPhrase) -> bool:
    """Return True for the first noun of a sentence whose verb the parser joined to a later noun, so
    that the verb would not change with it ("a girl dressed in red and blue walks").
    """
    if phrase.verb is not None or not _opens_sentence(phrase):
        return False
    verb = _find_first_verb(phrase)
    if verb is None:
        return False
    # "men and women walk" stays a plural with one man.
    if can_be_plural(phrase.head) and _is_in_list_before(phrase, verb):
        return False
    new: Number = "sg" if can_be_plural(phrase.head) else "pl"
    # A verb that changes with the noun shows that the parser joined them.
    if _changes_verb_before(phrase, new, verb.i + 1):
        return False
    return change_verb_number(verb, new) is not None


def _shares_verb(phrase: NounPhrase) -> bool:
    """Return True for one of several subjects that the parser gave one verb in the singular ("a
    group, and a girl is saying").
    """
    verb = phrase.head.head
    subjects = SUBJECT.select(verb.children)
    if phrase.head not in subjects or len(subjects) == 1:
        return False
    # "a boy, six cacti and a cow"
    words_behind_subjects = chain.from_iterable(map(get_next_word, subjects))
    if LINK.matches_any(words_behind_subjects):
        return False
    return PRESENT_OF_ONE.matches_any([verb, *verb.lefts])


def _precedes_verb(phrase: NounPhrase) -> bool:
    """Return True before a verb that the parser took for an adjective ("two paths intersect")."""
    for word in ADJECTIVE.select(get_words_after(phrase)):
        lemmas = getAllLemmas(word.lower_)
        if "ADJ" not in lemmas and word.lower_ in lemmas.get("VERB", ()):
            return True
    return False


def _holds_participle(phrase: NounPhrase) -> bool:
    """Return True for a being and what it does to something, joined to one noun ("a dragon
    breathing fire").
    """
    return any(starmap(_is_being_with_participle, pairwise(phrase.words)))


def _is_being_with_participle(noun: Token, word: Token) -> bool:
    return looks_like_participle(word.lower_) and is_being(noun)


def _begins_with_verb(phrase: NounPhrase) -> bool:
    """Return True for a number and a verb that the parser joined to the object ("two wearing hats")."""
    first_word = phrase.words[0]
    if not NUMERAL.matches_any(phrase.determiners):
        return False
    return GERUND.matches(first_word) and first_word.lemma_ in POSSESSIVE_VERBS


def _precedes_doubtful_verb(phrase: NounPhrase) -> bool:
    """Return True for a phrase that holds, or before, a word that may be a verb of its sentence."""
    known_words = {phrase.head.i}
    if phrase.verb is not None:
        known_words.add(phrase.verb.i)
    sentence = phrase.head.sent
    verbs = _find_doubtful_verbs(phrase.head.doc, sentence.start, sentence.end)
    return any(verb >= phrase.start for verb in verbs - known_words)


@lru_cache(maxsize=8)
def _find_doubtful_verbs(doc: Doc, start: int, end: int) -> frozenset[int]:
    """Return the plural nouns of a sentence that may be verbs, each behind another noun, and the
    verbs that disagree with their subjects.
    """
    sentence = doc[start:end]
    plurals = filter(_is_doubtful_plural, sentence)
    roots = (chunk.root for chunk in filter(_ends_with_verb, sentence.noun_chunks))
    verbs = filter(_disagrees_with_subject, sentence)
    return frozenset(token.i for token in chain(plurals, roots, verbs))


def _is_doubtful_plural(token: Token) -> bool:
    """Return True for a plural that may be a verb: no such noun is known, or words around it fit a
    verb.
    """
    if not PLURAL.matches(token) or not has_verb_form(token):
        return False
    # With a subject, the other rules take it for a verb.
    if SUBJECT.matches_any(token.children):
        return False
    if "NOUN" not in getAllLemmas(token.lower_):
        return True
    # "dogs sleeps"
    word_before = token.doc[max(token.i - 1, token.sent.start) : token.i]
    if PLURAL.matches_any(word_before):
        return True
    # "a cat bats a ball"
    if DETERMINER_BEHIND_VERB.matches_any(get_next_word(token)):
        return True
    return stands_before_infinitive(token) or stands_as_verb(token)


def _ends_with_verb(chunk: Span) -> bool:
    """Return True for a singular noun with a verb in -s that the parser joined ("a boy paddles")."""
    if not PLURAL.matches(chunk.root) or not has_verb_form(chunk.root):
        return False
    is_one = SINGULAR_ARTICLE.matches(chunk[0])
    return is_one and COMMON_NOUN.matches_any(chunk[1:-1])


def _disagrees_with_subject(verb: Token) -> bool:
    """Return True for a present tense whose subject has another number, or that the parser took
    for a participle: it misread the sentence ("a teddy bear", "two bones is barking").
    """
    if verb.tag_ not in OTHER_SUBJECTS:
        return False
    clause = verb.head if AUXILIARY.matches(verb) else verb
    subjects = SUBJECT.select(clause.children)
    if not subjects:
        return bool(verb.dep_ == "acl")
    # "a boy, a cow and two dogs are", of which the parser makes several subjects
    if len(subjects) > 1:
        return False
    subject = subjects[0]
    # "a bag that has": the verb agrees with the bag.
    if RELATIVE_PRONOUN.matches(subject) and RELATIVE_CLAUSE.matches(clause):
        subject = clause.head
    if LIST_MEMBER.matches_any([subject, *subject.subtree]):
        return False
    # "a number of boats lie there", "a group of people wait"
    if subject.lower_ in MEASURES | GROUPS:
        return False
    return bool(subject.tag_ == OTHER_SUBJECTS[verb.tag_])


def _opens_sentence(phrase: NounPhrase) -> bool:
    """Return True for a phrase before which its sentence has no word."""
    words_before = phrase.head.doc[phrase.head.sent.start : phrase.start]
    return not any(token.is_alpha for token in words_before)


def _find_first_verb(phrase: NounPhrase) -> Token | None:
    """Return the first finite verb behind a phrase, or the word before it that begins another
    clause; None where its sentence has neither.
    """
    later_words = phrase.head.doc[phrase.head.i + 1 : phrase.head.sent.end]
    for word in later_words:
        if matches_one_of(word, FINITE_VERBS_OR_CLAUSES):
            return word
    return None


def _is_in_list_before(phrase: NounPhrase, verb: Token) -> bool:
    """Return True where a comma, "and" or "or" stands between a phrase and a verb."""
    words_between = phrase.head.doc[phrase.head.i + 1 : verb.i]
    return LIST_MARK.matches_any(words_between)


def _changes_verb_before(phrase: NounPhrase, new: Number, end: int) -> bool:
    """Return True where a verb before a position changes with the noun."""
    changed_verbs = set(find_agreeing_verbs(phrase.head, new))
    changed_verbs.update(verb.i for verb in find_distant_verbs(phrase))
    return any(position < end for position in changed_verbs)
