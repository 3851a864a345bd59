"""The main verb of an English caption, also where the parser takes the verb for a noun."""

from lemminflect import getAllLemmas
from spacy.tokens import Doc, Token

VERB_TAGS = frozenset({"VB", "VBZ", "VBP", "VBD", "VBG", "VBN"})
SUBJECTS = frozenset({"nsubj", "nsubjpass", "expl", "csubj"})
QUANTITIES = frozenset(
    {
        "couple",
        "dozen",
        "few",
        "hundred",
        "lot",
        "many",
        "million",
        "number",
        "pair",
        "thousand",
    }
)
"""Words after `a` that a plural noun can follow ("a few dogs")."""


def find_main_verb(doc: Doc) -> Token | None:
    """Return the main verb of a caption; None where no verb is found.

    The main verb of a sentence is its lexical verb ("holding" in "A woman is holding a cup."), or a
    form of `be` where there is no lexical verb ("A boy is in the snow."). The main verb of a
    caption that is not a sentence is its first verb ("A man riding a wave").
    """
    root = next((token for token in doc if token.dep_ == "ROOT"), None)
    if root is not None and _is_predicate(root):
        return root

    # The root is no verb: either the parser took the verb for a noun, or the caption is no
    # sentence.
    for token in doc:
        if _is_mistaken_noun(token):
            return token
    for token in doc:
        is_verb = token.tag_ in VERB_TAGS and token.dep_ not in ("amod", "aux")
        if is_verb and _can_be_verb(token):
            return token
    return None


def find_subjects(verb: Token) -> list[Token]:
    """Return the heads of the subjects of a verb in a parse, in the order of the text."""
    return [child for child in verb.children if child.dep_ in SUBJECTS]


def _is_predicate(root: Token) -> bool:
    subjects = find_subjects(root)
    # "a girl wrings": the parser takes subject and verb together for the subject of another word.
    if any(_is_singular_with_verb(subject) for subject in subjects):
        return False
    if root.pos_ in ("VERB", "AUX"):
        return True
    # A verb that the parser took for a noun still has a subject before it.
    has_subject_before = any(subject.i < root.i for subject in subjects)
    return root.pos_ == "NOUN" and has_subject_before


def _is_mistaken_noun(token: Token) -> bool:
    """Return True where the parser takes a word for a noun although it must be a verb."""
    if token.i == 0:
        return False
    if _is_singular_with_verb(token):
        return True
    # A singular noun cannot follow a plural one: in "men surf" the second word is a verb.
    follows_plural = token.nbor(-1).tag_ in ("NNS", "NNPS")
    is_singular = token.tag_ == "NN"
    return (
        follows_plural
        and is_singular
        and token.lower_ in getAllLemmas(token.lower_).get("VERB", ())
    )


def _is_singular_with_verb(token: Token) -> bool:
    """Return True where `a` and a noun precede a word in -s, which must be a verb then ("a girl
    wrings").
    """
    if token.tag_ != "NNS":
        return False

    # Go left over the nouns and adjectives between the article and the word.
    start = token.i
    while start > 0 and token.doc[start - 1].tag_ in ("JJ", "NN", "NNP"):
        start -= 1
    if start == 0 or token.doc[start - 1].lower_ not in ("a", "an"):
        return False

    words = {word.lower_ for word in token.doc[start : token.i]}
    is_quantity = bool(words & QUANTITIES)  # "a couple dogs" has a plural noun
    return bool(words) and not is_quantity


def _can_be_verb(token: Token) -> bool:
    return bool(getAllLemmas(token.lower_).keys() & {"VERB", "AUX"})
