"""Borders of a noun phrase: hyphens, and words before or after it that belong to it."""

from itertools import filterfalse

from lemminflect import getAllLemmas
from spacy.tokens import Doc, Token

from waltz.foils.english.noun_phrases import HYPHENS, NounPhrase
from waltz.foils.english.patterns import TokenPattern, contains_one_of
from waltz.foils.english.quantifiable.noun_kinds import (
    COLORS,
    PICTURES,
    is_in_wordnet,
    is_picture,
)
from waltz.foils.english.quantifiable.syntax import (
    LINKS,
    NOUN,
    get_words_after,
    get_words_before,
)

HYPHEN = TokenPattern(words=HYPHENS)
OPENING = frozenset({"", " ", "(", "["})
"""Characters behind which a word begins."""
POSSESSIVE_ENDING = TokenPattern(tags={"POS"})
FIRST_DETERMINERS = (
    TokenPattern(tags={"DT", "PDT", "POS", "PRP$", "WP$"}),
    TokenPattern(words={"one"}),
)
"""Words that determine the noun behind them also where a determiner follows ("one a puppy")."""
MODIFIERS = (
    TokenPattern(parts_of_speech={"ADJ", "DET", "NOUN", "NUM", "PROPN"}),
    TokenPattern(tags={"VBN"}),
    # "in sitting poses"
    TokenPattern(tags={"VBG"}, before=TokenPattern(words={"and", "in", "of", "with"})),
    # "inside glowing boxes", where the parser took the participle for an action
    TokenPattern(
        tags={"VBG"},
        relations={"pcomp"},
        head=TokenPattern(excluded_words={"after", "before", "by", "for", "from"}),
    ),
)
"""Words that modify a noun which follows them."""
LINKS_OF_ADJECTIVES = (
    # "a grey but painted wall"
    TokenPattern(words=LINKS, before=TokenPattern(tags={"JJ", "VBN"})),
    # The parser takes some colors for nouns.
    TokenPattern(words=LINKS, before=TokenPattern(words=COLORS)),
    # "an eye-level, wide shot"
    TokenPattern(words={","}, before=TokenPattern(before=HYPHEN)),
)
ADJECTIVE_OF_NOUN = TokenPattern(relations={"amod"})
NOUN_BEHIND_MODIFIER = TokenPattern(
    tags={"NN"}, before=TokenPattern(tags={"VBN", "VBD", "JJ"})
)
COMMA = TokenPattern(words={","})
MODIFIER_IN_LIST = TokenPattern(
    parts_of_speech={"ADJ", "ADV", "NOUN", "PUNCT"}, excluded_words=PICTURES
)


def begins_inside_word(phrase: NounPhrase) -> bool:
    """Return True where a quantifier would stand inside of a word ("a 3-storey house")."""
    doc = phrase.head.doc
    return _is_inside_word(doc, phrase.start) or _is_inside_word(doc, phrase.stem)


def begins_with_hyphen(phrase: NounPhrase) -> bool:
    """Return True for a hyphen behind the determiners ("6-year-old boy")."""
    return HYPHEN.matches(phrase.head.doc[phrase.stem])


def follows_dash(phrase: NounPhrase) -> bool:
    """Return True for a noun directly behind a slash or a spaced dash ("white / blond")."""
    dash = HYPHEN.find(phrase.words[-2:-1])
    return dash is not None and bool(dash.whitespace_)


def ends_inside_word(phrase: NounPhrase) -> bool:
    """Return True for a noun that letters or a hyphen join to the word behind it."""
    if phrase.head.whitespace_:
        return False
    next_character = phrase.head.doc[phrase.head.i + 1 :].text[:1]
    return next_character.isalnum() or next_character in HYPHENS


def follows_determiner(phrase: NounPhrase) -> bool:
    """Return True behind another determiner of the noun ("it's ear")."""
    return contains_one_of(get_words_before(phrase), FIRST_DETERMINERS)


def follows_modifier(phrase: NounPhrase) -> bool:
    """Return True for a bare phrase behind a modifier of its noun ("two shirtless young boys")."""
    if phrase.determiners:
        return False
    return contains_one_of(get_words_before(phrase), MODIFIERS)


def continues_adjectives(phrase: NounPhrase) -> bool:
    """Return True for the last adjective of a list with its noun ("a grey but painted wall")."""
    if phrase.determiners:
        return False
    if not contains_one_of(get_words_before(phrase), LINKS_OF_ADJECTIVES):
        return False
    return ADJECTIVE_OF_NOUN.matches_any(phrase.words[:-1])


def precedes_noun(phrase: NounPhrase) -> bool:
    """Return True before a noun that the parser took for another word ("fire hydrant")."""
    return any(map(_is_only_noun, get_words_after(phrase)))


def precedes_modified_noun(phrase: NounPhrase) -> bool:
    """Return True before a modifier and its noun ("chocolate" in "a chocolate frosted doughnut")."""
    second_word = get_words_after(phrase, 2)[1:]
    return NOUN_BEHIND_MODIFIER.matches_any(second_word)


def modifies_picture(phrase: NounPhrase) -> bool:
    """Return True in a list of modifiers of a picture ("an eye-level, wide shot")."""
    if not COMMA.matches_any(get_words_after(phrase)):
        return False
    later_words = phrase.head.doc[phrase.head.i + 1 :]
    described_noun = next(filterfalse(MODIFIER_IN_LIST.matches, later_words), None)
    return described_noun is not None and is_picture(described_noun.lower_)


def _is_inside_word(doc: Doc, index: int) -> bool:
    """Return True where a word of letters and hyphens goes on at a token."""
    character_before = doc[:index].text_with_ws[-1:]
    if character_before in OPENING or character_before.isspace():
        return False
    follows_possessive = POSSESSIVE_ENDING.matches(doc[index - 1])
    return not follows_possessive


def _is_only_noun(token: Token) -> bool:
    """Return True for a word that is known as a noun, and as nothing else."""
    if set(getAllLemmas(token.lower_)) != {"NOUN"}:
        return False
    return NOUN.matches(token) or is_in_wordnet(token.lower_)
