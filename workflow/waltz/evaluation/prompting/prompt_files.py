"""The prompt files (waltz/resources/prompts), read and checked, and the prompt family of each decoder."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any

import yaml

from waltz.core.errors import UserError
from waltz.core.files.resources import RESOURCES, find_resource
from waltz.fidelity import get_fidelity
from waltz.model_registry import ModelSpec

QUESTION_KINDS = (
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
"""Kinds of prompt that contain a question."""

FREE_KINDS = ("why-nonsense", "add-mistake", "paraphrase", "same-meaning", "vqascore", "caption")
"""Kinds of prompt that contain no question of a data set."""

KINDS = (*QUESTION_KINDS, *FREE_KINDS)

FALLBACK_KINDS = {
    "answer-attributed": "answer",
    "answer-attributed-cot": "answer-attributed",
    "post-hoc-edited": "post-hoc",
    "cot-attributed": "cot",
    "answer-after-given-cot": "answer-after-cot",
}
"""Kinds that a prompt file may omit, and the kind that is used instead."""

IMAGE_KINDS = (*QUESTION_KINDS, "vqascore", "caption")
"""Kinds of prompt that show the image of their question."""

ANSWER_TYPES = {"choice": QUESTION_KINDS, "open": QUESTION_KINDS, "free": FREE_KINDS}
"""Kinds of prompt by type of answer: a label, words, or text that answers no question."""

FIELDS = {
    "pairwise": {"first", "second"},
    "single": {"caption"},
    "open": {"question"},
    "esnli": {"premise", "hypothesis"},
    "comve": {"first", "second"},
    "bbh": {"text", "question", "options"},
}
"""Fields of a question that its form may name."""

TEXT_FIELDS = {"answer", "reasoning", "sentence", "text", "other"}
MARKERS = {"system", "begin", "begin_image", "end", "cot_blank", "helper_system", "helper_begin", "helper_end"}
PART_FIELDS = {"input", "opening", "lead", "remark", "first_begin"}
SUFFIX_RULES = ("bare", "less-two", "two")
SPEAKERS = ("system", "user", "assistant")

OPENING = "The best answer is:"
"""Text with which an answer begins where a form names no other."""

Script = Mapping[str, Mapping[str, Any]]
"""Prompts by answer type and kind."""


@dataclass(frozen=True)
class QuestionForm:
    """The wording of one form of question.

    Attributes:
        text: The question; names fields in braces.
        lead: Text before the label in an answer.
        answer_type: `choice` or `open`.
        label_texts: Texts of labels that are not spelled by their letter, by letter.
        opening: Text with which an answer begins.
    """

    text: str
    lead: str
    answer_type: str
    label_texts: Mapping[str, str]
    opening: str = OPENING


@dataclass(frozen=True)
class PromptFamily:
    """A family of models in the `published` profile.

    Attributes:
        script: Name of its prompts.
        suffix_rule: Number of last players that the released code took for the query suffix: `bare`, the tokens of the
            suffix without special ones; `less-two`, with the special ones, minus 2; `two`, always 2.
        markers: Turn markers and system prompts; empty where the family has none.
    """

    script: str
    suffix_rule: str
    markers: Mapping[str, str]


@dataclass(frozen=True)
class PromptFile:
    """The contents of one prompt file.

    Attributes:
        profile: `equations` or `published`.
        forms: Forms of question by name.
        remark: The biasing remark; names `biased`.
        affirms: The answer to `vqascore` whose probability is the score.
        scripts: Prompts by script, answer type and kind; the one script of `equations` is named `turns`.
        families: Families of models by name; empty in `equations`.
        system: System prompt of all conversations in `equations`; empty for none.
    """

    profile: str
    forms: Mapping[str, QuestionForm]
    remark: str
    affirms: str
    scripts: Mapping[str, Script]
    families: Mapping[str, PromptFamily]
    system: str = ""


def read_prompt_file(profile: str, path: str | Path | None = None) -> PromptFile:
    """Read the prompts of a profile.

    Args:
        path: A file with prompts that replace the profile's own, or the name of one of waltz; what it omits stays.
    Raises:
        UserError: A file is missing, is no YAML, holds an unknown key, or names an unknown field.
    """
    default_path = RESOURCES / "prompts" / f"{profile}.yaml"
    entries = _read_yaml(default_path)
    if path is None:
        path = default_path
    else:
        path = find_resource("prompts", path)
        entries = _merge(entries, _read_yaml(path))
    by_family = get_fidelity(profile).prompts == "families"
    script_key = "scripts" if by_family else "turns"
    keys = {"forms", "remark", "affirms", *(("scripts", "families") if by_family else ("system", "turns"))}
    if odd := sorted(set(entries) ^ keys):
        raise UserError(f"{path}: key {odd[0]!r} is {'unknown' if odd[0] in entries else 'missing'}")
    texts = {key: entries[key] for key in ("remark", "affirms", "system") if key in keys}
    parts = {key: entries[key] for key in sorted(keys - set(texts))}
    expected_types = [*((key, str, "text") for key in texts), *((key, dict, "mapping") for key in parts)]
    for key, expected, name in expected_types:
        if not isinstance(entries[key], expected):
            raise UserError(f"{path}: {key!r} is no {name}")
    _check_fields(texts["remark"], {"biased"}, f"{path}: remark")
    forms = {name: _parse_form(name, entry, path) for name, entry in parts["forms"].items()}
    if missing := sorted(set(FIELDS) - set(forms)):
        raise UserError(f"{path}: forms: {missing[0]} is missing")
    scripts = parts[script_key]
    if not by_family:
        _check_script(scripts, ANSWER_TYPES, f"{path}: turns", _check_turns)
        return PromptFile(profile, forms, **texts, scripts={"turns": scripts}, families={})
    families = {name: _parse_family(name, entry, scripts, path) for name, entry in parts["families"].items()}
    for name, script in scripts.items():
        answer_types = [
            answer_type for answer_type in ANSWER_TYPES if isinstance(script, dict) and answer_type in script
        ]
        _check_script(script, {"choice", "free", *answer_types}, f"{path}: scripts: {name}", _check_prompt)
    return PromptFile(profile, forms, **texts, scripts=scripts, families=families)


def get_prompt(prompts: Mapping[str, Any], kind: str) -> Any:
    """Return the prompt of a kind among those of one answer type, or of the kind that is used instead."""
    while kind not in prompts:
        kind = FALLBACK_KINDS[kind]
    return prompts[kind]


def get_prompt_family(spec: ModelSpec) -> str:
    """Return a decoder's family in the published prompts, which decides its turn markers and system prompt.

    Raises:
        UserError: The model's entry names no family, or none of models of its kind.
    """
    families = _read_cached("published").families
    sees = spec.kind == "vision"
    names = [name for name, family in families.items() if bool(family.markers["begin_image"]) == sees]
    if spec.family in names:
        return spec.family
    fault = f"{spec.family!r} is none that {'sees' if sees else 'reads text alone'}" if spec.family else "is missing"
    raise UserError(
        f"models.{spec.name}.family: {fault}; profile published has the turn markers of {', '.join(names)}: name one of"
        " them, or take published out of profiles"
    )


def check_prompts(spec: ModelSpec, profiles: Sequence[str]) -> None:
    """Refuse a decoder without prompts in one of the profiles, or with a faulty prompt file.

    Raises:
        UserError: As in `get_prompt_family` and `read_prompt_file`.
    """
    for profile in profiles:
        if get_fidelity(profile).prompts == "families":
            get_prompt_family(spec)
        else:
            _read_cached(profile, spec.prompts)


@functools.cache
def _read_cached(profile: str, path: str = "") -> PromptFile:
    """Read a prompt file once for all models of a study."""
    return read_prompt_file(profile, path or None)


def _read_yaml(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise UserError(f"{path}: no such prompt file")
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UserError(f"{path}: no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(entries, dict):
        raise UserError(f"{path}: expected a mapping, as in {RESOURCES / 'prompts/equations.yaml'}")
    return entries


def _merge(defaults: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping with some values replaced, recursively."""
    merged = dict(defaults)
    for key, value in overrides.items():
        default = merged.get(key)
        merged[key] = _merge(default, value) if isinstance(default, dict) and isinstance(value, dict) else value
    return merged


