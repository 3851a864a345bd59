"""Collective readings: the caption says of several things what is not true of one."""

from spacy.tokens import Span, Token

from waltz.foils.english.noun_phrases import NounPhrase
from waltz.foils.english.patterns import TokenPattern
from waltz.foils.english.quantifiable.syntax import can_be_plural, get_words_before

# The lists of words come from captions of COCO, Flickr30k and other origins that were read.
AMONG = TokenPattern(words={"amid", "among", "amongst", "between"})
AMONG_THEM = TokenPattern(words={"them", "themselves"}, before=AMONG)
EACH = TokenPattern(words={"each"})
OTHER = TokenPattern(words={"other"})
VARIETY = TokenPattern(
    words={
        "adjacent", "alternating", "assorted", "contrasting", "different", "differing", "diverse", "identical",
        "matching", "opposing", "opposite", "parallel", "respective", "separate", "varied", "various", "varying",
    }
)  # fmt: skip
"""Words that tell several things apart ("bowls of various sizes")."""
EVERYWHERE = TokenPattern(words={"everywhere", "throughout", "together"})
"""Adverbs of place and manner that one thing does not have."""
HERE_AND = TokenPattern(words={"and"}, before=TokenPattern(words={"here"}))
HERE_AND_THERE = TokenPattern(words={"there"}, before=HERE_AND)
SPREAD = frozenset(
    {
        "assemble", "cluster", "collide", "converge", "disperse", "gather", "huddle", "intersect", "intersperse",
        "overlap", "scatter", "strew",
    }
)  # fmt: skip
"""Verbs whose subject is several things ("scattered across the lawn")."""
SUBJECT_OR_ROOT = TokenPattern(relations={"nsubj", "nsubjpass", "ROOT", "attr"})
JOINT_OBJECTS = frozenset({"arms", "faces", "hands", "places", "sides", "turns"})
JOINT_VERBS = frozenset(
    {
        "get", "hold", "join", "lay", "link", "lock", "make", "shake", "switch", "take", "trade",
    }
)  # fmt: skip
"""Verbs that mean one action with a bare object of the words before ("holding hands")."""
JOINT_WORDS = ({"together"}, {"each", "other"}, {"one", "another"}, {"both"})
"""Words that need several things, each set in one sentence."""


def follows_among(phrase: NounPhrase) -> bool:
    """Return True behind a preposition that needs several things ("between two trees")."""
    return AMONG.matches_any([*get_words_before(phrase), *phrase.determiners])


def is_collective(phrase: NounPhrase) -> bool:
    """Return True for several things that are or do what one alone cannot ("walk arm in arm")."""
    noun = phrase.head
    if not can_be_plural(noun):
        return False
    if _has_collective_modifier(noun):
        return True
    if _is_here_and_there(noun):
        return True
    # "three men with a dog between them"
    if AMONG_THEM.matches_any(noun.sent):
        return True
    if _is_spread(noun):
        return True
    return SUBJECT_OR_ROOT.matches(noun) and _acts_jointly(noun.sent)


def is_joint_object(noun: Token) -> bool:
    """Return True for a noun that is one action with its verb ("holding hands")."""
    return noun.lower_ in JOINT_OBJECTS and noun.head.lemma_ in JOINT_VERBS


def _has_collective_modifier(noun: Token) -> bool:
    """Return True with words that need several things ("sitting next to each other", "of various
    sizes", "lying together").
    """
    words = list(noun.subtree)
    if VARIETY.matches_any(words) or EVERYWHERE.matches_any(words):
        return True
    return EACH.matches_any(words) and OTHER.matches_any(words)


def _is_here_and_there(noun: Token) -> bool:
    """Return True for things in several positions ("a meadow with cows here and there")."""
    later_words = noun.doc[noun.i : noun.sent.end]
    return HERE_AND_THERE.matches_any(later_words)


def _is_spread(noun: Token) -> bool:
    """Return True for what is spread or gathered ("boats scattered on a lake", "people gather")."""
    verbs = (noun.head, *noun.children)
    return any(verb.lemma_ in SPREAD for verb in verbs)


def _acts_jointly(sentence: Span) -> bool:
    """Return True for a sentence about what several do together ("hold hands", "arm in arm")."""
    if any(map(is_joint_object, sentence)):
        return True
    words = [token.lower_ for token in sentence]
    if _repeats_word(words):
        return True
    return any(joint_words.issubset(words) for joint_words in JOINT_WORDS)


def _repeats_word(words: list[str]) -> bool:
    """Return True for a word on both sides of a preposition ("arm in arm", "side by side")."""
    for first, link, last in zip(words, words[1:], words[2:], strict=False):
        is_link = link.isalpha() and link != "and"
        if is_link and first == last:
            return True
    return False
