"""Simplified captions: the sentence of subject, verb and object of a caption (CV-Probes 3.3).

Words are removed from a caption, and none is written anew except its articles. Whatever the rules
do not name stays, so that particles, compounds, negations and numbers are kept. A caption of which
the rules cannot make a sentence is refused.
"""

from collections.abc import Iterator, Sequence
from itertools import chain

from lemminflect import getInflection
from spacy.tokens import Doc, Token

from waltz.foils.candidates import Refusal
from waltz.foils.english.nouns import add_article
from waltz.foils.english.parsing import parse
from waltz.foils.english.patterns import TokenPattern, matches_one_of
from waltz.foils.english.sentences import write_sentence
from waltz.foils.english.verbs import (
    ROOT,
    SINGULAR_AFTER_PLURAL,
    find_main_verb,
    find_subjects,
)

# Verb and subject.
VERB = TokenPattern(parts_of_speech={"VERB", "AUX"})
FINITE = TokenPattern(tags={"VBZ", "VBP", "VBD", "MD"})
ARTICLE = TokenPattern(words={"a", "an", "the"})
OBJECT = TokenPattern(relations={"dobj", "attr"})
AUXILIARY = TokenPattern(relations={"aux", "auxpass"})
RELATIVE = TokenPattern(tags={"WDT", "WP", "WP$", "WRB"})
"""Words of a question or a relative clause."""
EMPTY_SUBJECT = TokenPattern(words={"it"}, relations={"expl"})
# "that the sign means no profanity" in "I am assuming that the sign means no profanity"
CLAUSE_OBJECT = TokenPattern(relations={"ccomp", "csubj", "csubjpass"})
PLURAL_NOUN = TokenPattern(tags={"NNS"})
STAND_IN_TRANSITIVE = "sees"
STAND_IN_INTRANSITIVE = "sits"
"""Verbs that the parser reads right, in place of verbs that it takes for nouns."""

# Noun phrases.
NOUN = TokenPattern(parts_of_speech={"NOUN", "PROPN", "PRON", "NUM"})
COMMON_NOUN = TokenPattern(parts_of_speech={"NOUN"})
NOUN_MODIFIER = TokenPattern(
    relations={
        "compound", "nmod", "npadvmod", "nummod", "poss", "predet", "quantmod",
    }
)  # fmt: skip
EACH_OTHER = TokenPattern(words={"other", "another"}, relations={"dobj", "pobj"})
ADJECTIVE = TokenPattern(relations={"amod"})
DETERMINER = TokenPattern(relations={"det", "predet"})
COMPOUND = TokenPattern(relations={"compound"})
CONJUNCT = TokenPattern(relations={"conj"}, parts_of_speech={"NOUN", "PROPN", "PRON"})
CONJUNCTION = TokenPattern(relations={"cc"})
COMMA = TokenPattern(words={","})
OF = TokenPattern(words={"of"}, relations={"prep"})
OBJECT_OF = TokenPattern(relations={"pobj"})
QUANTITIES = frozenset({
    "another", "both", "different", "double", "entire", "few", "fewer", "first", "fourth", "half", "last", "least",
    "less", "many", "more", "most", "much", "multiple", "next", "numerous", "only", "other", "own", "same", "second",
    "several", "single", "such", "third", "various", "whole",
})  # fmt: skip
"""Adjectives that say how many, or which one."""
NOT_THE_THING = frozenset({
    "artificial", "broken", "carved", "dead", "empty", "fake", "former", "imaginary", "mid", "miniature", "mock",
    "model", "painted", "plastic", "stuffed", "teddy", "toy", "unused", "virtual",
})  # fmt: skip
"""Adjectives without which a noun names another thing ("a toy car" is no car)."""
NAMES = frozenset({
    "artistic creation", "floppy disk", "hot dog", "hot dogs", "hot pot", "metallic element", "musical instrument",
    "mobile home", "spinal column", "young buck", "young bucks",
})  # fmt: skip
"""Adjective and noun that together name a thing."""
COMPOUND_ADJECTIVE = TokenPattern(
    relations={"amod"},
    words={
        "beautiful", "big", "black", "blue", "brown", "colorful", "empty", "gray", "green", "grey", "huge", "large",
        "long", "new", "old", "older", "orange", "pink", "purple", "red", "short", "small", "tall", "tiny", "white",
        "yellow", "young",
    },
)  # fmt: skip
"""Adjectives before a compound that describe the thing; others may belong to the compound ("high
school student").
"""
KEPT_ADJECTIVE = TokenPattern(words=QUANTITIES | NOT_THE_THING)
INDEFINITE_ARTICLES = ("a", "an")

