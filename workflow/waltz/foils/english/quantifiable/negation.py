"""Negations and conditions, under which a thing may not be there."""

from spacy.tokens import Token

from waltz.foils.english.noun_phrases import NounPhrase
from waltz.foils.english.numerals import is_number_sign
from waltz.foils.english.patterns import TokenPattern, matches_one_of
from waltz.foils.english.quantifiable.syntax import OBJECT_OF_PREPOSITION

# From captions of several origins that were read.
NEGATIVE_WORDS = frozenset(
    {
        "absence", "absent", "avoid", "avoiding", "barely", "cannot", "devoid", "except", "excluding", "fail",
        "fails", "hardly", "if", "impossible", "lack", "lacking", "lacks", "may", "maybe", "might", "minus",
        "missing", "n't", "neither", "never", "nil", "no", "nobody", "none", "nor", "not", "nothing", "nowhere",
        "perhaps", "possibly", "rarely", "refuse", "refuses", "scarcely", "seldom", "unclear", "unlike",
        "whether", "without",
    }
)  # fmt: skip
"""Words after which things may not be there."""
NEGATORS = (
    TokenPattern(words=NEGATIVE_WORDS),
    # "it is hard to see a boat", not "a hard hat"
    TokenPattern(words={"difficult", "hard"}, relations={"acomp", "conj", "ROOT"}),
)
ZERO = TokenPattern(words={"0", "zero"})
NEGATION_OF_VERB = TokenPattern(relations={"neg"})
WITHOUT = TokenPattern(words={"without"}, relations={"prep"})
CLAUSE_END = TokenPattern(parts_of_speech={"PUNCT", "CCONJ", "SCONJ", "VERB", "AUX"})


def has_zero(phrase: NounPhrase) -> bool:
    """Return True for no thing at all ("zero people")."""
    return ZERO.matches_any(phrase.determiners)


def belongs_to_denied_verb(phrase: NounPhrase) -> bool:
    """Return True for a noun whose verb is denied ("a dog does not sleep")."""
    return NEGATION_OF_VERB.matches_any(phrase.head.head.children)


def follows_negation(phrase: NounPhrase) -> bool:
    """Return True behind a word that denies the noun ("nobody carries an umbrella")."""
    noun = phrase.head
    earlier_words = noun.doc[noun.sent.start : noun.i]
    negators = (word for word in earlier_words if matches_one_of(word, NEGATORS))
    return any(_denies(negator, noun) for negator in negators)


def _denies(negator: Token, noun: Token) -> bool:
    """Return True where a word of negation denies a later noun.

    "With no" and "without" deny what belongs to their noun, and other nouns only up to the next
    comma, conjunction or verb.
    """
    # "No. 12"
    if is_number_sign(negator):
        return False
    denied_word = negator.head
    if WITHOUT.matches(negator):
        denied_word = negator
    if noun in denied_word.subtree:
        return True
    is_local = denied_word == negator or OBJECT_OF_PREPOSITION.matches(denied_word)
    if not is_local:
        return True
    words_between = noun.doc[denied_word.i : noun.i]
    return not CLAUSE_END.matches_any(words_between)
