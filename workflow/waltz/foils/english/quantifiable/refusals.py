"""Reasons why no quantifier can be given to a noun phrase, and the rules that give them.

A phrase is refused where the words around it, its form or its noun leave open whether "exactly one"
and "a number of" make sense. Rules on the form of a phrase refuse what they do not know, such as a
noun without a determiner. Rules on words know the words of their lists alone; WordNet's tables keep
these lists short.
"""

from collections.abc import Callable

from spacy.tokens import Doc

from waltz.foils.english.noun_phrases import NounPhrase
from waltz.foils.english.patterns import TokenPattern
from waltz.foils.english.quantifiable import (
    collective,
    coordination,
    countability,
    distributive,
    doubtful_verbs,
    fixed_expressions,
    grammatical_number,
    mentions,
    misread_verbs,
    names,
    negation,
    phrase_borders,
    predication,
    pronouns,
    quantities,
)

QUESTION = "the text is a question"
REQUEST = "the text is a request"

QUOTATION = "the words are quoted"
TORN_WORD = "a hyphen joins the noun phrase to another word"
PART_OF_PHRASE = "the noun phrase begins before the words that were found"
DOUBTFUL_PARSE = "another word of the sentence may be its verb"
NEGATION = "the sentence has a negation"
NAME = "the noun is part of a name or number"
UNIT = "the noun is a unit of measurement"
OTHER_QUANTITY = "the noun phrase has another quantity"
PART_OF_QUANTITY = "the noun is part of a quantity"
OTHER_FORM = "determiner and noun differ in number"
NO_NOUN = "the word may be a verb"
MODIFIER = "the noun may modify another noun"
NOT_COUNTED = "the noun is not used as one of several things"
NO_OTHER_NUMBER = "the noun has no form in the other number"
AMONG_SEVERAL = "the preposition needs several things"
ANOTHER_FITS = "the text speaks of one of several things, and the foil may fit another"
SHARED_OUT = "several things may each have one of these"
JOINT = "what the caption says needs several things"
FIXED_EXPRESSION = "the noun is part of a fixed expression"
SHARED_ARTICLE = "two nouns or adjectives share one determiner"
PREDICATE = "the noun says what another thing is"
COMPARED = "the thing is only compared"
COUNTED_AGAIN = "a later word counts the things again"
MENTIONED_AGAIN = "the text mentions the thing twice"
UNCLEAR_PRONOUN = "a pronoun may refer to this noun or to another one"
UNCHANGED_VERB = "a verb that may agree with the noun would keep its number"

