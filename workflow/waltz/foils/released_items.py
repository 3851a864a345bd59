"""Candidates from the inputs of released items, and the reasons why a released item is not among
them.

For existence, counting, coreference and actions the inputs are the released texts and classes,
because the questions are not known; for plurality and relations the input is the COCO caption.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator
from spacy.tokens import Doc, Token

from waltz.core.text_diff import WORD
from waltz.foils.actant_swap import build_swaps
from waltz.foils.action_replacement import build_replacements
from waltz.foils.candidates import Candidate, Proposal, select_usable
from waltz.foils.coreference import build_coreference_foil
from waltz.foils.counting import replace_number
from waltz.foils.english.noun_phrases import IN_PREPOSITION, NEGATED
from waltz.foils.english.nouns import pluralize
from waltz.foils.english.parsing import parse, parse_captions
from waltz.foils.english.patterns import TokenPattern
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
from waltz.foils.english.wordnet import SwigVerb, read_swig_verbs
from waltz.foils.existence import build_negation
from waltz.foils.plurality import QUANTIFIERS, build_plurality_foils
from waltz.foils.relations import NOT_ATTESTED, build_attested_foils, find_slots
from waltz.foils.swig import (
    SWAP_PREPOSITIONS,
    get_filler_noun,
    inflect_present,
    remove_determiners,
    split_caption,
)
from waltz.sources.raw_files import read_object_entries

Text = Annotated[str, BeforeValidator(str)]
"""Text that the release also stores as a number, a list or a truth value."""

EXISTING = re.compile(
    r"(?P<opening>there\b|you see\b|)\s*(?P<be>\b(?:is|are)\b|)\s*(?P<quantity>\b(?:no|an?)\b|)\s*(?P<rest>.+?)\s*\.?",
    re.I,
)
"""Pattern of a released existence caption: opening, form of `be`, quantity, and the things."""
IS = re.compile(r"\bis\b")
FINITE_VERB = TokenPattern(tags=("VBP", "VBZ", "MD"))
SUBJECT_PRONOUN = TokenPattern(tags=("PRP",))

PRONOUNS = {
    "he", "her", "herself", "him", "himself", "his", "it", "its", "itself", "she", "their", "them", "they",
}  # fmt: skip
NO_PHRASE = "our parse has no such noun phrase"
OTHER_ANAPHORS = "other pronouns change with the noun"
OTHER_NOUNS = "another form of the noun"
OTHER_VERBS = "other verbs change with the noun"
NO_SLOT = "our parse has no such prepositions"
OTHER_CAPTION = "the released caption is no longer the COCO caption"


class ReleasedItem(BaseModel, frozen=True):
    """An item of the released benchmark; an instrument has only some of the fields.

    Attributes:
        item_id: Name of the item.
        caption: The caption.
        foil: The foil.
        classes: What the caption has in the exchanged position: a number, a word, or a filler.
        classes_foil: What the foil has there.
        orig_caption: The COCO caption of a plurality item.
        only_caption: The caption that a dialogue is about.
        dataset_idx: Id of the COCO caption.
        image_file: Name of the image; for actions it begins with the verb.
    """

    item_id: str
    caption: str
    foil: str
    classes: Text = ""
    classes_foil: Text = ""
    orig_caption: str = ""
    only_caption: str = ""
    dataset_idx: Text = ""
    image_file: str = ""


def read_released_items(path: str | Path) -> Iterator[ReleasedItem]:
    """Yield the items of a file of the release, in order."""
    for item_id, record in read_object_entries(path, ""):
        yield ReleasedItem(item_id=item_id, **record)


def texts_match(text: str, expected: str) -> bool:
    """Return True where two texts are equal apart from case, whitespace and the final full stop."""
    return _normalize(text) == _normalize(expected)


def _normalize(text: str) -> str:
    return "".join(text.lower().split()).rstrip(".")


def reproduce_existence(item: ReleasedItem) -> list[Candidate]:
    """Return the candidate of a released existence caption and its negation; none for a caption of
    another form.
    """
    match = EXISTING.fullmatch(item.caption.strip())
    if match is None:
        return []
    quantity = match["quantity"].lower()
    is_singular = match["be"].lower() == "is" or quantity in ("a", "an")
    # The released words stay as they are: both numbers of a word are the released form.
    be = Forms(match["be"], match["be"])
    things = Forms(match["rest"], match["rest"])
    statement = Statement(opening=match["opening"], be=be, noun=things)
    number = 1 if is_singular else 2
    return [build_negation(statement, number, exists=quantity != "no")]


def explain_existence(item: ReleasedItem, candidates: Sequence[Candidate]) -> str:
    """Return the reason why a released existence item is not among its candidates."""
    if item.caption == item.foil:
        return "caption and foil of the release are alike"
    if any(texts_match(item.foil, candidate.foil) for candidate in candidates):
        return "the released caption has the wrong article"
    return "another form of the statement"


def reproduce_counting(item: ReleasedItem) -> list[Candidate]:
    """Return the candidate of a released counting caption with the released number of its foil.

    Only the numeral changes where neither number is 1; else noun and verb change their number too.
    """
    text = item.caption.strip().rstrip(".")
    number = int(item.classes)
    foil_number = int(item.classes_foil)
    match = re.search(rf"(?P<adverb>\bexactly\s+)?\b{number}\b", text, re.I)
    if match is None or number == foil_number:
        return []

    adverb = "exactly" if match["adverb"] else ""
    # A change between one and more needs the parts of the sentence that agree with the number.
    if 1 in (number, foil_number):
        (caption,) = parse([item.caption])
        statement = _build_statement(caption, match.start(), match.end(), number)
    else:
        statement = Statement(opening=text[: match.start()], rest=text[match.end() :])
    return [replace_number(statement, number, foil_number, adverb)]


def explain_counting(item: ReleasedItem, candidates: Sequence[Candidate]) -> str:
    """Return the reason why a released counting item is not among its candidates."""
    if item.caption == item.foil:
        return "caption and foil of the release are alike"
    if not candidates:
        return "the numeral is not in the released caption"
    if any(
        not texts_match(item.caption, candidate.caption) for candidate in candidates
    ):
        return "noun or verb of the released caption do not agree with its number"

    # Does the release change nothing but the numeral, or nothing but numeral and verb?
    numbered = item.caption.replace(item.classes, item.classes_foil, 1)
    if texts_match(numbered, item.foil):
        return (
            "the released foil only has the numeral replaced, so that it does not agree"
        )
    if texts_match(IS.sub("are", numbered), IS.sub("are", item.foil)):
        return "the released foil leaves the noun as it is, so that it does not agree"
    return "the release has another form of the noun, of what refers to it, or takes another word for it"


def reproduce_coreference(item: ReleasedItem) -> list[Candidate]:
    """Return the candidate of a released dialogue of one round, whose foil has the contrary answer."""
    dialogue = item.caption.removeprefix(item.only_caption).removeprefix(". ")
    question, _, answer = dialogue.rpartition("? ")
    outcome = build_coreference_foil(item.only_caption, question, answer, 1)
    return select_usable([outcome])


def explain_coreference(item: ReleasedItem, candidates: Sequence[Candidate]) -> str:
    """Return the reason why a released coreference item is not among its candidates."""
    if candidates:
        return "the released text has another form"
    return "no pronoun that this rule knows"


def _build_statement(caption: Doc, start: int, end: int, number: int) -> Statement:
    """Return a released counting caption as a statement.

    Args:
        start: Index of the first character of the quantity.
        end: Index of the character after the quantity.
        number: The number that the quantity states.
    """
    words = [token for token in caption if token.text != "."]
    before = [token for token in words if token.idx < start]
    after = [token for token in words if token.idx >= end]
    be = NO_FORMS
    # "There is" and "there are" agree with the number, so the verb is no part of the fixed opening.
    if [token.lower_ for token in before] in (["there", "is"], ["there", "are"]):
        before = before[:1]
        be = IS_ARE

    noun = NO_FORMS
    modifiers = ""
    noun_end = 0
    counts_parts = not after or after[0].tag_ == "IN"  # "2 of the dog's legs"
    if not counts_parts:
        head = find_counted_noun(after, plural=number != 1)
        noun = _get_noun_forms(head, number)
        noun_end = after.index(head) + 1
        modifiers = join_tokens(after[: noun_end - 1])

    # Where nothing precedes the quantity, the counted things are the subject of a verb.
    verb_index = None if before else _find_verb(after, noun_end)
    verb_forms = NO_FORMS
    rest: list[Token] = []
    if verb_index is not None:
        verb = after[verb_index]
        verb_forms = get_verb_forms(verb.text, verb.tag_, verb.lemma_)
        rest = after[verb_index + 1 :]
    return Statement(
        opening=join_tokens(before),
        be=be,
        modifiers=modifiers,
        noun=noun,
        complement=join_tokens(after[noun_end:verb_index]),
        verb=verb_forms,
        rest=join_tokens(rest),
    )


def _find_verb(words: list[Token], start: int) -> int | None:
    """Return the index of the first finite verb from `start` on; None where there is none or its
    subject follows it.
    """
    verb = FINITE_VERB.find(words[start:])
    if verb is None:
        return None
    index = words.index(verb)
    is_before_subject = SUBJECT_PRONOUN.matches_any(words[index + 1 : index + 2])
    return None if is_before_subject else index


def _get_noun_forms(head: Token, number: int) -> Forms:
    """Return singular and plural of a noun of a released caption, which should have the form of its
    number.
    """
    if number == 1:
        return Forms(head.text, pluralize(head.text))
    return Forms(get_noun_forms(head.text, "NNS").singular, head.text)


def reproduce_plurality(original: str) -> list[Candidate]:
    """Return the usable candidates of the COCO caption that a released plurality item was made
    from.
    """
    (doc,) = parse_captions([original])
    return select_usable(build_plurality_foils(doc, rejects_doubtful=False))


def explain_plurality(item: ReleasedItem, candidates: Sequence[Candidate]) -> str:
    """Return the reason why a released plurality item is not among its candidates."""
    caption = _find_words(item.caption)
    foil = set(_find_words(item.foil))
    differences = [
        foil.symmetric_difference(_find_words(candidate.foil))
        for candidate in candidates
        if _find_words(candidate.caption) == caption
    ]
    if not differences:
        return _explain_absent_phrase(item)

    # The words that differ between the released foil and our most similar foil show which words
    # change otherwise.
    words = min(differences, key=len)
    if words & PRONOUNS:
        return OTHER_ANAPHORS
    if item.classes_foil.lower() in words:
        return OTHER_NOUNS
    return OTHER_VERBS


def _explain_absent_phrase(item: ReleasedItem) -> str:
    """Return the reason why no candidate changes the noun phrase of a released plurality item."""
    caption = item.caption.lower()
    for quantifier, noun in product(QUANTIFIERS["sg"], ("front", "top")):
        if f"{quantifier} {noun} of" in caption:
            return IN_PREPOSITION
    if {"no", "without"} & set(_find_words(item.orig_caption)):
        return NEGATED
    return NO_PHRASE


def reproduce_relations(original: str, sequences: Collection[str]) -> list[Candidate]:
    """Return the candidates of all slots of a COCO caption with all attested sequences, without a
    proposer.
    """
    doc = next(parse_captions([original]))
    candidates: list[Candidate] = []
    for slot in find_slots(doc):
        candidates += build_attested_foils(doc.text, slot, sequences)
    return candidates


def explain_relations(item: ReleasedItem, candidates: Sequence[Candidate]) -> str:
    """Return the reason why a released relations item is not among its candidates."""
    captions = {_find_words(candidate.caption) for candidate in candidates}
    if captions and _find_words(item.caption) not in captions:
        return OTHER_CAPTION
    # `classes` of the release holds the prepositions of the caption.
    slots = {candidate.caption_phrases for candidate in candidates}
    return NOT_ATTESTED if (item.classes,) in slots else NO_SLOT


def _find_words(text: str) -> tuple[str, ...]:
    """Return the lower-cased words and punctuation marks of a text, without its full stop."""
    return tuple(WORD.findall(text.lower().replace(" - ", "-").rstrip(" .")))


def reproduce_action_replacement(item: ReleasedItem) -> list[Candidate]:
    """Return the candidate with the verb of the released foil; none where SWiG lacks this verb."""
    caption = split_caption(item.caption, item.classes, _read_verb(item))
    name = _find_verb_by_form(item.classes_foil)
    if caption is None or name is None:
        return []
    # The released verb in the form of our rules, as if a model had proposed it.
    form = inflect_present(read_swig_verbs()[name].base, caption.agent.plural)
    return list(
        build_replacements(
            caption, [Proposal(form, (form,), 0.0, 0)], read_swig_verbs()
        )
    )


def explain_action_replacement(
    item: ReleasedItem, candidates: Sequence[Candidate]
) -> str:
    """Return the reason why a released action replacement is not among its candidates."""
    if _find_verb_by_form(item.classes_foil) is None:
        return "the release misspells the verb of the foil"
    if not candidates:
        return "the caption does not hold its verb"
    if candidates[0].rejected:
        return f"refused: {candidates[0].rejected}"
    if len(_split_words(item.foil)) != len(_split_words(item.caption)):
        return "the release changes the preposition as well"
    return "the verb of the release does not agree with its subject"


def reproduce_actant_swap(item: ReleasedItem) -> list[Candidate]:
    """Return all wordings of the swapped sentence, built from the released caption and its two
    fillers.
    """
    agent = get_filler_noun(item.classes)
    # The verb is the word after the first filler; the release names the fillers but not the verb.
    match = re.fullmatch(
        rf"(?:\w+ )?{re.escape(agent.noun)} (\w+) .*",
        item.caption.rstrip("."),
        re.IGNORECASE,
    )
    if match is None:
        return []
    caption = split_caption(item.caption, match[1], _read_verb(item), item.classes_foil)
    if caption is None:
        return []
    return list(build_swaps(caption))


def explain_actant_swap(item: ReleasedItem, candidates: Sequence[Candidate]) -> str:
    """Return the reason why a released actant swap is not among its candidates."""
    foil = _split_words(item.foil)
    if foil == _split_words(item.caption):
        return "the released foil is the caption"
    if not candidates:
        return "the caption does not begin with the one filler and end with the other"
    if any(_split_words(candidate.foil) == foil for candidate in candidates):
        return f"refused: {candidates[0].rejected}"
    return _explain_swap_wording(item, " ".join(foil))


def _explain_swap_wording(item: ReleasedItem, foil: str) -> str:
    """Return the reason why none of our wordings equals a released swapped sentence."""
    subject = re.escape(item.classes_foil)
    complement = re.escape(item.classes)
    match = re.fullmatch(
        rf"(?P<article>\w+) {subject} (?P<verb>\w+) (?P<between>(?:.* )?){complement}",
        foil,
        re.IGNORECASE,
    )
    if match is None:
        return "the release words a filler otherwise"
    base = _read_verb(item).base
    if match["verb"] not in (inflect_present(base, True), inflect_present(base, False)):
        return "the release misspells the verb"
    # Our rules give `the` to plural subjects, so the article shows the number of the released noun.
    is_definite = match["article"] == "the"
    if is_definite != get_filler_noun(item.classes_foil).plural:
        return "the release treats the noun as a plural"
    preposition = remove_determiners(match["between"].split())
    if preposition in ("", *SWAP_PREPOSITIONS):
        return "an article that is not tried"
    return "a preposition not tried"


def _read_verb(item: ReleasedItem) -> SwigVerb:
    """Return the verb of SWiG with which the name of the image begins ("admiring_12.jpg")."""
    return read_swig_verbs()[item.image_file.rsplit("_", 1)[0]]


def _find_verb_by_form(form: str) -> str | None:
    """Return the name of the verb of SWiG with this base form or third person singular; None where
    there is none.
    """
    for verb in read_swig_verbs().values():
        if form in (verb.base, inflect_present(verb.base, False)):
            return verb.name
    return None


def _split_words(text: str) -> list[str]:
    return text.lower().rstrip(". ").split()