# The predicate.
PHRASE_END = TokenPattern(
    relations={"advcl", "acl", "relcl", "mark", "conj", "cc", "ccomp", "npadvmod"}
)
CLAUSE_SIGN = TokenPattern(
    parts_of_speech={"PUNCT", "SCONJ"}, excluded_words={"-", "after", "upon"}
)
PROPERTY = TokenPattern(parts_of_speech={"ADJ"})
INFINITIVE_SIGN = TokenPattern(tags={"TO"})
PARTICIPLE = TokenPattern(
    tags={"VBG"},
    # "punching" in "is miming punching a statue" continues the verb.
    before=TokenPattern(parts_of_speech={"NOUN", "ADP", "ADV", "ADJ"}),
)
ADVERB = TokenPattern(parts_of_speech={"ADV"}, relations={"advmod"})
NEGATIONS = frozenset({"barely", "hardly", "never", "not", "rarely", "seldom"})
FREE_ADVERBS = frozenset({
    "alone", "also", "away", "currently", "just", "now", "outdoors", "outside", "quite", "really", "still", "together",
    "very",
})  # fmt: skip
"""Adverbs that can be removed, as can those in -ly."""
COMPLEMENTS = frozenset({
    "alone", "away", "indoors", "inside", "outdoors", "outside", "together",
})  # fmt: skip
"""Adverbs that complete a form of "be" ("Two men are outdoors")."""
PARTICLE = TokenPattern(relations={"prt"})
PREPOSITION = TokenPattern(parts_of_speech={"ADP"}, relations={"prep", "agent"})
VERBS_OF_PLACING = frozenset({"lay", "place", "put", "set"})
"""Verbs that need an object and a place."""
RECIPIENT = TokenPattern(
    relations={"dative"}, parts_of_speech={"NOUN", "PROPN", "PRON"}
)

NO_VERB = "no main verb is found"
NO_SUBJECT = "no subject is found"
NO_SENTENCE = "the caption is no sentence"
QUESTION = "the caption is a question"
UNCLEAR_SUBJECT = "words before its subject belong to no phrase"
CLAUSE = "its verb needs a clause"
NO_OBJECT = "a preposition has no object"


def simplify_caption(doc: Doc) -> str | Refusal:
    """Return the sentence of subject, verb and object of a caption's main clause, or a refusal.

    Adjectives, adverbs, clauses and later phrases are removed; numbers, negations, particles,
    possessives and compounds stay. Without an object, the first phrase with a preposition stays
    ("A boy is in the snow."). Articles fit the words after them.

    Source: CV-Probes 3.3, where people wrote the simplified captions.
    """
    verb = find_main_verb(doc)
    if verb is None:
        return Refusal(NO_VERB)
    words = doc  # the words of the caption, by index of a token
    if _is_misread(verb):
        doc = _parse_with_stand_in(verb)
        verb = doc[verb.i]
    refusal = _refuse(doc, verb)
    if refusal is not None:
        return refusal

    # The words that stay, in the order of the caption.
    subject = find_subjects(verb)[0]
    predicate = _collect_predicate(verb)
    if PREPOSITION.matches(predicate[-1]):
        return Refusal(NO_OBJECT)
    words_left = {*_collect_noun(subject), *_collect_verb(subject, verb), *predicate}
    indices = sorted(token.i for token in words_left)
    return write_sentence(_join_words([words[index] for index in indices]))


def _is_misread(verb: Token) -> bool:
    """Return True for a finite verb that the parser took for a noun, or joined with its subject."""
    if VERB.matches(verb):
        return FINITE.matches(verb) and not find_subjects(verb)
    return matches_one_of(verb, (PLURAL_NOUN, SINGULAR_AFTER_PLURAL))


def _parse_with_stand_in(verb: Token) -> Doc:
    """Return the parse of a caption in which another verb stands for a verb that the parser took
    for a noun ("paws").
    """
    next_words = verb.doc[verb.i + 1 : verb.i + 2]
    is_intransitive = any(word.pos_ in ("ADP", "PUNCT", "ADV") for word in next_words)
    # The parser reads a verb with an object best where the stand-in takes one, too.
    stand_in = STAND_IN_INTRANSITIVE if is_intransitive else STAND_IN_TRANSITIVE
    text = verb.doc.text
    end = verb.idx + len(verb)
    (doc,) = parse([f"{text[: verb.idx]}{stand_in}{text[end:]}"])
    return doc


