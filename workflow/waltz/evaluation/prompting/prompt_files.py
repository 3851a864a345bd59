"""The prompt files (waltz/resources/prompts), read and checked, and the prompt family of each
decoder.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any

import yaml

from waltz.core.errors import UserError
from waltz.core.files.bounded_yaml import read_yaml
from waltz.core.files.resources import RESOURCES, find_resource
from waltz.fidelity import Fidelity, get_fidelity
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

FREE_KINDS = (
    "why-nonsense",
    "add-mistake",
    "paraphrase",
    "same-meaning",
    "vqascore",
    "caption",
)
"""Kinds of prompt that contain no question of a data set."""

KINDS = (*QUESTION_KINDS, *FREE_KINDS)
"""All kinds of prompt."""

FALLBACK_KINDS = {
    "answer-attributed": "answer",
    "answer-attributed-cot": "answer-attributed",
    "post-hoc-edited": "post-hoc",
    "cot-attributed": "cot",
    "answer-after-given-cot": "answer-after-cot",
}
"""Kind that is used instead of each kind that a prompt file may omit."""

IMAGE_KINDS = (*QUESTION_KINDS, "vqascore", "caption")
"""Kinds of prompt that show the image of their question."""

ANSWER_TYPES = {"choice": QUESTION_KINDS, "open": QUESTION_KINDS, "free": FREE_KINDS}
"""Kinds of prompt for each type of answer: a label, words, or text that answers no question."""

FIELDS = {
    "pairwise": {"first", "second"},
    "single": {"caption"},
    "open": {"question"},
    "esnli": {"premise", "hypothesis"},
    "comve": {"first", "second"},
    "bbh": {"text", "question", "options"},
}
"""Names of the fields of a question that each form may name in braces."""

# Names that other texts of a prompt file may have in braces: texts that a prompt repeats, turn
# markers of a family, and parts of the wording.
TEXT_FIELDS = {"answer", "reasoning", "sentence", "text", "other"}
MARKERS = {
    "system",
    "begin",
    "begin_image",
    "end",
    "cot_blank",
    "helper_system",
    "helper_begin",
    "helper_end",
}
PART_FIELDS = {"input", "opening", "lead", "remark", "first_begin"}
SUFFIX_RULES = ("bare", "less-two", "two")
SPEAKERS = ("system", "user", "assistant")

FAMILY_KEYS = {
    "affirms": str,
    "remark": str,
    "families": dict,
    "forms": dict,
    "scripts": dict,
}
"""Keys of a prompt file with families, and the types of their values."""
TURN_KEYS = {"affirms": str, "remark": str, "system": str, "forms": dict, "turns": dict}
"""Keys of a prompt file for chat templates, and the types of their values."""

OPENING = "The best answer is:"
"""Text with which an answer begins if a form does not state another text."""

Script = Mapping[str, Mapping[str, Any]]
"""Prompts by type of answer and kind."""


@dataclass(frozen=True)
class QuestionForm:
    """Hold the wording of one form of question.

    Attributes:
        text: The question, with the names of its fields in braces.
        lead: Text before the label in an answer.
        answer_type: `choice` or `open`.
        label_texts: Text of each label that is not written as its letter, by letter.
        opening: Text with which an answer begins.
    """

    text: str
    lead: str
    answer_type: str
    label_texts: Mapping[str, str]
    opening: str = OPENING


@dataclass(frozen=True)
class PromptFamily:
    """Hold the prompts' name and the markers of a family of models in the `published` profile.

    Attributes:
        script: Name of the prompts of the family.
        suffix_rule: Rule for the number of players at the end that the released code took as the
            query suffix: `bare`, the tokens of the suffix without special tokens; `less-two`, all
            its tokens minus 2; `two`, always 2.
        markers: Turn markers and system prompts by name; a marker that the family does not have is
            empty.
    """

    script: str
    suffix_rule: str
    markers: Mapping[str, str]


@dataclass(frozen=True)
class PromptFile:
    """Hold the contents of one prompt file.

    Attributes:
        fidelity: Rules of the profile that the prompts belong to.
        forms: Forms of question by name.
        remark: The biasing remark, with the name `biased` in braces.
        affirms: The answer to `vqascore` whose probability is the score.
        scripts: Prompts by script, type of answer and kind; the single script of `equations` is
            named `turns`.
        families: Families of models by name; empty in `equations`.
        system: System prompt of all conversations in `equations`; empty without a system prompt.
    """

    fidelity: Fidelity
    forms: Mapping[str, QuestionForm]
    remark: str
    affirms: str
    scripts: Mapping[str, Script]
    families: Mapping[str, PromptFamily]
    system: str = ""


def read_prompt_file(profile: str, path: str | Path | None = None) -> PromptFile:
    """Read the prompts of a profile.

    Args:
        profile: Name of the profile.
        path: A file with prompts that replace prompts of the profile, or the name of a prompt file
            of waltz. Prompts that it omits stay.
    Raises:
        UserError: A file is missing, is not YAML, has an unknown key, or names an unknown field.
    """
    default_path = RESOURCES / "prompts" / f"{profile}.yaml"
    entries = _read_yaml(default_path)
    location = default_path
    if path is not None:
        location = find_resource("prompts", path)
        # A user's file states only the entries that it changes.
        entries = _merge(entries, _read_yaml(location))
    fidelity = get_fidelity(profile)
    # `published` has prompts for families of models, `equations` turns for chat templates.
    by_family = fidelity.prompts == "families"
    _check_keys(entries, FAMILY_KEYS if by_family else TURN_KEYS, location)
    _check_fields(entries["remark"], {"biased"}, f"{location}: remark")
    forms = {
        name: _parse_form(name, entry, location)
        for name, entry in entries["forms"].items()
    }
    missing = sorted(set(FIELDS) - set(forms))
    if missing:
        raise UserError(f"{location}: forms: {missing[0]} is missing; add it")
    if by_family:
        scripts = entries["scripts"]
        families = {
            name: _parse_family(name, entry, scripts, location)
            for name, entry in entries["families"].items()
        }
        _check_scripts(scripts, location)
        system = ""
    else:
        scripts = {"turns": entries["turns"]}
        families = {}
        _check_script(
            entries["turns"], ANSWER_TYPES, f"{location}: turns", _check_turns
        )
        system = entries["system"]
    return PromptFile(
        fidelity,
        forms,
        entries["remark"],
        entries["affirms"],
        scripts,
        families,
        system,
    )


def _check_keys(
    entries: Mapping[str, Any], types: Mapping[str, type], location: Path
) -> None:
    """Refuse a prompt file with an unknown or a missing key, or a value of another type."""
    odd = sorted(set(entries) ^ set(types))
    if odd:
        fault, advice = (
            ("unknown", "remove it") if odd[0] in entries else ("missing", "add it")
        )
        raise UserError(f"{location}: key {odd[0]!r} is {fault}; {advice}")
    for key, expected in types.items():
        if not isinstance(entries[key], expected):
            raise UserError(
                f"{location}: {key!r} is no {'text' if expected is str else 'mapping'}; correct it"
            )


def _check_scripts(scripts: Mapping[str, Any], location: Path) -> None:
    """Refuse scripts of families that lack a prompt; prompts for open questions may be missing."""
    for name, script in scripts.items():
        answer_types = {"choice", "free"}
        if isinstance(script, dict):
            answer_types |= set(ANSWER_TYPES) & set(script)
        _check_script(
            script, answer_types, f"{location}: scripts: {name}", _check_prompt
        )


def get_prompt(prompts: Mapping[str, Any], kind: str) -> Any:
    """Return the prompt of a kind, or of the kind that is used instead.

    Args:
        prompts: Prompts of one type of answer, by kind.
        kind: Kind of the prompt.
    """
    # A file may omit kinds that another kind replaces.
    while kind not in prompts:
        kind = FALLBACK_KINDS[kind]
    return prompts[kind]


def get_prompt_family(spec: ModelSpec) -> str:
    """Return the family of a decoder in the published prompts, which decides its turn markers and
    system prompt.

    Raises:
        UserError: The model's entry does not name a family, or names a family of other models.
    """
    families = _read_cached("published").families
    reads_images = spec.kind == "vision"
    # A family of VL decoders has a marker before an image; a family of language models has none.
    names = [
        name
        for name, family in families.items()
        if bool(family.markers["begin_image"]) == reads_images
    ]
    if spec.family in names:
        return spec.family
    if not spec.family:
        fault = "is missing"
    elif reads_images:
        fault = f"{spec.family!r} is none that sees"
    else:
        fault = f"{spec.family!r} is none that reads text alone"
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
        entries = read_yaml(path)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read: {error.strerror}; check the path"
        ) from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(
            f"{path}: no YAML: {' '.join(str(error).split())}; correct it"
        ) from None
    if not isinstance(entries, dict):
        raise UserError(
            f"{path}: expected a mapping, as in {RESOURCES / 'prompts/equations.yaml'}"
        )
    return entries


def _merge(defaults: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two mappings recursively; values of the second replace values of the first."""
    merged = dict(defaults)
    for key, value in overrides.items():
        default = merged.get(key)
        if isinstance(default, dict) and isinstance(value, dict):
            value = _merge(default, value)
        merged[key] = value
    return merged