def _parse_form(name: str, entry: Any, path: Path) -> QuestionForm:
    location = f"{path}: forms: {name}"
    if name not in FIELDS:
        raise UserError(f"{location}: no such form; expected one of {', '.join(FIELDS)}")
    if not isinstance(entry, dict) or not isinstance(entry.get("text"), str):
        raise UserError(f"{location}: 'text' is missing or no text")
    _check_fields(entry["text"], FIELDS[name], location)
    keys = ("answer_type", "label_texts", "lead", "opening", "text")
    if odd := sorted(set(entry) - set(keys)):
        raise UserError(f"{location}: unknown key {odd[0]!r}; expected one of {', '.join(keys)}")
    label_texts = entry.get("label_texts", {})
    if not isinstance(label_texts, dict) or not all(isinstance(text, str) for text in label_texts.values()):
        raise UserError(
            f"{location}: 'label_texts' is no mapping of labels to texts; write yes and no in quotation marks"
        )
    answer_type, lead, opening = (
        entry.get(key, default) for key, default in (("answer_type", "choice"), ("lead", ""), ("opening", OPENING))
    )
    return QuestionForm(entry["text"], lead, answer_type, label_texts, opening)


def _parse_family(name: str, entry: Any, scripts: Mapping[str, Any], path: Path) -> PromptFamily:
    location = f"{path}: families: {name}"
    if not isinstance(entry, dict) or entry.get("script") not in scripts:
        raise UserError(f"{location}: 'script' is none of {', '.join(scripts)}")
    if entry.get("suffix_rule") not in SUFFIX_RULES:
        raise UserError(f"{location}: 'suffix_rule' is none of {', '.join(SUFFIX_RULES)}")
    markers = {key: value for key, value in entry.items() if key not in ("script", "suffix_rule")}
    if unknown := sorted(set(markers) - MARKERS):
        raise UserError(f"{location}: unknown key {unknown[0]!r}; expected one of {', '.join(sorted(MARKERS))}")
    return PromptFamily(
        entry["script"], entry["suffix_rule"], {marker: markers.get(marker, "") for marker in sorted(MARKERS)}
    )


