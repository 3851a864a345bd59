"""Reproduction of released action items: replacement from the foil's verb, actant swap from both fillers."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from waltz.foils.actant_swap import build_swaps
from waltz.foils.action_replacement import build_replacements
from waltz.foils.candidates import Candidate
from waltz.foils.english.wordnet import Verb, read_verbs
from waltz.foils.proposers import Proposal
from waltz.foils.swig.captions import DETERMINERS, SWAP_PREPOSITIONS, inflect_present, split_caption
from waltz.foils.swig.fillers import get_filler


def reproduce_action_replacement(item: Mapping[str, Any]) -> list[Candidate]:
    """Return the candidate that the verb of the released foil gives; none where that is none of SWiG's.

    Args:
        item: A record of action-replacement.json.
    """
    verb = _find_verb(item)
    caption = split_caption(item["caption"], item["classes"], verb)
    name = _find_verb_by_form(item["classes_foil"])
    if caption is None or name is None:
        return []
    form = inflect_present(read_verbs()[name].base, caption.agent.plural)
    return list(build_replacements(caption, [Proposal(form, (form,), 0.0, 0)], read_verbs()))


def explain_action_replacement(item: Mapping[str, Any], candidates: Sequence[Candidate]) -> str:
    """Return why the released pair is not among the candidates."""
    if _find_verb_by_form(item["classes_foil"]) is None:
        return "the release misspells the verb of the foil"
    if not candidates:
        return "the caption does not hold its verb"
    if candidates[0].rejected:
        return f"refused: {candidates[0].rejected}"
    if len(_words(item["foil"])) != len(_words(item["caption"])):
        return "the release changes the preposition as well"
    return "the verb of the release does not agree with its subject"


def reproduce_actant_swap(item: Mapping[str, Any]) -> list[Candidate]:
    """Return every wording of the swapped sentence, from the released caption and its two fillers.

    Args:
        item: A record of actant-swap.json.
    """
    agent = get_filler(item["classes"])
    match = re.fullmatch(rf"(?:\w+ )?{re.escape(agent.noun)} (\w+) .*", item["caption"].rstrip("."), re.IGNORECASE)
    verb = _find_verb(item)
    caption = split_caption(item["caption"], match[1], verb, item["classes_foil"]) if match else None
    return list(build_swaps(caption, verb.base)) if caption is not None else []


def explain_actant_swap(item: Mapping[str, Any], candidates: Sequence[Candidate]) -> str:
    """Return why the released pair is not among the candidates."""
    foil = _words(item["foil"])
    if foil == _words(item["caption"]):
        return "the released foil is the caption"
    if not candidates:
        return "the caption does not begin with the one filler and end with the other"
    if any(_words(candidate.foil) == foil for candidate in candidates):
        return f"refused: {candidates[0].rejected}"
    verb = _find_verb(item)
    first, second = (re.escape(item[key]) for key in ("classes_foil", "classes"))
    match = re.fullmatch(rf"(\w+) {first} (\w+) (?:(.*) )?{second}", " ".join(foil), re.IGNORECASE)
    if match is None:
        return "the release words a filler otherwise"
    if match[2] not in (inflect_present(verb.base, True), inflect_present(verb.base, False)):
        return "the release misspells the verb"
    if (match[1] == "the") != get_filler(item["classes_foil"]).plural:
        return "the release treats the noun as a plural"
    words_between = [word for word in (match[3] or "").split() if word not in DETERMINERS]
    return (
        "an article that is not tried"
        if " ".join(words_between) in ("", *SWAP_PREPOSITIONS)
        else "a preposition not tried"
    )


def _find_verb(item: Mapping[str, Any]) -> Verb:
    """Return the verb of SWiG that the image's name begins with."""
    return read_verbs()[item["image_file"].rsplit("_", 1)[0]]


def _find_verb_by_form(form: str) -> str | None:
    names = (verb.name for verb in read_verbs().values() if form in (verb.base, inflect_present(verb.base, False)))
    return next(names, None)


def _words(text: str) -> list[str]:
    return text.lower().rstrip(". ").split()
