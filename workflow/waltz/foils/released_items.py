"""Candidates built from the inputs of released items, and why a released item is not among them.

Existence, counting, coreference and actions start from the released texts and classes, because the questions are not
known; plurality and relations start from the COCO caption.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from spacy.tokens import Doc, Token

from waltz.core.text_diff import WORD
from waltz.foils.actant_swap import build_swaps
from waltz.foils.action_replacement import build_replacements
from waltz.foils.candidates import Candidate, Proposal
from waltz.foils.coreference import build_coreference_foil
from waltz.foils.counting import replace_number
from waltz.foils.english.noun_phrases import IN_PREPOSITION, NEGATED
from waltz.foils.english.nouns import pluralise
from waltz.foils.english.parsing import parse, parse_captions
from waltz.foils.english.statements import (
    IS_ARE,
    NO_FORMS,
    Forms,
    Statement,
    find_counted_noun,
    get_noun_forms,
    get_verb_forms,
    join_tokens,
)
from waltz.foils.english.wordnet import Verb, read_verbs
from waltz.foils.existence import build_negation
from waltz.foils.plurality import QUANTIFIERS, build_plurality_foils
from waltz.foils.relations import NOT_ATTESTED, build_attested_foils, find_slots
from waltz.foils.swig import DETERMINERS, SWAP_PREPOSITIONS, get_filler, inflect_present, split_caption

Item = Mapping[str, Any]

EXISTING = re.compile(
    r"(?P<opening>there\b|you see\b|)\s*(?P<be>\b(?:is|are)\b|)\s*(?P<quantity>\b(?:no|an?)\b|)\s*(?P<rest>.+?)\s*\.?",
    re.I,
)
FINITE = ("VBP", "VBZ", "MD")

PRONOUNS = {"he", "she", "it", "they", "him", "her", "them", "his", "its", "their", "himself", "herself", "itself"}
NO_PHRASE = "our parse has no such noun phrase"
OTHER_ANAPHORS = "other pronouns change with the noun"
OTHER_NOUNS = "another form of the noun"
OTHER_VERBS = "other verbs change with the noun"
NO_SLOT = "our parse has no such prepositions"
OTHER_CAPTION = "the released caption is no longer the COCO caption"


def texts_match(text: str, expected: str) -> bool:
    """Return True where two texts are the same up to case, whitespace and the final full stop."""
    return _normalise(text) == _normalise(expected)


def _normalise(text: str) -> str:
    return "".join(text.lower().split()).rstrip(".")


def reproduce_existence(item: Item) -> list[Candidate]:
    """Return the negation of a released caption."""
    match = EXISTING.fullmatch(item["caption"].strip())
    if match is None:
        return []
    singular = match["be"].lower() == "is" or match["quantity"].lower() in ("a", "an")
    be = Forms(match["be"], match["be"]) if match["be"] else NO_FORMS
    things = Forms(match["rest"], match["rest"])
    statement = Statement(match["opening"], be, "", things, "", NO_FORMS, "")
    return [build_negation(statement, 1 if singular else 2, match["quantity"].lower() != "no")]


def explain_existence(item: Item, candidates: Sequence[Candidate]) -> str:
    """Return why a released existence item is not among the candidates."""
    if item["caption"] == item["foil"]:
        return "caption and foil of the release are alike"
    if any(texts_match(item["foil"], candidate.foil) for candidate in candidates):
        return "the released caption has the wrong article"
    return "another form of the statement"


def reproduce_counting(item: Item) -> list[Candidate]:
    """Return the released caption with the foil's released numeral; nothing else changes where neither number is 1."""
    text, number, foil_number = item["caption"].strip().rstrip("."), item["classes"], item["classes_foil"]
    match = re.search(rf"(?P<adverb>\bexactly\s+)?\b{number}\b", text, re.I)
    if match is None or number == foil_number:
        return []
    adverb = "exactly" if match["adverb"] else ""
    statement = Statement(text[: match.start()], NO_FORMS, "", NO_FORMS, "", NO_FORMS, text[match.end() :])
    if 1 in (number, foil_number):
        (caption,) = parse([item["caption"]])
        statement = _build_statement(caption, match.start(), match.end(), number)
    return [replace_number(statement, number, foil_number, adverb)]