def _check_script(
    script: Any,
    answer_types: Iterable[str],
    location: str,
    check: Callable[[Any, Mapping[str, Any], str, str], None],
) -> None:
    """Refuse a script that lacks a kind of prompt, or has an unknown one."""
    for answer_type in answer_types:
        prompts = script.get(answer_type) if isinstance(script, dict) else None
        if not isinstance(prompts, dict):
            raise UserError(f"{location}: {answer_type!r} is missing or no mapping")
        kinds = set(ANSWER_TYPES[answer_type])
        if odd := sorted((kinds - set(FALLBACK_KINDS) - set(prompts)) | (set(prompts) - kinds)):
            fault = "unknown" if odd[0] in prompts else "missing"
            raise UserError(f"{location}: {answer_type}: prompt {odd[0]!r} is {fault}")
        for kind, prompt in prompts.items():
            check(prompt, prompts, answer_type, f"{location}: {answer_type}: {kind}")


def _check_turns(turns: Any, prompts: Mapping[str, Any], answer_type: str, location: str) -> None:
    if not isinstance(turns, list) or not all(isinstance(turn, dict) and len(turn) == 1 for turn in turns):
        raise UserError(f"{location}: expected a list of turns, each `speaker: text`")
    for turn in turns:
        speaker, text = next(iter(turn.items()))
        if speaker not in SPEAKERS or not isinstance(text, str):
            raise UserError(f"{location}: {speaker!r} is none of {', '.join(SPEAKERS)}, or has no text")
        _check_fields(text, TEXT_FIELDS | PART_FIELDS, location)
    names_input = any("{input}" in text for turn in turns for text in turn.values())
    if names_input != (answer_type != "free"):
        raise UserError(f"{location}: {'names' if names_input else 'does not name'} {{input}}")


def _check_prompt(prompt: Any, prompts: Mapping[str, Any], answer_type: str, location: str) -> None:
    keys = {"text"} if answer_type == "free" else {"before", "then"} if "before" in prompt else {"shared", "suffix"}
    if not isinstance(prompt, dict) or not keys <= set(prompt) <= keys | {"counted"}:
        raise UserError(f"{location}: expected the keys {' and '.join(sorted(keys))}")
    if "before" in prompt and "shared" not in prompts.get(prompt["before"], {}):
        raise UserError(f"{location}: 'before' names no prompt with the keys shared and suffix")
    for key in sorted(set(prompt) - {"before"}):
        _check_fields(prompt[key], TEXT_FIELDS | PART_FIELDS | MARKERS, f"{location}: {key}")
    if "shared" in prompt and prompt["shared"].count("{input}") != 1:
        raise UserError(f"{location}: 'shared' does not name {{input}} once")


def _check_fields(text: str, allowed: set[str], location: str) -> None:
    """Refuse a text with anything else in braces than the allowed names."""
    try:
        names = {name for _, name, _, _ in Formatter().parse(text) if name is not None}
    except ValueError as error:
        raise UserError(f"{location}: {error}") from error
    if unknown := sorted(names - allowed):
        raise UserError(f"{location}: {{{unknown[0]}}} is none of {', '.join(sorted(allowed))}")