def _refuse(doc: Doc, verb: Token) -> Refusal | None:
    """Return the refusal of a caption that has no main clause of subject and finite verb; else
    None.
    """
    if _is_question(doc):
        return Refusal(QUESTION)
    if _is_participle_clause(verb):
        return Refusal(NO_SENTENCE)
    subjects = find_subjects(verb)
    if RELATIVE.matches_any(subjects):
        return Refusal(NO_SENTENCE)
    if not subjects or ARTICLE.matches(subjects[0]):
        return Refusal(NO_SUBJECT)
    if EMPTY_SUBJECT.matches_any(subjects):
        return Refusal(CLAUSE)
    if CLAUSE_OBJECT.matches_any(verb.children):
        return Refusal(CLAUSE)
    if not _is_start(subjects[0], verb):
        return Refusal(UNCLEAR_SUBJECT)
    return None


def _is_question(doc: Doc) -> bool:
    ends_as_question = doc.text.rstrip().endswith("?")
    return ends_as_question or RELATIVE.matches(doc[0])


def _is_participle_clause(verb: Token) -> bool:
    """Return True for a verb that is not the finite verb of a sentence ("A man riding a wave")."""
    if not ROOT.matches(verb):
        return True
    if FINITE.matches_any(AUXILIARY.select(verb.lefts)):
        return False
    if verb.tag_ == "VB":
        return False
    # "topped" in "A plate topped with food" has the tag of a past tense.
    if verb.tag_ == "VBD" and _may_be_passive(verb):
        return True
    return not FINITE.matches(verb)


def _may_be_passive(verb: Token) -> bool:
    """Return True for the form of a past participle without an object."""
    is_participle = verb.lower_ in getInflection(verb.lemma_, "VBN")
    return is_participle and not OBJECT.matches_any(verb.rights)


def _is_start(subject: Token, verb: Token) -> bool:
    """Return True for a subject before its verb, after nothing but phrases and adverbs of the verb."""
    if subject.i > verb.i:
        return False
    phrases = [
        child for child in verb.lefts if child.dep_ in ("prep", "advmod", "punct")
    ]
    allowed = set(chain.from_iterable(phrase.subtree for phrase in phrases))
    words_before = subject.doc[: subject.left_edge.i]
    return allowed.issuperset(words_before)


def _collect_verb(subject: Token, verb: Token) -> Iterator[Token]:
    """Yield the verb and the words between subject and verb that belong to it."""
    for child in verb.lefts:
        is_negation = child.dep_ == "neg" or child.lower_ in NEGATIONS
        if child.i > subject.i and (AUXILIARY.matches(child) or is_negation):
            yield child
    yield verb


def _collect_predicate(verb: Token) -> list[Token]:
    """Return the verb and the words after it, up to its first noun phrase and what it needs.

    The order of the words decides, not the parse, which attaches many phrases wrongly.
    """
    tokens = [verb]
    doc = verb.doc
    index = verb.i + 1
    while index < len(doc) and not _ends_predicate(doc[index]):
        token = doc[index]
        if _heads_noun_phrase(token):
            phrase = _collect_noun(token)
            # Words before the head were passed already.
            tokens = [word for word in tokens if word.i < token.left_edge.i] + phrase
            if not _needs_more(verb, token):
                break
            index = phrase[-1].i
        elif not _is_free_adverb(token):
            tokens.append(token)
        index += 1
    # "up" in "is picking the ball up"
    return [*tokens, *PARTICLE.select(verb.rights)]


def _ends_predicate(token: Token) -> bool:
    """Return True for the first word of a clause, of another verb, or of the end of the sentence."""
    if CLAUSE_SIGN.matches(token) or PARTICIPLE.matches(token):
        return True
    # "to" of "is jumping to catch a ball" begins the clause of its verb.
    word = token.head if INFINITIVE_SIGN.matches(token) else token
    # The modifiers before a noun belong to its phrase.
    is_clause = PHRASE_END.matches(word) and word.head.i < word.i
    return is_clause and not matches_one_of(word.head, (NOUN, PROPERTY))


def _heads_noun_phrase(token: Token) -> bool:
    """Return True for a noun that is not a modifier of a later noun."""
    if EACH_OTHER.matches(token):
        return True
    is_before_noun = COMMON_NOUN.matches_any(token.doc[token.i + 1 : token.i + 2])
    is_modifier = NOUN_MODIFIER.matches(token) and token.head.i > token.i
    return NOUN.matches(token) and not is_modifier and not is_before_noun


