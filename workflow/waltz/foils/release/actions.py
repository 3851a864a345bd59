"""Released action items through the instruments: replacement given the verb, actant swap given both fillers."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from waltz.foils.actants import PREPOSITIONS, actant_swaps
from waltz.foils.action_texts import DETERMINERS, caption_at
from waltz.foils.actions import finite, replacements
from waltz.foils.candidates import Candidate
from waltz.foils.english.wordnet import Verb, read_verbs
from waltz.foils.swig_fillers import filler


def reproduce_action_replacement(item: Mapping[str, Any]) -> list[Candidate]:
    """The candidate that the verb of the released foil gives; none where that is none of SWiG's.

    Args:
        item: A record of action-replacement.json.
    """
    verb = _verb_of(item)
    caption = caption_at(item["caption"], item["classes"], verb)
    name = _by_form(item["classes_foil"])
    if caption is None or name is None:
        return []
    form = finite(read_verbs()[name].base, caption.agent.plural)
    return list(replacements(caption, [(form, 0, 0.0)], read_verbs()))


def cause_action_replacement(item: Mapping[str, Any], candidates: Sequence[Candidate]) -> str:
    """Why the released pair is not among the candidates."""
    if _by_form(item["classes_foil"]) is None:
        return "the release misspells the verb of the foil"
    if not candidates:
        return "the caption does not hold its verb"
    if candidates[0].rejected:
        return f"refused: {candidates[0].rejected}"
    if len(_words(item["foil"])) != len(_words(item["caption"])):
        return "the release changes the preposition as well"
    return "the verb of the release does not agree with its subject"


def reproduce_actant_swap(item: Mapping[str, Any]) -> list[Candidate]:
    """Every wording of the swapped sentence, from the released caption and its two fillers.

    Args:
        item: A record of actant-swap.json.
    """
    agent = filler(item["classes"])
    found = re.fullmatch(rf"(?:\w+ )?{re.escape(agent.noun)} (\w+) .*", item["caption"].rstrip("."), re.IGNORECASE)
    verb = _verb_of(item)
    caption = caption_at(item["caption"], found[1], verb, item["classes_foil"]) if found else None
    return list(actant_swaps(caption, verb.base)) if caption is not None else []


def cause_actant_swap(item: Mapping[str, Any], candidates: Sequence[Candidate]) -> str:
    """Why the released pair is not among the candidates."""
    foil = _words(item["foil"])
    if foil == _words(item["caption"]):
        return "the released foil is the caption"
    if not candidates:
        return "the caption does not begin with the one filler and end with the other"
    if any(_words(candidate.foil) == foil for candidate in candidates):
        return f"refused: {candidates[0].rejected}"
    verb = _verb_of(item)
    first, second = (re.escape(item[key]) for key in ("classes_foil", "classes"))
    found = re.fullmatch(rf"(\w+) {first} (\w+) (?:(.*) )?{second}", " ".join(foil), re.IGNORECASE)
    if found is None:
        return "the release words a filler otherwise"
    if found[2] not in (finite(verb.base, True), finite(verb.base, False)):
        return "the release misspells the verb"
    if (found[1] == "the") != filler(item["classes_foil"]).plural:
        return "the release treats the noun as a plural"
    between = [word for word in (found[3] or "").split() if word not in DETERMINERS]
    return "an article that is not tried" if " ".join(between) in ("", *PREPOSITIONS) else "a preposition not tried"


def _verb_of(item: Mapping[str, Any]) -> Verb:
    """The verb of SWiG that the image's name begins with."""
    return read_verbs()[item["image_file"].rsplit("_", 1)[0]]


def _by_form(form: str) -> str | None:
    named = (verb.name for verb in read_verbs().values() if form in (verb.base, finite(verb.base, False)))
    return next(named, None)


def _words(text: str) -> list[str]:
    return text.lower().rstrip(". ").split()