def _parse_form(name: str, entry: Any, path: Path) -> QuestionForm:
    """Check the entry of one form of question, and return the form."""
    location = f"{path}: forms: {name}"
    if name not in FIELDS:
        raise UserError(
            f"{location}: no such form; expected one of {', '.join(FIELDS)}"
        )
    if not isinstance(entry, dict) or not isinstance(entry.get("text"), str):
        raise UserError(f"{location}: 'text' is missing or no text; write the question")
    _check_fields(entry["text"], FIELDS[name], location)
    keys = ("answer_type", "label_texts", "lead", "opening", "text")
    unknown = sorted(set(entry) - set(keys))
    if unknown:
        raise UserError(
            f"{location}: unknown key {unknown[0]!r}; expected one of {', '.join(keys)}"
        )
    label_texts = entry.get("label_texts", {})
    if not isinstance(label_texts, dict) or not all(
        isinstance(text, str) for text in label_texts.values()
    ):
        raise UserError(
            f"{location}: 'label_texts' is no mapping of labels to texts; write yes and no in quotation marks"
        )
    return QuestionForm(
        text=entry["text"],
        lead=entry.get("lead", ""),
        answer_type=entry.get("answer_type", "choice"),
        label_texts=label_texts,
        opening=entry.get("opening", OPENING),
    )