def explain_counting(item: Item, candidates: Sequence[Candidate]) -> str:
    """Return why a released counting item is not among the candidates."""
    if item["caption"] == item["foil"]:
        return "caption and foil of the release are alike"
    if not candidates:
        return "the numeral is not in the released caption"
    if any(not texts_match(item["caption"], candidate.caption) for candidate in candidates):
        return "noun or verb of the released caption do not agree with its number"
    numbered = item["caption"].replace(str(item["classes"]), str(item["classes_foil"]), 1)
    if texts_match(numbered, item["foil"]):
        return "the released foil only has the numeral replaced, so that it does not agree"
    if texts_match(re.sub(r"\bis\b", "are", numbered), re.sub(r"\bis\b", "are", item["foil"])):
        return "the released foil leaves the noun as it is, so that it does not agree"
    return "the release has another form of the noun, of what refers to it, or takes another word for it"


def reproduce_coreference(item: Item) -> list[Candidate]:
    """Return the released dialogue of one round with the contrary answer."""
    dialogue = item["caption"].removeprefix(item["only_caption"]).removeprefix(". ")
    question, _, answer = dialogue.rpartition("? ")
    outcome = build_coreference_foil(item["only_caption"], question, answer, 1)
    return [outcome] if isinstance(outcome, Candidate) else []


def explain_coreference(item: Item, candidates: Sequence[Candidate]) -> str:
    """Return why a released coreference item is not among the candidates."""
    return "the released text has another form" if candidates else "no pronoun that this rule knows"


def _build_statement(caption: Doc, start: int, end: int, number: int) -> Statement:
    """Return a released caption as a statement."""
    words = [token for token in caption if token.text != "."]
    before = [token for token in words if token.idx < start]
    after = [token for token in words if token.idx >= end]
    be = NO_FORMS
    if [token.lower_ for token in before] in (["there", "is"], ["there", "are"]):
        before, be = before[:1], IS_ARE
    head = find_counted_noun(after, number != 1) if after and after[0].tag_ != "IN" else None
    noun_end = 0 if head is None else after.index(head) + 1
    verb = None if before else _find_verb(after, noun_end)
    forms = NO_FORMS if verb is None else get_verb_forms(after[verb].text, after[verb].tag_, after[verb].lemma_)
    stop = len(after) if verb is None else verb
    noun = NO_FORMS if head is None else _get_noun_forms(head, number)
    rest = [] if verb is None else after[verb + 1 :]
    return Statement(
        join_tokens(before),
        be,
        join_tokens(after[: noun_end - 1]) if noun_end else "",
        noun,
        join_tokens(after[noun_end:stop]),
        forms,
        join_tokens(rest),
    )


def _find_verb(words: list[Token], start: int) -> int | None:
    """Return the index of the first finite verb from `start` on, unless its subject follows it."""
    verb = next((index for index, word in enumerate(words) if index >= start and word.tag_ in FINITE), None)
    return None if verb is None or [word.tag_ for word in words[verb + 1 : verb + 2]] == ["PRP"] else verb


def _get_noun_forms(head: Token, number: int) -> Forms:
    """Return both numbers of a noun of a released caption, which has, or should have, the form of its number."""
    if number == 1:
        return Forms(head.text, pluralise(head.text))
    return Forms(get_noun_forms(head.text, "NNS").singular, head.text)


def reproduce_plurality(original: str) -> list[Candidate]:
    """Return the usable candidates of the COCO caption that a released plurality item was made from."""
    outcomes = build_plurality_foils(next(parse_captions([original])))
    return [outcome for outcome in outcomes if isinstance(outcome, Candidate) and outcome.rejected is None]


def explain_plurality(item: Item, candidates: Sequence[Candidate]) -> str:
    """Return why the caption and foil of a released plurality item are not among its candidates."""
    caption, foil = _find_words(item["caption"]), _find_words(item["foil"])
    foils = [_find_words(candidate.foil) for candidate in candidates if _find_words(candidate.caption) == caption]
    if not foils:
        phrases = (f"{quantifier} {noun} of" for quantifier in QUANTIFIERS["sg"] for noun in ("front", "top"))
        if any(phrase in item["caption"].lower() for phrase in phrases):
            return IN_PREPOSITION
        return NEGATED if {"no", "without"} & set(_find_words(item["orig_caption"])) else NO_PHRASE
    nearest_foil = min((set(words) for words in foils), key=lambda words: len(words ^ set(foil)))
    words = nearest_foil ^ set(foil)
    if words & PRONOUNS:
        return OTHER_ANAPHORS
    return OTHER_NOUNS if str(item["classes_foil"]).lower() in words else OTHER_VERBS