RULES: tuple[tuple[str, Callable[[NounPhrase], bool]], ...] = (
    # How the phrase is written and parsed.
    (QUOTATION, names.is_in_quotation_marks),
    (QUOTATION, names.is_inscription),
    (TORN_WORD, phrase_borders.begins_inside_word),
    (TORN_WORD, phrase_borders.begins_with_hyphen),
    (TORN_WORD, phrase_borders.follows_dash),
    (TORN_WORD, phrase_borders.ends_inside_word),
    (PART_OF_PHRASE, phrase_borders.follows_determiner),
    (PART_OF_PHRASE, phrase_borders.follows_modifier),
    (PART_OF_PHRASE, phrase_borders.continues_adjectives),
    (DOUBTFUL_PARSE, doubtful_verbs.has_doubtful_verb),
    # The thing is not there, or is one by its name.
    (NEGATION, negation.has_zero),
    (NEGATION, negation.belongs_to_denied_verb),
    (NEGATION, negation.follows_negation),
    (NAME, names.precedes_label),
    (NAME, names.abbreviates_number),
    (NAME, names.is_name),
    # Quantities and the grammatical number.
    (UNIT, quantities.has_unit),
    (OTHER_QUANTITY, quantities.has_superlative),
    (OTHER_QUANTITY, quantities.has_inner_quantity),
    (OTHER_QUANTITY, quantities.has_limited_number),
    (OTHER_QUANTITY, quantities.has_few),
    (OTHER_QUANTITY, quantities.has_unreplaced_word),
    (PART_OF_QUANTITY, quantities.begins_with_of),
    (PART_OF_QUANTITY, quantities.counts_others),
    (PART_OF_QUANTITY, quantities.is_counted_by_noun),
    (OTHER_FORM, grammatical_number.has_singular_determiner),
    (OTHER_FORM, grammatical_number.has_plural_determiner),
    (OTHER_FORM, grammatical_number.has_plural_form),
    # The head does not name a thing that is counted.
    (NO_NOUN, misread_verbs.is_unknown_noun),
    (NO_NOUN, misread_verbs.may_be_verb),
    (MODIFIER, phrase_borders.precedes_noun),
    (MODIFIER, phrase_borders.precedes_modified_noun),
    (MODIFIER, phrase_borders.modifies_picture),
    (NOT_COUNTED, countability.is_tagged_otherwise),
    (NOT_COUNTED, countability.has_own),
    (NOT_COUNTED, countability.is_number_noun),
    (NOT_COUNTED, countability.is_uncounted_plural),
    (NOT_COUNTED, countability.is_uncounted_singular),
    (NO_OTHER_NUMBER, grammatical_number.lacks_singular),
    (NO_OTHER_NUMBER, grammatical_number.lacks_plural),
    # The caption says more about the number of things.
    (AMONG_SEVERAL, collective.follows_among),
    (ANOTHER_FITS, distributive.follows_picked_thing),
    (ANOTHER_FITS, distributive.precedes_picked_image),
    (ANOTHER_FITS, distributive.precedes_counterpart),
    (SHARED_OUT, distributive.follows_distributor),
    (SHARED_OUT, distributive.precedes_each),
    (SHARED_OUT, distributive.belongs_to_several),
    (JOINT, collective.is_collective),
    # The noun stands for something else, or shares its determiner.
    (FIXED_EXPRESSION, fixed_expressions.is_bare_joint_object),
    (FIXED_EXPRESSION, fixed_expressions.is_part_of_preposition),
    (FIXED_EXPRESSION, fixed_expressions.is_time_or_scene),
    (SHARED_ARTICLE, coordination.has_opposite_adjectives),
    (SHARED_ARTICLE, coordination.continues_possessions),
    (SHARED_ARTICLE, coordination.holds_list),
    (SHARED_ARTICLE, coordination.begins_definite_list),
    (SHARED_ARTICLE, coordination.begins_list_of_singulars),
    (PREDICATE, predication.follows_as),
    (PREDICATE, predication.is_attribute),
    (PREDICATE, predication.has_attribute),
    (COMPARED, predication.is_compared),
    # Later words would have to change with the noun.
    (COUNTED_AGAIN, mentions.is_counted_again),
    (MENTIONED_AGAIN, mentions.is_mentioned_again),
    (UNCLEAR_PRONOUN, pronouns.is_stressed),
    (UNCLEAR_PRONOUN, pronouns.has_unclear_pronoun),
    (UNCHANGED_VERB, doubtful_verbs.keeps_verb),
)
"""Reason and condition of each rule; the first condition that holds decides."""

IMPERATIVE = TokenPattern(tags={"VB"}, relations={"ROOT"})


def explain_refusal(phrase: NounPhrase) -> str | None:
    """Return the reason why no quantifier can be given to a phrase of a caption; None where one can."""
    for reason, applies in RULES:
        if applies(phrase):
            return reason
    return None


def find_text_fault(doc: Doc) -> str | None:
    """Return the reason why a text asserts nothing about numbers of things; None where it may."""
    if doc.text.rstrip().endswith("?"):
        return QUESTION
    if doc[:2].text.lower() == "how to":
        return QUESTION
    if IMPERATIVE.matches_any(doc[:1]):
        return REQUEST
    return None