def _parse_family(
    name: str, entry: Any, scripts: Mapping[str, Any], path: Path
) -> PromptFamily:
    location = f"{path}: families: {name}"
    if not isinstance(entry, dict) or entry.get("script") not in scripts:
        raise UserError(
            f"{location}: 'script' is none of {', '.join(scripts)}; name one of them"
        )
    if entry.get("suffix_rule") not in SUFFIX_RULES:
        raise UserError(
            f"{location}: 'suffix_rule' is none of {', '.join(SUFFIX_RULES)}; name one of them"
        )
    unknown = sorted(set(entry) - MARKERS - {"script", "suffix_rule"})
    if unknown:
        raise UserError(
            f"{location}: unknown key {unknown[0]!r}; expected one of {', '.join(sorted(MARKERS))}"
        )
    markers = {marker: entry.get(marker, "") for marker in sorted(MARKERS)}
    return PromptFamily(entry["script"], entry["suffix_rule"], markers)


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
            raise UserError(
                f"{location}: {answer_type!r} is missing or no mapping; add it"
            )
        kinds = set(ANSWER_TYPES[answer_type])
        # Kinds with a fallback may be absent.
        missing = kinds - set(FALLBACK_KINDS) - set(prompts)
        unknown = set(prompts) - kinds
        odd = sorted(missing | unknown)
        if odd:
            fault, advice = (
                ("unknown", "remove it") if odd[0] in unknown else ("missing", "add it")
            )
            raise UserError(
                f"{location}: {answer_type}: prompt {odd[0]!r} is {fault}; {advice}"
            )
        for kind, prompt in prompts.items():
            check(prompt, prompts, answer_type, f"{location}: {answer_type}: {kind}")


