"""The prompt files (resources/prompts): what each of them holds, and that it is whole."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any

import yaml

from waltz.core.errors import UserError

RESOURCE = Path(__file__).resolve().parents[4] / "resources" / "prompts"
"""The folder of prompt files, in the checkout that this module is of."""

ASKING = (
    "answer",
    "answer-attributed",
    "answer-attributed-cot",
    "post-hoc",
    "post-hoc-edited",
    "cot",
    "cot-attributed",
    "cot-continued",
    "answer-after-cot",
    "answer-after-given-cot",
)
"""Kinds of prompt that put a question."""

FREE = ("why-nonsense", "add-mistake", "paraphrase", "same-meaning", "vqascore", "caption")
"""Kinds of prompt that put no question of a data set."""

KINDS = (*ASKING, *FREE)

INSTEAD = {
    "answer-attributed": "answer",
    "answer-attributed-cot": "answer-attributed",
    "post-hoc-edited": "post-hoc",
    "cot-attributed": "cot",
    "answer-after-given-cot": "answer-after-cot",
}
"""Kinds that a prompt file may leave out, and the kind that is asked instead."""

SHOWN = (*ASKING, "vqascore", "caption")
"""Kinds of prompt that show the image of their question."""

MANNERS = {"choice": ASKING, "open": ASKING, "free": FREE}
"""Kinds by how they are answered: by a label, in words, or apart from any question."""

FIELDS = {
    "pairwise": {"first", "second"},
    "single": {"caption"},
    "open": {"question"},
    "esnli": {"premise", "hypothesis"},
    "comve": {"first", "second"},
    "bbh": {"text", "question", "options"},
}
"""Fields of a question that its form may name."""

GIVEN = {"answer", "reasoning", "sentence", "text", "other"}
MARKERS = {"system", "begin", "begin_image", "end", "cot_blank", "helper_system", "helper_begin", "helper_end"}
PARTS = {"input", "lead", "remark", "first_begin"}
TAILS = ("bare", "less-two", "two")
SPEAKERS = ("system", "user", "assistant")

Script = Mapping[str, Mapping[str, Any]]
"""Prompts by manner and kind."""


@dataclass(frozen=True)
class Form:
    """How one form of question is put into words.

    Attributes:
        text: Names fields of the question in braces.
        lead: Stands before the label in an answer.
        manner: `choice` or `open`.
        said: How a label is said where it is not by its letter, by letter.
    """

    text: str
    lead: str
    manner: str
    said: Mapping[str, str]


@dataclass(frozen=True)
class Family:
    """A family of models in the `published` profile.

    Attributes:
        script: Name of its prompts.
        tail: How many of the last players the released code took for the tail: `bare`, tokens of the tail without
            special ones; `less-two`, with the special ones and less 2; `two`, always 2.
        markers: Turn markers and system prompts; empty where the family has none.
    """

    script: str
    tail: str
    markers: Mapping[str, str]


@dataclass(frozen=True)
class Wording:
    """One prompt file.

    Attributes:
        profile: `equations` or `published`.
        forms: Forms of question by name.
        remark: The biasing remark; names `biased`.
        affirms: The answer to `vqascore` whose probability is the score.
        scripts: Prompts by script, manner and kind; the one script of `equations` is named `turns`.
        families: Families of models by name; none in `equations`.
    """

    profile: str
    forms: Mapping[str, Form]
    remark: str
    affirms: str
    scripts: Mapping[str, Script]
    families: Mapping[str, Family]


def read_wording(profile: str, path: str | Path | None = None) -> Wording:
    """The prompts of a profile.

    Args:
        profile: `equations` or `published`.
        path: A file with prompts that stand in the place of the profile's own; what it leaves out is theirs.
    Raises:
        UserError: A file is missing, is no YAML, holds an unknown key, or names a field that nothing fills.
    """
    own = RESOURCE / f"{profile}.yaml"
    read = _read(own)
    if path is None:
        path = own
    else:
        path = Path(path)
        read = _merged(read, _read(path))
    asks = "turns" if profile == "equations" else "scripts"
    known = {"forms", "remark", "affirms", *(("turns",) if profile == "equations" else ("scripts", "families"))}
    if odd := sorted(set(read) ^ known):
        raise UserError(f"{path}: key {odd[0]!r} is {'unknown' if odd[0] in read else 'missing'}")
    texts = {key: read[key] for key in ("remark", "affirms")}
    parts = {key: read[key] for key in sorted(known - set(texts))}
    for key, kind, what in [*((key, str, "text") for key in texts), *((key, dict, "mapping") for key in parts)]:
        if not isinstance(read[key], kind):
            raise UserError(f"{path}: {key!r} is no {what}")
    _check(texts["remark"], {"biased"}, f"{path}: remark")
    forms = {name: _form(name, entry, path) for name, entry in parts["forms"].items()}
    if missing := sorted(set(FIELDS) - set(forms)):
        raise UserError(f"{path}: forms: {missing[0]} is missing")
    if profile == "equations":
        _whole(parts[asks], tuple(MANNERS), f"{path}: turns", _check_turns)
        return Wording(profile, forms, **texts, scripts={"turns": parts[asks]}, families={})
    families = {name: _family(name, entry, parts[asks], path) for name, entry in parts["families"].items()}
    for name, script in parts[asks].items():
        manners = [manner for manner in MANNERS if isinstance(script, dict) and manner in script]
        _whole(script, {"choice", "free", *manners}, f"{path}: scripts: {name}", _check_prompt)
    return Wording(profile, forms, **texts, scripts=parts[asks], families=families)


def prompt_of(prompts: Mapping[str, Any], kind: str) -> Any:
    """The prompt of a kind among those of one manner, or of the kind that is asked instead."""
    while kind not in prompts:
        kind = INSTEAD[kind]
    return prompts[kind]


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise UserError(f"{path}: no such prompt file")
    try:
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UserError(f"{path}: no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(read, dict):
        raise UserError(f"{path}: expected a mapping, as in {RESOURCE / 'equations.yaml'}")
    return read


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """One mapping over another, mappings inside them likewise."""
    merged = dict(below)
    for key, value in above.items():
        inside = merged.get(key)
        merged[key] = _merged(inside, value) if isinstance(inside, dict) and isinstance(value, dict) else value
    return merged


def _form(name: str, entry: Any, path: Path) -> Form:
    place = f"{path}: forms: {name}"
    if name not in FIELDS:
        raise UserError(f"{place}: no such form; there are {', '.join(FIELDS)}")
    if not isinstance(entry, dict) or not isinstance(entry.get("text"), str):
        raise UserError(f"{place}: 'text' is missing or no text")
    _check(entry["text"], FIELDS[name], place)
    if odd := sorted(set(entry) - {"text", "lead", "manner", "said"}):
        raise UserError(f"{place}: unknown key {odd[0]!r}; there are lead, manner, said, text")
    said = entry.get("said", {})
    if not isinstance(said, dict) or not all(isinstance(text, str) for text in said.values()):
        raise UserError(f"{place}: 'said' is no mapping of labels to texts; write yes and no in quotation marks")
    return Form(entry["text"], entry.get("lead", ""), entry.get("manner", "choice"), said)


def _family(name: str, entry: Any, scripts: Mapping[str, Any], path: Path) -> Family:
    place = f"{path}: families: {name}"
    if not isinstance(entry, dict) or entry.get("script") not in scripts:
        raise UserError(f"{place}: 'script' is none of {', '.join(scripts)}")
    if entry.get("tail") not in TAILS:
        raise UserError(f"{place}: 'tail' is none of {', '.join(TAILS)}")
    markers = {key: value for key, value in entry.items() if key not in ("script", "tail")}
    if unknown := sorted(set(markers) - MARKERS):
        raise UserError(f"{place}: unknown key {unknown[0]!r}; there are {', '.join(sorted(MARKERS))}")
    return Family(entry["script"], entry["tail"], {marker: markers.get(marker, "") for marker in sorted(MARKERS)})


def _whole(script: Any, manners: Any, place: str, check: Any) -> None:
    """Refuse a script that lacks a kind of prompt, or has one that nothing asks for."""
    for manner in manners:
        prompts = script.get(manner) if isinstance(script, dict) else None
        if not isinstance(prompts, dict):
            raise UserError(f"{place}: {manner!r} is missing or no mapping")
        if odd := sorted((set(MANNERS[manner]) - set(INSTEAD) - set(prompts)) | (set(prompts) - set(MANNERS[manner]))):
            what = "unknown" if odd[0] in prompts else "missing"
            raise UserError(f"{place}: {manner}: prompt {odd[0]!r} is {what}")
        for kind, prompt in prompts.items():
            check(prompt, prompts, manner, f"{place}: {manner}: {kind}")


def _check_turns(turns: Any, prompts: Mapping[str, Any], manner: str, place: str) -> None:
    if not isinstance(turns, list) or not all(isinstance(turn, dict) and len(turn) == 1 for turn in turns):
        raise UserError(f"{place}: expected a list of turns, each `speaker: text`")
    for turn in turns:
        speaker, text = next(iter(turn.items()))
        if speaker not in SPEAKERS or not isinstance(text, str):
            raise UserError(f"{place}: {speaker!r} is none of {', '.join(SPEAKERS)}, or says no text")
        _check(text, GIVEN | PARTS, place)
    named = any("{input}" in text for turn in turns for text in turn.values())
    if named != (manner != "free"):
        raise UserError(f"{place}: {'names' if named else 'does not name'} {{input}}")


def _check_prompt(prompt: Any, prompts: Mapping[str, Any], manner: str, place: str) -> None:
    keys = {"text"} if manner == "free" else {"before", "then"} if "before" in prompt else {"shared", "tail"}
    if not isinstance(prompt, dict) or not keys <= set(prompt) <= keys | {"counted"}:
        raise UserError(f"{place}: expected the keys {' and '.join(sorted(keys))}")
    if "before" in prompt and "shared" not in prompts.get(prompt["before"], {}):
        raise UserError(f"{place}: 'before' names no prompt with the keys shared and tail")
    for key in sorted(set(prompt) - {"before"}):
        _check(prompt[key], GIVEN | PARTS | MARKERS, f"{place}: {key}")
    if "shared" in prompt and prompt["shared"].count("{input}") != 1:
        raise UserError(f"{place}: 'shared' does not name {{input}} once")


def _check(text: str, allowed: set[str], place: str) -> None:
    """Refuse a text whose braces hold anything else than the allowed names."""
    try:
        named = {name for _, name, _, _ in Formatter().parse(text) if name is not None}
    except ValueError as error:
        raise UserError(f"{place}: {error}") from error
    if unknown := sorted(named - allowed):
        raise UserError(f"{place}: {{{unknown[0]}}} is none of {', '.join(sorted(allowed))}")