def _needs_more(verb: Token, noun: Token) -> bool:
    """Return True where a sentence with a noun as its last word would lack an object or a place."""
    if RECIPIENT.matches(noun):
        return True
    is_object = noun.dep_ == "dobj" and noun.head == verb
    return is_object and verb.lemma_ in VERBS_OF_PLACING


def _is_free_adverb(token: Token) -> bool:
    """Return True for an adverb without which the sentence is still true."""
    if not ADVERB.matches(token) or token.n_rights > 0:
        return False
    word = token.lower_
    if word in NEGATIONS:
        return False
    # "Two men are outdoors"
    if word in COMPLEMENTS and token.head.lemma_ == "be":
        return False
    return word in FREE_ADVERBS or word.endswith("ly")


def _collect_noun(head: Token) -> list[Token]:
    """Return the tokens of a noun phrase in their order: what precedes the noun without its
    adjectives, the noun, its phrase with "of" and its conjuncts.
    """
    removed = set(chain.from_iterable(map(_list_removed, _find_free_adjectives(head))))
    # Words that no rule names stay, such as numbers, possessives and parts of compounds.
    doc = head.doc
    tokens: list[Token] = []
    for token in doc[head.left_edge.i : head.i]:
        if token not in removed and not COMMA.matches(token):
            tokens.append(token)
    tokens.append(head)
    for preposition in OF.select(head.rights):
        objects = OBJECT_OF.select(preposition.children)
        if preposition.i == head.i + 1 and objects:
            tokens += [preposition, *_collect_noun(objects[0])]
    for conjunct in CONJUNCT.select(head.rights):
        tokens += _collect_conjunct(head, conjunct)
    return sorted(tokens, key=lambda token: token.i)


def _find_free_adjectives(head: Token) -> Iterator[Token]:
    """Yield the adjectives of a noun that can be removed, and those of its compound that do not
    belong to the name of a thing ("red" in "a red fire hydrant").
    """
    for adjective in ADJECTIVE.select(head.lefts):
        if not _is_kept_adjective(adjective, head):
            yield adjective
    for compound in COMPOUND.select(head.lefts):
        yield from COMPOUND_ADJECTIVE.select(compound.lefts)


def _list_removed(adjective: Token) -> list[Token]:
    """Return the words to remove with an adjective; none where it is a part of a longer word or has
    a noun ("double-decker").
    """
    words = list(adjective.subtree)
    next_word = adjective.doc[words[-1].i + 1]
    if COMMON_NOUN.matches_any(words):
        return []
    if "-" in (words[-1].text, next_word.text):
        return []
    return [word for word in words if not DETERMINER.matches(word)]


def _collect_conjunct(head: Token, conjunct: Token) -> list[Token]:
    """Return a conjunct of a noun with the comma and the conjunction before it."""
    between = head.doc[head.i + 1 : conjunct.left_edge.i]
    # The comma or "and" of this conjunct, not of a clause between both.
    nearest: list[Token] = []
    for sign in between:
        if matches_one_of(sign, (CONJUNCTION, COMMA)) and sign.head in (head, conjunct):
            nearest.append(sign)
    return [*nearest, *_collect_noun(conjunct)]


def _is_kept_adjective(adjective: Token, noun: Token) -> bool:
    """Return True for an adjective that says how many or which, or belongs to the name of a thing."""
    name = f"{adjective.lower_} {noun.lower_}"
    return KEPT_ADJECTIVE.matches(adjective) or name in NAMES


def _join_words(tokens: Sequence[Token]) -> str:
    """Return the text of tokens of one caption, with articles that fit the words after them."""
    words: list[str] = []
    for token, next_token in zip(tokens, [*tokens[1:], None], strict=True):
        word = token.text
        # Only an article whose next word was removed is repaired.
        if next_token is not None and next_token.i != token.i + 1:
            word = _repair_article(word, next_token)
        follows_directly = words and not token.doc[token.i - 1].whitespace_
        words.append(word if follows_directly else f" {word}")
    return "".join(words).strip()


def _repair_article(word: str, next_token: Token) -> str:
    """Return `a` or `an` as the next word needs it, in the case of the word; other words stay."""
    if word.lower() not in INDEFINITE_ARTICLES:
        return word
    return add_article(next_token.text).split()[0]
