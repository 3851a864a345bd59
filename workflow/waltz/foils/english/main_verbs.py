"""The main verb of an English caption: from its parse, or from its words where the parser takes it for a noun."""

from lemminflect import getAllLemmas
from spacy.tokens import Doc, Token

VERB_TAGS = frozenset({"VB", "VBZ", "VBP", "VBD", "VBG", "VBN"})
SUBJECTS = frozenset({"nsubj", "nsubjpass", "expl", "csubj"})
QUANTITIES = frozenset({"couple", "dozen", "few", "hundred", "lot", "many", "million", "number", "pair", "thousand"})
"""Words after `a` with which a plural noun can stand."""


def find_main_verb(doc: Doc) -> Token | None:
    """Return the main verb of a caption; None where none is found.

    In a sentence that is its lexical verb ("holding" in "A woman is holding a cup."), or the form of `be` where there
    is no other ("A boy is in the snow."). In a caption that is no sentence it is the first verb ("A man riding a
    wave").
    """
    root = next((token for token in doc if token.dep_ == "ROOT"), None)
    if root is not None and _is_predicate(root):
        return root
    mistaken_nouns = (token for token in doc if _is_mistaken_noun(token))
    verbs = (token for token in doc if token.tag_ in VERB_TAGS and token.dep_ not in ("amod", "aux"))
    return next(mistaken_nouns, None) or next((token for token in verbs if _can_be_verb(token)), None)


def find_subjects(verb: Token) -> list[Token]:
    """Return the heads of the subjects that a parse gives a verb, in the order of the text."""
    return [child for child in verb.children if child.dep_ in SUBJECTS]


def _is_predicate(root: Token) -> bool:
    subjects = find_subjects(root)
    if any(_is_singular_with_verb(subject) for subject in subjects):
        return False
    return root.pos_ in ("VERB", "AUX") or (root.pos_ == "NOUN" and any(subject.i < root.i for subject in subjects))


def _is_mistaken_noun(token: Token) -> bool:
    """Return whether the parser takes a word for a noun that only a verb can be."""
    if not token.i:
        return False
    follows_plural = token.nbor(-1).tag_ in ("NNS", "NNPS")
    return _is_singular_with_verb(token) or (
        follows_plural and token.tag_ == "NN" and token.lower_ in getAllLemmas(token.lower_).get("VERB", ())
    )


def _is_singular_with_verb(token: Token) -> bool:
    """Return whether `a` and a noun stand before a word in -s: in "a girl wrings" the ending is that of a verb."""
    start = token.i
    while start and token.doc[start - 1].tag_ in ("JJ", "NN", "NNP"):
        start -= 1
    words = {word.lower_ for word in token.doc[start : token.i]}
    has_article = start > 0 and token.doc[start - 1].lower_ in ("a", "an")
    return token.tag_ == "NNS" and has_article and bool(words) and not words & QUANTITIES


def _can_be_verb(token: Token) -> bool:
    return bool(getAllLemmas(token.lower_).keys() & {"VERB", "AUX"})
