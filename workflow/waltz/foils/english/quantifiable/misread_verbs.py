"""Verbs that the parser took for nouns."""

from lemminflect import getAllLemmas
from spacy.tokens import Token

from waltz.foils.english.noun_phrases import NounPhrase
from waltz.foils.english.patterns import TokenPattern, matches_one_of
from waltz.foils.english.quantifiable.noun_kinds import (
    COLORS,
    UNCOUNTABLE,
    has_form_in,
    is_being,
    is_in_wordnet,
    is_thing,
    looks_like_participle,
)
from waltz.foils.english.quantifiable.syntax import (
    DETERMINER,
    NOUN,
    PLURAL,
    VERB,
    get_next_word,
    get_words_before,
)
from waltz.foils.english.wordnet import read_words

# The lists of words come from captions of COCO, Flickr30k and other origins that were read.
PARTICIPLES = frozenset({"cut", "hit", "shut", "split", "spread"})
"""Participles that look like nouns ("a slice cut out of a cake")."""
COMMON_NOUN = TokenPattern(parts_of_speech={"NOUN"})
FINITE = TokenPattern(tags={"VBD", "VBP", "VBZ"})
TO = TokenPattern(tags={"TO"})
INFINITIVE_MARK = TokenPattern(tags={"TO"}, relations={"aux"})
SECOND_VERBS = (
    TokenPattern(
        tags={"NNS"},
        head=TokenPattern(tags={"NN", "VBZ"}),
        before=TokenPattern(words={"and"}),
    ),
)
"""Plural that is a second verb, if it does not name a thing ("holds up a cloth and smiles")."""
ONLY_VERBS = (
    # "a girl lying down smiles"
    TokenPattern(tags={"NNS"}, before=TokenPattern(tags={"RP"})),
    # "a biker in red rides"
    TokenPattern(
        tags={"NNS"},
        before=TokenPattern(words=COLORS, before=TokenPattern(words={"in"})),
    ),
)
"""Plural that is the only verb, if it does not name a thing."""
LAST_SUBJECT = TokenPattern(relations={"conj"}, head=TokenPattern(relations={"ROOT"}))


def is_unknown_noun(phrase: NounPhrase) -> bool:
    """Return True for a word that is known, but not as a noun ("the men pray at the alters")."""
    word = phrase.head.lower_
    lemmas = getAllLemmas(word)
    if not lemmas or is_in_wordnet(word):
        return False
    # "thus"
    if not phrase.determiners and word in read_words("adverbs"):
        return True
    return "NOUN" not in lemmas


def may_be_verb(phrase: NounPhrase) -> bool:
    """Return True for a participle, infinitive or present tense that is taken for a noun."""
    if not has_verb_form(phrase.head):
        return False
    if _may_be_participle(phrase):
        return True
    if _is_only_verb(phrase):
        return True
    if stands_before_infinitive(phrase.head):
        return True
    if phrase.determiners:
        return False
    return _follows_subject(phrase) or stands_as_verb(phrase.head)


def has_verb_form(token: Token) -> bool:
    """Return True for a word that is known as a form of a verb."""
    return "VERB" in getAllLemmas(token.lower_)


def stands_before_infinitive(noun: Token) -> bool:
    """Return True for a bare plural that names no thing, before an infinitive ("black tries to look")."""
    if not PLURAL.matches(noun) or DETERMINER.matches_any(noun.lefts):
        return False
    return INFINITIVE_MARK.matches_any(get_next_word(noun)) and not is_thing(noun)


def stands_as_verb(noun: Token) -> bool:
    """Return True for a bare plural that names no thing, where a verb in -s can stand."""
    if not has_verb_form(noun):
        return False
    if is_thing(noun) or has_form_in(noun.lower_, UNCOUNTABLE):
        return False
    if FINITE.matches_any(noun.sent):
        return matches_one_of(noun, SECOND_VERBS)
    return matches_one_of(noun, ONLY_VERBS)


def _may_be_participle(phrase: NounPhrase) -> bool:
    """Return True for a participle behind its noun ("a bull standing", "a slice cut out of it")."""
    word = phrase.head.lower_
    if looks_like_participle(word):
        return True
    return word in PARTICIPLES and NOUN.matches_any(phrase.words[-2:-1])


def _is_only_verb(phrase: NounPhrase) -> bool:
    """Return True for the last word of two subjects without another verb, which the parser takes
    for a noun ("a giraffe and a baby zebra stand near a hut").
    """
    if not LAST_SUBJECT.matches(phrase.head):
        return False
    follows_noun = COMMON_NOUN.matches_any(phrase.words[-2:-1])
    return follows_noun and not VERB.matches_any(phrase.head.sent)


def _follows_subject(phrase: NounPhrase) -> bool:
    """Return True behind "to" or a being ("to exit", "a woman exit")."""
    if TO.matches_any(get_words_before(phrase)):
        return True
    nouns = NOUN.select(phrase.words[-2:-1])
    return any(map(is_being, nouns))
