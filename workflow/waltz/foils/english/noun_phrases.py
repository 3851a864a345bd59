"""Noun phrases of a parse, and the verbs and pronouns that agree with them, with their forms in the
other number.

The functions correct known mistakes of the parser on captions.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from lemminflect import getAllLemmas, getInflection, getLemma
from spacy.tokens import Doc, Span, Token

from waltz.foils.english.nouns import (
    PLURAL_QUANTITIES,
    QUANTITIES,
    SINGULAR_DETERMINERS,
    Number,
    has_other_singular,
    singularize,
)
from waltz.foils.english.patterns import TokenPattern, matches_one_of

# Words of a noun phrase.
DETERMINER = TokenPattern(tags={"CD", "DT", "PDT", "PRP$", "POS"})
REPLACED_WORDS = (
    TokenPattern(words=QUANTITIES),
    # "about" in "about two dogs"
    TokenPattern(relations={"quantmod"}),
)
"""Words that a quantifier replaces whatever their tag."""
PLURAL_QUANTITY = TokenPattern(words=PLURAL_QUANTITIES)
SINGULAR_DETERMINER = TokenPattern(words=SINGULAR_DETERMINERS)
INDEFINITE_ARTICLE = TokenPattern(words={"a", "an"})
MODIFIER = TokenPattern(
    relations={
        "det", "predet", "amod", "compound", "nummod", "nmod", "poss", "quantmod", "advmod",
    }
)  # fmt: skip

# Phrases that get no quantifier.
NEGATED = "the caption says that there is none"
EACH_ONE = "the caption speaks of each one"
IN_PREPOSITION = "the noun is part of a preposition"
AFTER_WITHOUT = TokenPattern(before=TokenPattern(words={"without"}))
REJECTED_DETERMINERS = (
    (TokenPattern(words={"any", "no"}), NEGATED),
    (TokenPattern(words={"each", "every"}), EACH_ONE),
)
"""Determiners that no quantifier can replace, each with the reason."""
PLACE_PREPOSITION = re.compile("(in|on) (back|front|side|top) of")

# Heads of noun phrases, and what separates phrases.
PLACE_ADVERBS = {"indoors", "outdoors", "upstairs", "downstairs", "overhead", "nearby"}
"""Adverbs that the parser tags as nouns."""
COMMON_NOUN = TokenPattern(parts_of_speech={"NOUN"})
PROPER_NOUN = TokenPattern(tags={"NNP", "NNPS"})
PART_OF_NAME = TokenPattern(tags={"NNP"})
HEAD = TokenPattern(parts_of_speech={"NOUN", "PROPN"}, excluded_words=PLACE_ADVERBS)
COMMA_AFTER_NOUN = TokenPattern(words={","}, before=TokenPattern(relations={"nmod"}))
# "outdoors" in "a dog outdoors", which the parser takes for a compound.
ADVERB_AFTER_NOUN = TokenPattern(
    words=PLACE_ADVERBS, before=TokenPattern(relations={"compound", "nmod"})
)
QUOTATION_MARK = TokenPattern(words={'"'})
AND = TokenPattern(words={"and"})
HYPHENS = {"-", "/", "–"}
FULL_VERB = TokenPattern(parts_of_speech={"VERB"})
FREE_NOUNS = (
    # A noun of a list or an apposition: "a cat" in "dogs, a cat".
    TokenPattern(
        parts_of_speech={"NOUN"},
        tags={"NN", "NNS"},
        relations={"conj", "appos"},
        excluded_words=PLACE_ADVERBS,
    ),
    # A subject that the parser takes for a part of a compound: "dogs" in "dogs swim".
    TokenPattern(
        parts_of_speech={"NOUN"},
        tags={"NNS"},
        relations={"compound"},
        head=FULL_VERB,
    ),
)
"""Nouns that are the head of a phrase although the parser has no chunk for them."""
VERB_OF_SINGULAR = TokenPattern(
    tags={"NNS"},
    relations={"ROOT", "ccomp", "advcl"},
    before=TokenPattern(tags={"NN"}, relations={"compound"}),
)
"""Verb in -s that the parser takes for a plural noun ("grins" in "a girl grins")."""
VERB_OF_PLURAL = TokenPattern(
    tags={"NN"},
    relations={"ROOT"},
    before=TokenPattern(tags={"NNS"}, relations={"compound"}),
)
"""Verb that the parser takes for a singular noun ("grin" in "two girls grin")."""
# "bathtub" in "a bathtub, window and a sink"; the parser takes some such nouns for adjectives.
NOUN_BEFORE_BREAK = TokenPattern(parts_of_speech={"NOUN", "PROPN", "ADJ"})

# Number of nouns.
ALIKE = TokenPattern(
    words={"aircraft", "bison", "cattle", "deer", "fish", "moose", "salmon", "sheep"}
)
"""Countable nouns with one form for singular and plural."""
PLURAL_TAGS = {"NNS", "NNPS", "JJ"}
"""Tags of plural nouns; the parser takes some of them for adjectives."""
SENTENCE_PLURAL_TAGS = {*PLURAL_TAGS, "NNP"}
"""Tags of plural nouns at the start of a sentence."""

# Verbs that agree with a noun.
SUBJECTS = {"nsubj", "nsubjpass"}
VERB = TokenPattern(parts_of_speech={"VERB", "AUX"})
SUBJECT_PATTERNS = (
    TokenPattern(relations=SUBJECTS),
    # The parser takes some subjects for a part of a compound with the verb.
    TokenPattern(relations={"compound"}, head=FULL_VERB),
)
VERB_AFTER_THERE = TokenPattern(
    parts_of_speech={"VERB", "AUX"}, before=TokenPattern(words={"there"})
)
# "is" in "a dog is running", "has" and "been" in "has been seen".
AUXILIARY = TokenPattern(relations={"aux", "auxpass"})
FINITE_VERB = TokenPattern(tags={"VBZ", "VBP"})
ADVERBIAL = TokenPattern(relations={"prep", "advmod"})
CLAUSE_SUBJECT = TokenPattern(relations={*SUBJECTS, "expl"})
# "who" in "a man who surfs": the verb of the clause agrees with "man".
RELATIVE_SUBJECT = TokenPattern(words={"who", "that", "which"}, relations=SUBJECTS)
CONJUNCTION = TokenPattern(words={"and"}, parts_of_speech={"CCONJ"})
CONJUNCT = TokenPattern(relations={"conj"})

PRESENT_TAGS: dict[Number, str] = {"sg": "VBZ", "pl": "VBP"}
SINGULAR_VERB = TokenPattern(tags={"VBZ", "NNS"})
"""Verb in -s; the parser may take it for a plural noun."""
PLURAL_VERBS = (
    TokenPattern(tags={"VBP", "NN"}),
    # As root or conjunct the tag of an infinitive is a mistake for the present.
    TokenPattern(tags={"VB"}, relations={"ROOT", "conj"}),
)
"""Present tenses without -s; infinitives agree with no subject."""
TO_PLURAL = {
    "is": "are",
    "was": "were",
    "'s": " are",
    "has": "have",
    "does": "do",
    "am": "are",
}
TO_SINGULAR = {"are": "is", "were": "was", "'re": " is", "have": "has", "do": "does"}
IRREGULAR_FORMS: dict[Number, dict[str, str]] = {"pl": TO_PLURAL, "sg": TO_SINGULAR}
"""Forms of irregular verbs in a number, by their form in the other number."""

# Pronouns that refer to a noun.
MALE = {
    "boy", "brother", "businessman", "dad", "father", "fireman", "gentleman", "grandfather", "groom", "guy", "husband",
    "male", "man", "policeman", "son",
}  # fmt: skip
FEMALE = {
    "bride", "daughter", "female", "girl", "grandmother", "lady", "mom", "mother", "sister", "wife", "woman",
}  # fmt: skip
PEOPLE = MALE | FEMALE | {
    "adult", "artist", "baby", "baseman", "batter", "bicyclist", "biker", "boarder", "catcher", "chef", "child", "cook",
    "couple", "cyclist", "driver", "guest", "kid", "motorcyclist", "officer", "passenger", "people", "person",
    "pitcher", "player", "rider", "skateboarder", "skater", "skier", "snowboarder", "student", "surfer", "teenager",
    "toddler", "umpire", "worker",
}  # fmt: skip
"""Nouns to which "it" does not refer."""
OCCUPATIONS = {
    "actor", "angler", "athlete", "author", "baker", "barber", "boxer", "builder", "butcher", "carpenter", "citizen",
    "cleaner", "climber", "clown", "coach", "colleague", "commuter", "customer", "dancer", "dentist", "designer",
    "diver", "doctor", "drummer", "engineer", "farmer", "firefighter", "fisherman", "friend", "gardener", "goalie",
    "golfer", "grandparent", "guard", "guitarist", "gymnast", "hiker", "hunter", "individual", "infant", "jogger",
    "journalist", "judge", "lawyer", "lifeguard", "mechanic", "member", "model", "monk", "musician", "neighbor",
    "neighbour", "nun", "nurse", "opponent", "owner", "painter", "parent", "patient", "pedestrian", "performer",
    "photographer", "pianist", "pilot", "politician", "priest", "protester", "pupil", "racer", "referee", "reporter",
    "runner", "sailor", "scientist", "seller", "shopper", "singer", "soldier", "spectator", "sprinter", "swimmer",
    "teacher", "teammate", "technician", "tourist", "traveler", "twin", "vendor", "violinist", "visitor", "waiter",
    "waitress", "walker", "wrestler", "youngster",
}  # fmt: skip
"""People of either gender: one of them is "they"."""
PLURAL_FORMS = {
    "he": "they", "she": "they", "it": "they", "him": "them", "himself": "themselves", "herself": "themselves",
    "itself": "themselves", "his": "their", "her": "their", "its": "their",
}  # fmt: skip
SINGULAR_FORMS = {
    "they": ("it", "he", "she"),
    "them": ("it", "him", "her"),
    "themselves": ("itself", "himself", "herself"),
    "their": ("its", "his", "her"),
}
"""Singular forms of each plural pronoun: for things and unknown gender, for male and for female
nouns.
"""
PRONOUN = TokenPattern(parts_of_speech={"PRON"}, words={*PLURAL_FORMS, *SINGULAR_FORMS})
REFLEXIVES = {"himself", "herself", "itself", "themselves"}
OBJECT_PRONOUN = TokenPattern(
    tags={"PRP"}, relations={"dobj"}, excluded_words=REFLEXIVES
)
PREPOSITION_PRONOUN = TokenPattern(
    tags={"PRP"}, relations={"pobj"}, excluded_words=REFLEXIVES
)
CHANGING_PRONOUNS: dict[Number, TokenPattern] = {
    "pl": TokenPattern(words=PLURAL_FORMS),
    "sg": TokenPattern(words=SINGULAR_FORMS),
}
"""Pronouns that have another form in a number."""
EXCLUDED_NOUNS = {
    **dict.fromkeys(("it", "its", "itself"), PEOPLE),
    **dict.fromkeys(("she", "her", "herself"), MALE),
    **dict.fromkeys(("he", "him", "his", "himself"), FEMALE),
}
"""Nouns to which a pronoun does not refer because of its gender; plurals show no gender."""


@dataclass(frozen=True)
class NounPhrase:
    """A noun phrase from its first token to its head.

    Attributes:
        head: The noun.
        start: Index of the first token.
        stem: Index of the first token after determiners, numerals and possessives.
        verb: The verb of the noun where the parser took the verb for the head ("a girl grins");
            else None.
    """

    head: Token
    start: int
    stem: int
    verb: Token | None = None

    @property
    def first_word(self) -> Token:
        """Return the first token."""
        return self.head.doc[self.start]

    @property
    def existential_verb(self) -> Token | None:
        """Return the verb of "there is" that directly precedes the phrase and agrees with it; None
        where there is none.
        """
        words_before = self.head.doc[max(self.start - 1, 0) : self.start]
        return VERB_AFTER_THERE.find(words_before)

    @property
    def determiners(self) -> Span:
        """Return the words that a quantifier replaces."""
        return self.head.doc[self.start : self.stem]

    @property
    def words(self) -> Span:
        """Return the words from the first word after the determiners to the head."""
        return self.head.doc[self.stem : self.head.i + 1]


def find_noun_phrases(doc: Doc) -> Iterator[NounPhrase]:
    """Yield the noun phrases of a parse whose heads are nouns, not pronouns, in the order of their
    heads.
    """
    chunks = list(doc.noun_chunks)
    phrases = list(chain.from_iterable(map(_split_chunk, chunks)))
    # Nouns that the parser left outside its chunks are phrases, too.
    free_nouns = {token for token in doc if matches_one_of(token, FREE_NOUNS)}
    phrases += map(_build_outside_chunks, free_nouns.difference(*chunks))
    yield from sorted(filter(_is_usable, phrases), key=lambda phrase: phrase.head.i)


def _is_usable(phrase: NounPhrase) -> bool:
    """Return True for a complete phrase of a common noun.

    Names, parts of hyphened words and phrases with only one quotation mark of a pair are not
    usable.
    """
    if not phrase.head.is_alpha or _is_name(phrase):
        return False
    quotation_marks = QUOTATION_MARK.select(phrase.words)
    has_both_marks = len(quotation_marks) % 2 == 0
    return has_both_marks and not _has_hyphen(phrase)


def _is_name(phrase: NounPhrase) -> bool:
    """Return True for a phrase without determiners that is a proper name."""
    if phrase.determiners:
        return False
    if len(phrase.words) > 1 and PART_OF_NAME.matches_all(phrase.words):
        return True
    # At the start of a text a capital says nothing.
    if phrase.start == 0:
        return False
    return PROPER_NOUN.matches(phrase.head) and bool(phrase.head.is_title)


def _has_hyphen(phrase: NounPhrase) -> bool:
    """Return True where a hyphen or slash joins the phrase to the word before or after it."""
    doc = phrase.head.doc
    end = phrase.head.i + 1
    # A space between the hyphen and the phrase separates them: "a dog - cat".
    before = doc[max(phrase.stem - 1, 0) : phrase.stem].text_with_ws
    after = doc[end - 1 : end + 1].text.removeprefix(phrase.head.text)
    return before in HYPHENS or after in HYPHENS


def explain_rejection(phrase: NounPhrase) -> str | None:
    """Return the reason why no quantifier can replace the determiners of a phrase; None where it
    can.
    """
    if AFTER_WITHOUT.matches(phrase.first_word):
        return NEGATED
    for pattern, reason in REJECTED_DETERMINERS:
        if pattern.matches_any(phrase.determiners):
            return reason
    if _is_in_preposition(phrase):
        return IN_PREPOSITION
    return None


def _is_in_preposition(phrase: NounPhrase) -> bool:
    """Return True for the noun of "in front of" or "on top of"."""
    head = phrase.head
    if phrase.start != head.i:
        return False
    words = head.doc[max(head.i - 1, 0) : head.i + 2]
    return PLACE_PREPOSITION.fullmatch(words.text.lower()) is not None


def _split_chunk(chunk: Span) -> Iterator[NounPhrase]:
    """Yield the noun phrases of a chunk of the parser, which may join several phrases."""
    head = _find_head(chunk)
    if not HEAD.matches(head):
        return
    if _is_verb_after_subject(head, chunk):
        yield _build_phrase(head.nbor(-1), chunk.start, verb=head)
        return

    # "a bathtub, window and a sink" is one chunk of three phrases.
    start = chunk.start
    for token in filter(_is_break, chunk[1:-1]):
        noun = token.nbor(-1)
        if NOUN_BEFORE_BREAK.matches(noun):
            yield _build_phrase(noun, start)
        start = token.i + 1
    yield _build_phrase(head, start)


def _find_head(chunk: Span) -> Token:
    """Return the head of a chunk, without an adverb that the parser takes for the head of a
    compound ("a dog outdoors").
    """
    root = chunk.root
    if root.i > chunk.start and ADVERB_AFTER_NOUN.matches(root):
        return root.nbor(-1)
    return root


def _is_break(token: Token) -> bool:
    """Return True for a token that separates two nouns which the parser took for one phrase ("a
    bathtub, window").
    """
    if COMMA_AFTER_NOUN.matches(token):
        return True
    before = token.nbor(-1)
    is_noun = COMMON_NOUN.matches(before) or has_other_singular(before.lower_)
    return is_noun and AND.matches(token) and DETERMINER.matches(token.nbor(1))


def _is_verb_after_subject(head: Token, chunk: Span) -> bool:
    """Return True where the head of a chunk is a verb that the parser took for a noun ("a girl
    grins").
    """
    if "VERB" not in getAllLemmas(head.lower_):
        return False
    if PLURAL_QUANTITY.matches_any(chunk[:2]):  # "two girls", "a few girls"
        return VERB_OF_PLURAL.matches(head)
    is_singular = INDEFINITE_ARTICLE.matches(chunk[0])
    has_ending = head.lower_.endswith("s")
    return is_singular and has_ending and VERB_OF_SINGULAR.matches(head)


def _build_outside_chunks(head: Token) -> NounPhrase:
    """Return the phrase of a noun outside all chunks: the noun and the words to its left that
    modify it.
    """
    start = head.i
    # Go left while the word directly before modifies the head.
    for modifier in reversed(MODIFIER.select(head.lefts)):
        if modifier.i != start - 1:
            break
        start = modifier.i
    return _build_phrase(head, start)


def _build_phrase(head: Token, start: int, verb: Token | None = None) -> NounPhrase:
    """Return the phrase from a first token to a head; it is divided after its determiners, numerals
    and possessives.
    """
    stem = start
    for token in head.doc[start : head.i]:
        if _is_determiner(token, start):
            stem = token.i + 1
        # The first modifier of the noun itself ends the determiners; words within a possessor do
        # not.
        elif head.head == token or token.dep_ != "poss":
            break
    return NounPhrase(head, start, stem, verb)


def _is_determiner(token: Token, start: int) -> bool:
    """Return True for a word that a quantifier replaces: "the", "two", "his", "about" in "about two
    dogs".
    """
    if matches_one_of(token, REPLACED_WORDS):
        return True
    is_name = token.is_title and token.i > start  # "the One Direction poster"
    return DETERMINER.matches(token) and not is_name


def list_numbers(noun: Token) -> tuple[Number, ...]:
    """Return the number of a noun by its tag and form; both numbers where they leave it open
    ("sheep").
    """
    if not ALIKE.matches(noun):
        return ("pl",) if _is_plural(noun) else ("sg",)
    # One form for both numbers: only a determiner or numeral can decide.
    if PLURAL_QUANTITY.matches_any(noun.lefts):
        return ("pl",)
    if SINGULAR_DETERMINER.matches_any(noun.lefts):
        return ("sg",)
    return ("sg", "pl")


def _is_plural(noun: Token) -> bool:
    """Return True for a plural by its tag and form; the parser takes some plurals for other words."""
    word = noun.lower_
    # A plural with the capital of a sentence is tagged as a name.
    tags = SENTENCE_PLURAL_TAGS if noun.is_sent_start else PLURAL_TAGS
    has_plural_form = word.endswith("s") or has_other_singular(word)
    return noun.tag_ in tags and has_plural_form


def find_agreeing_verbs(subject: Token, number: Number) -> dict[int, str]:
    """Return the forms in a number of the verbs that agree with a noun or pronoun, by token index.

    They are the verbs of its clause, of clauses that are coordinated with its clause, and of its
    relative clauses. Modal verbs, past tenses and participles have one form and are skipped, as are
    the verbs of a coordinated subject.
    """
    forms: dict[int, str] = {}
    for verb in _find_finite_verbs(subject):
        form = change_verb_number(verb, number)
        if form is not None:
            forms[verb.i] = form
    return forms


def find_distant_verbs(phrase: NounPhrase) -> Iterator[Token]:
    """Yield the verbs that agree with a phrase and that `find_agreeing_verbs` does not find: one
    directly before it ("behind her is a dog"), and those behind a participle ("is made of wood and
    has a door").
    """
    verb = phrase.head.head
    if verb.i == phrase.start - 1 and _is_inverted(verb):
        yield verb
    if not matches_one_of(phrase.head, SUBJECT_PATTERNS):
        return
    if _is_coordinated(phrase.head, _get_finite(verb)):
        return
    for conjunct in FINITE_VERB.select(verb.conjuncts):
        has_subject = CLAUSE_SUBJECT.matches_any(conjunct.children)
        if conjunct.i > verb.i and not has_subject:
            yield conjunct


def _is_inverted(verb: Token) -> bool:
    """Return True for a finite verb behind an adverbial, without a subject before it ("behind her
    is").
    """
    if not FINITE_VERB.matches(verb) or CLAUSE_SUBJECT.matches_any(verb.lefts):
        return False
    return ADVERBIAL.matches_any(verb.lefts)


def change_verb_number(verb: Token, number: Number) -> str | None:
    """Return the form of a verb in a number; None where the verb needs no other form."""
    word = verb.lower_
    if word in TO_PLURAL | TO_SINGULAR:
        return IRREGULAR_FORMS[number].get(word)  # None: it has the number already
    if number == "pl":
        has_other_number = SINGULAR_VERB.matches(verb)
    else:
        has_other_number = matches_one_of(verb, PLURAL_VERBS) or _is_mistaken_past(verb)
    lemmas = getLemma(word, "VERB")
    if not has_other_number or not lemmas:
        return None
    forms = getInflection(lemmas[0], PRESENT_TAGS[number])
    form = next(iter(forms), word)
    return None if form == word else str(form)


def _is_mistaken_past(verb: Token) -> bool:
    """Return True for a verb that the parser took for a past tense although it can only be a
    present tense ("pat").
    """
    word = verb.lower_
    is_base_form = getLemma(word, "VERB") == (word,)
    is_past_form = word in getInflection(word, "VBD")
    return verb.tag_ == "VBD" and is_base_form and not is_past_form


def _find_finite_verbs(subject: Token) -> Iterator[Token]:
    """Yield the finite verbs whose subject is a noun or pronoun, in its clause and in its relative
    clauses.
    """
    clause = subject.head
    is_subject = matches_one_of(subject, SUBJECT_PATTERNS)
    # A coordinated subject stays a plural when one of its nouns changes number.
    if is_subject and not _is_coordinated(subject, _get_finite(clause)):
        yield from _add_conjuncts(clause)
    # "a man who is surfing": the verb of the relative clause agrees with the noun.
    for relative in filter(_is_clause_of_noun, subject.children):
        yield from _add_conjuncts(relative)


def _add_conjuncts(verb: Token) -> Iterator[Token]:
    """Yield the finite verb of a clause, and the verbs of later clauses with the same subject
    ("sits and eats").
    """
    finite = _get_finite(verb)
    yield finite
    for conjunct in VERB.select(verb.conjuncts):
        # A clause with another subject agrees with that subject.
        if conjunct.i < verb.i or CLAUSE_SUBJECT.matches_any(conjunct.children):
            continue
        # In "is sitting and eating" the one auxiliary is the finite verb of both.
        shares_auxiliary = finite != verb and _get_finite(conjunct) == conjunct
        if not shares_auxiliary:
            yield _get_finite(conjunct)


def _get_finite(verb: Token) -> Token:
    """Return the first auxiliary of a verb; the verb itself where it has no auxiliary."""
    return AUXILIARY.find(verb.children) or verb


def _is_coordinated(subject: Token, verb: Token) -> bool:
    """Return True where a subject is part of a list, also where the parser does not mark the list."""
    return (
        CONJUNCT.matches_any(subject.children)
        or _is_followed_by_and(subject, verb)
        or _is_preceded_by_and(subject)
    )


def _is_followed_by_and(subject: Token, verb: Token) -> bool:
    """Return True for a noun of a list that is followed by other nouns: "a dog" in "a dog, a cat
    and a bird sit".
    """
    between = subject.doc[subject.i + 1 : verb.i]
    if FULL_VERB.matches_any(between) or not CONJUNCTION.matches_any(between):
        return False
    return between[0].text in {",", "and"} and between[-1].text != ","


def _is_preceded_by_and(subject: Token) -> bool:
    """Return True for the last noun of a list at the beginning of the sentence, before any verb."""
    words_before = subject.doc[: subject.left_edge.i]
    is_listed = len(words_before) > 1 and AND.matches(words_before[-1])
    return is_listed and not VERB.matches_any(words_before)


def _is_clause_of_noun(clause: Token) -> bool:
    """Return True for a relative clause whose subject is the relative pronoun: "a man who surfs"."""
    return clause.dep_ == "relcl" and RELATIVE_SUBJECT.matches_any(clause.children)


def find_antecedents(doc: Doc, nouns: Sequence[Token]) -> dict[Token, Token]:
    """Return for each pronoun the noun to which it refers; a pronoun without antecedent is absent.

    The antecedent is the first of all earlier `nouns` that has the number and gender of the
    pronoun, is not the subject of the verb whose object the pronoun is, and is not the noun that
    the phrase of the pronoun modifies.
    """
    antecedents = {}
    for pronoun in PRONOUN.select(doc):
        possible_nouns = list_antecedents(pronoun, nouns)
        if possible_nouns:
            antecedents[pronoun] = possible_nouns[0]
    return antecedents


def list_antecedents(pronoun: Token, nouns: Sequence[Token]) -> list[Token]:
    """Return the nouns to which a pronoun may refer."""
    return [noun for noun in nouns if _can_refer(pronoun, noun)]


def find_anaphors(
    noun: Token,
    number: Number,
    antecedents: Mapping[Token, Token],
    *,
    people_are_they: bool,
) -> Iterator[tuple[Token, str]]:
    """Yield the pronouns that refer to a noun, each with its form in a number; pronouns of that
    number are skipped.

    Args:
        people_are_they: Whether a person of either gender is "they", not "it" as in the released
            benchmark.
    """
    anaphors = [token for token in antecedents if antecedents[token] == noun]
    for pronoun in CHANGING_PRONOUNS[number].select(anaphors):
        if number == "pl":
            yield pronoun, _pluralize(pronoun)
        else:
            yield pronoun, _singularize(pronoun, noun, people_are_they)


def _pluralize(pronoun: Token) -> str:
    """Return the plural of a pronoun in its position in the clause: "they" for "he"."""
    word = pronoun.lower_
    # "it" and "her" have two plurals: "they" or "their", and "them" as an object.
    is_object = pronoun.tag_ == "PRP" and pronoun.dep_ not in SUBJECTS
    if is_object and word in {"it", "her"}:
        return "them"
    return PLURAL_FORMS[word]


def _singularize(pronoun: Token, noun: Token, people_are_they: bool) -> str:
    """Return the singular of a pronoun in the gender of a noun: "his" for "their" after "men"."""
    neuter, male, female = SINGULAR_FORMS[pronoun.lower_]
    word = singularize(noun.lower_)
    if word in MALE:
        return male
    if word in FEMALE:
        return female
    if word in OCCUPATIONS or (people_are_they and word in PEOPLE):
        return str(pronoun.lower_)
    return neuter


def _can_refer(pronoun: Token, noun: Token) -> bool:
    """Return True where order, number, gender and position in the clause allow that a pronoun
    refers to a noun.
    """
    word = pronoun.lower_
    number = "pl" if word in SINGULAR_FORMS else "sg"
    if noun.i > pronoun.i or number not in list_numbers(noun):
        return False
    if noun.lower_ in EXCLUDED_NOUNS.get(word, ()):
        return False
    return not _is_excluded_by_clause(pronoun, noun)


def _is_excluded_by_clause(pronoun: Token, noun: Token) -> bool:
    """Return True where only a reflexive pronoun could refer to the noun, or a modifier of the noun
    has the pronoun.
    """
    if OBJECT_PRONOUN.matches(pronoun):
        return noun.dep_ in SUBJECTS and pronoun.head == noun.head  # "a man washes him"
    is_after_preposition = PREPOSITION_PRONOUN.matches(pronoun)
    return is_after_preposition and pronoun.head.head == noun  # "a man with him"