def _check_turns(
    turns: Any, prompts: Mapping[str, Any], answer_type: str, location: str
) -> None:
    """Refuse a prompt that is not a list of turns, or whose turns name the item although no
    question is asked.

    A prompt that asks a question must name the item.
    """
    if not isinstance(turns, list) or not all(map(_is_turn, turns)):
        raise UserError(f"{location}: expected a list of turns, each `speaker: text`")
    names_input = False
    for turn in turns:
        speaker, text = next(iter(turn.items()))
        if speaker not in SPEAKERS or not isinstance(text, str):
            raise UserError(
                f"{location}: {speaker!r} is none of {', '.join(SPEAKERS)}, or has no text; correct the turn"
            )
        _check_fields(text, TEXT_FIELDS | PART_FIELDS, location)
        names_input = names_input or "{input}" in text
    asks_question = answer_type != "free"
    if names_input and not asks_question:
        raise UserError(f"{location}: names {{input}}; remove it")
    if asks_question and not names_input:
        raise UserError(f"{location}: does not name {{input}}; add it")


def _is_turn(turn: Any) -> bool:
    return isinstance(turn, dict) and len(turn) == 1


def _check_prompt(
    prompt: Any, prompts: Mapping[str, Any], answer_type: str, location: str
) -> None:
    """Refuse a prompt of a family with other keys than its kind has, or without the item's words."""
    # A prompt is free text, or a shared part with a query suffix, or the continuation of another
    # prompt.
    if answer_type == "free":
        keys = {"text"}
    elif "before" in prompt:
        keys = {"before", "then"}
    else:
        keys = {"shared", "suffix"}
    if not isinstance(prompt, dict) or not keys <= set(prompt) <= keys | {"counted"}:
        raise UserError(f"{location}: expected the keys {' and '.join(sorted(keys))}")
    if "before" in prompt and "shared" not in prompts.get(prompt["before"], {}):
        raise UserError(
            f"{location}: 'before' names no prompt with the keys shared and suffix; name one"
        )
    for key in sorted(set(prompt) - {"before"}):
        _check_fields(
            prompt[key], TEXT_FIELDS | PART_FIELDS | MARKERS, f"{location}: {key}"
        )
    if "shared" in prompt and prompt["shared"].count("{input}") != 1:
        raise UserError(
            f"{location}: 'shared' does not name {{input}} once; correct it"
        )


def _check_fields(text: str, allowed: set[str], location: str) -> None:
    """Refuse a text that has anything but the allowed names in braces."""
    try:
        fields = list(Formatter().parse(text))
    except ValueError as error:
        raise UserError(f"{location}: {error}; correct the braces") from error
    names: set[str] = set()
    for _, name, width, conversion in fields:
        if name is None:
            continue  # the text after the last field
        if width or conversion:
            raise UserError(
                f"{location}: {{{name}}} has a format (expected a name alone); write only the name"
            )
        names.add(name)
    unknown = sorted(names - allowed)
    if unknown:
        raise UserError(
            f"{location}: {{{unknown[0]}}} is none of {', '.join(sorted(allowed))}; name one of them, or double the"
            " braces"
        )
