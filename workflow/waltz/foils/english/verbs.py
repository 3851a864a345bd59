"""Verbs of English: their forms, and the main verb of a caption, also where the parser takes it for
a noun.
"""

from itertools import chain, takewhile

from lemminflect import getAllLemmas, getInflection
from spacy.tokens import Doc, Token

from waltz.foils.english.patterns import TokenPattern

VERB = TokenPattern(tags={"VB", "VBZ", "VBP", "VBD", "VBG", "VBN"})
NOT_MAIN_VERB = TokenPattern(relations={"amod", "aux"})
SUBJECT = TokenPattern(relations={"nsubj", "nsubjpass", "expl", "csubj"})
ROOT = TokenPattern(relations={"ROOT"})
SINGULAR_AFTER_PLURAL = TokenPattern(
    tags={"NN"}, before=TokenPattern(tags={"NNS", "NNPS"})
)
# Words between an article and its noun: "young" in "a young girl".
BEFORE_NOUN = TokenPattern(tags={"JJ", "NN", "NNP"})
AFTER_INDEFINITE_ARTICLE = TokenPattern(before=TokenPattern(words={"a", "an"}))
QUANTITY = TokenPattern(
    words={
        "couple", "dozen", "few", "hundred", "lot", "many", "million", "number", "pair", "thousand",
    }
)  # fmt: skip
"""Words after `a` that a plural noun can follow ("a few dogs")."""


def inflect_verb(verb: str, tag: str) -> str:
    """Return the form of a verb with a Penn tag; a word that is not a verb stays unchanged."""
    forms = getInflection(verb, tag)
    return str(forms[0]) if forms else verb


def find_main_verb(doc: Doc) -> Token | None:
    """Return the main verb of a caption; None where no verb is found.

    The main verb of a sentence is its lexical verb ("holding" in "A woman is holding a cup."), or a
    form of `be` where there is no lexical verb ("A boy is in the snow."). The main verb of a
    caption that is not a sentence is its first verb ("A man riding a wave").
    """
    root = ROOT.find(doc)
    if root is not None and _is_predicate(root):
        return root
    # The root is no verb: either the parser took the verb for a noun, or the caption is no
    # sentence.
    mistaken_nouns = filter(_is_mistaken_noun, doc)
    return next(chain(mistaken_nouns, filter(_is_verb, doc)), None)


def find_subjects(verb: Token) -> list[Token]:
    """Return the heads of the subjects of a verb in a parse, in the order of the text."""
    return SUBJECT.select(verb.children)


def _is_predicate(root: Token) -> bool:
    """Return True for a root that is the main verb, also where the parser takes it for a noun."""
    subjects = find_subjects(root)
    # "a girl wrings": the parser takes subject and verb together for the subject of another word.
    if any(map(_is_singular_with_verb, subjects)):
        return False
    if root.pos_ != "NOUN":
        return root.pos_ in ("VERB", "AUX")
    # A verb that the parser took for a noun still has a subject before it.
    return SUBJECT.matches_any(root.lefts)


def _is_mistaken_noun(token: Token) -> bool:
    """Return True where the parser takes a word for a noun although it must be a verb."""
    if _is_singular_with_verb(token):
        return True
    # A singular noun cannot follow a plural one: in "men surf" the second word is a verb.
    is_base_form = token.lower_ in getAllLemmas(token.lower_).get("VERB", ())
    return is_base_form and SINGULAR_AFTER_PLURAL.matches(token)


def _is_singular_with_verb(token: Token) -> bool:
    """Return True where `a` and a noun precede a word in -s, which must be a verb then ("a girl
    wrings").
    """
    # Go left over the nouns and adjectives between the article and the word.
    words_before = reversed(token.doc[: token.i])
    words = list(takewhile(BEFORE_NOUN.matches, words_before))
    if token.tag_ != "NNS" or not words:
        return False
    is_quantity = QUANTITY.matches_any(words)  # "a couple dogs" has a plural noun
    return AFTER_INDEFINITE_ARTICLE.matches(words[-1]) and not is_quantity


def _is_verb(token: Token) -> bool:
    """Return True for a verb that is neither an auxiliary nor a modifier of a noun ("running
    water").
    """
    if not VERB.matches(token) or NOT_MAIN_VERB.matches(token):
        return False
    return not getAllLemmas(token.lower_).keys().isdisjoint({"VERB", "AUX"})