def reproduce_relations(original: str, sequences: Collection[str]) -> list[Candidate]:
    """Return the candidates of a COCO caption's slots with every attested sequence, without a proposer."""
    doc = next(parse_captions([original]))
    return [candidate for slot in find_slots(doc) for candidate in build_attested_foils(doc.text, slot, sequences)]


def explain_relations(item: Item, candidates: Sequence[Candidate]) -> str:
    """Return why the caption and foil of a released relations item are not among its candidates."""
    if _find_words(item["caption"]) not in {_find_words(candidate.caption) for candidate in candidates}:
        return OTHER_CAPTION if candidates else NO_SLOT
    if (item["classes"],) not in {candidate.caption_phrases for candidate in candidates}:
        return NO_SLOT
    return NOT_ATTESTED


def _find_words(text: str) -> tuple[str, ...]:
    return tuple(WORD.findall(text.lower().replace(" - ", "-").rstrip(" .")))


def reproduce_action_replacement(item: Item) -> list[Candidate]:
    """Return the candidate that the verb of the released foil gives; none where that is none of SWiG's."""
    verb = _read_verb(item)
    caption = split_caption(item["caption"], item["classes"], verb)
    name = _find_verb_by_form(item["classes_foil"])
    if caption is None or name is None:
        return []
    form = inflect_present(read_verbs()[name].base, caption.agent.plural)
    return list(build_replacements(caption, [Proposal(form, (form,), 0.0, 0)], read_verbs()))


def explain_action_replacement(item: Item, candidates: Sequence[Candidate]) -> str:
    """Return why the released pair is not among the candidates."""
    if _find_verb_by_form(item["classes_foil"]) is None:
        return "the release misspells the verb of the foil"
    if not candidates:
        return "the caption does not hold its verb"
    if candidates[0].rejected:
        return f"refused: {candidates[0].rejected}"
    if len(_split_words(item["foil"])) != len(_split_words(item["caption"])):
        return "the release changes the preposition as well"
    return "the verb of the release does not agree with its subject"


def reproduce_actant_swap(item: Item) -> list[Candidate]:
    """Return every wording of the swapped sentence, from the released caption and its two fillers."""
    agent = get_filler(item["classes"])
    match = re.fullmatch(rf"(?:\w+ )?{re.escape(agent.noun)} (\w+) .*", item["caption"].rstrip("."), re.IGNORECASE)
    verb = _read_verb(item)
    caption = split_caption(item["caption"], match[1], verb, item["classes_foil"]) if match else None
    return list(build_swaps(caption)) if caption is not None else []


def explain_actant_swap(item: Item, candidates: Sequence[Candidate]) -> str:
    """Return why the released pair is not among the candidates."""
    foil = _split_words(item["foil"])
    if foil == _split_words(item["caption"]):
        return "the released foil is the caption"
    if not candidates:
        return "the caption does not begin with the one filler and end with the other"
    if any(_split_words(candidate.foil) == foil for candidate in candidates):
        return f"refused: {candidates[0].rejected}"
    verb = _read_verb(item)
    first, second = (re.escape(item[key]) for key in ("classes_foil", "classes"))
    match = re.fullmatch(rf"(\w+) {first} (\w+) (?:(.*) )?{second}", " ".join(foil), re.IGNORECASE)
    if match is None:
        return "the release words a filler otherwise"
    if match[2] not in (inflect_present(verb.base, True), inflect_present(verb.base, False)):
        return "the release misspells the verb"
    if (match[1] == "the") != get_filler(item["classes_foil"]).plural:
        return "the release treats the noun as a plural"
    words_between = [word for word in (match[3] or "").split() if word not in DETERMINERS]
    is_tried = " ".join(words_between) in ("", *SWAP_PREPOSITIONS)
    return "an article that is not tried" if is_tried else "a preposition not tried"


def _read_verb(item: Item) -> Verb:
    """Return the verb of SWiG that the image's name begins with."""
    return read_verbs()[item["image_file"].rsplit("_", 1)[0]]


def _find_verb_by_form(form: str) -> str | None:
    verbs = read_verbs().values()
    return next((verb.name for verb in verbs if form in (verb.base, inflect_present(verb.base, False))), None)


def _split_words(text: str) -> list[str]:
    return text.lower().rstrip(". ").split()
