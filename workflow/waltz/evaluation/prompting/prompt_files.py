"""The prompt files (waltz/resources/prompts), read and checked, and the prompt family of each
decoder.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from waltz.core.errors import UserError
from waltz.core.files.bounded_yaml import read_yaml
from waltz.core.files.resources import RESOURCES, find_resource
from waltz.core.redaction import describe_value
from waltz.fidelity import PUBLISHED, Fidelity, get_fidelity
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

ANSWER_KINDS = ("answer", "answer-after-cot", "answer-after-given-cot")
"""Kinds of prompt whose reply is an answer: a label if the question has labels."""

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

FIELDS = {
    "pairwise": {"first", "second"},
    "single": {"caption"},
    "open": {"question"},
    "esnli": {"premise", "hypothesis"},
    "comve": {"first", "second"},
    "bbh": {"text", "question", "options"},
}
"""Names of the fields of a question that each form may name in braces."""

TEXT_FIELDS = {
    "answer",
    "reasoning",
    "sentence",
    "text",
    "other",
    "input",
    "opening",
    "lead",
    "remark",
    "first_begin",
}
"""Names that a prompt may have in braces: texts that it repeats, and parts of the wording."""

OPENING = "The best answer is:"
"""Text with which an answer begins if a form does not state another text."""

T = TypeVar("T")


class _Section(BaseModel):
    """Section of a prompt file, which has no other keys than its fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class QuestionForm(_Section):
    """Hold the wording of one form of question.

    Attributes:
        text: The question, with the names of its fields in braces.
        lead: Text before the label in an answer.
        answer_type: Whether a label answers the question, or words of the model.
        label_texts: Text of each label that is not written as its letter, by letter.
        opening: Text with which an answer begins.
    """

    text: str
    lead: str = ""
    answer_type: Literal["choice", "open"] = "choice"
    label_texts: dict[str, str] = {}
    opening: str = OPENING


class PromptFamily(_Section):
    """Hold the prompts' name and the markers of a family of models in the `published` profile.

    A marker that the family does not have is empty.

    Attributes:
        script: Name of the prompts of the family.
        suffix_rule: Rule for the number of players at the end that the released code took as the
            query suffix: `bare`, the tokens of the suffix without special tokens; `less-two`, all
            its tokens minus 2; `two`, always 2.
        text_rule: Rule by which the released code turned tokens into text: `special-skipped` skips
            special tokens; `marks-cut` cuts off the length of the end mark instead, even where no
            end mark stands. Both decode a chain of thought together with its prompt. `reply-only`
            decodes the generated tokens alone.
        cleans_spaces: Whether the tokenizer, in the version of transformers that the released code
            requires, removes spaces before punctuation when it decodes.
        system: System prompt.
        begin: Marker before a turn of the user.
        begin_image: Marker before the first turn of the user if it shows an image.
        end: Marker after a turn of the user.
        cot_blank: Text before `end` where the released code counts the query suffix after a chain
            of thought.
        helper_system: System prompt of the helper model.
        helper_begin: Marker before a turn to the helper model.
        helper_end: Marker after a turn to the helper model.
    """

    script: str
    suffix_rule: Literal["bare", "less-two", "two"]
    text_rule: Literal["special-skipped", "marks-cut", "reply-only"]
    cleans_spaces: bool = False
    system: str = ""
    begin: str = ""
    begin_image: str = ""
    end: str = ""
    cot_blank: str = ""
    helper_system: str = ""
    helper_begin: str = ""
    helper_end: str = ""


MARKERS = set(PromptFamily.model_fields) - {
    "script",
    "suffix_rule",
    "text_rule",
    "cleans_spaces",
}
"""Names of the turn markers and system prompts of a family."""


def _check_fields(text: str, allowed: Iterable[str]) -> str:
    """Return a text; refuse it if it has anything but the allowed names in braces."""
    try:
        fields = list(Formatter().parse(text))
    except ValueError as error:
        raise ValueError(f"{error}; correct the braces") from None
    for _, name, width, conversion in fields:
        if name is None:
            continue  # the text after the last field
        if width or conversion:
            raise ValueError(
                f"{{{name}}} has a format (expected a name alone); write only the name"
            )
        if name not in allowed:
            raise ValueError(
                f"{{{name}}} is none of {', '.join(sorted(allowed))}; name one of them, or double the braces"
            )
    return text


def _check_shared_text(text: str) -> str:
    """Refuse a shared part that does not name the item once, since it is split there."""
    if text.count("{input}") != 1:
        raise ValueError("does not name {input} once; correct it")
    return text


def _check_names_input(turns: list[dict[str, str]]) -> list[dict[str, str]]:
    """Refuse a prompt that asks a question without naming the item."""
    for turn in turns:
        for text in turn.values():
            if "{input}" in text:
                return turns
    raise ValueError("does not name {input}; add it")


def _complete_kinds(prompts: dict[str, T], kinds: Sequence[str]) -> dict[str, T]:
    """Add the prompt of another kind for each kind that a file may omit; refuse other gaps and
    unknown kinds.
    """
    for kind in prompts:
        if kind not in kinds:
            raise ValueError(f"prompt {kind!r} is unknown; remove it")
    # A kind is added after its fallback, which comes earlier in `QUESTION_KINDS`.
    for kind in kinds:
        if kind in prompts:
            continue
        fallback = FALLBACK_KINDS.get(kind)
        if fallback not in prompts:
            raise ValueError(f"prompt {kind!r} is missing; add it")
        prompts[kind] = prompts[fallback]
    return prompts


def _continue_prompts(prompts: object) -> object:
    """Write each prompt that continues another one (keys `before`, `then`) with its parts."""
    if not isinstance(prompts, dict):
        return prompts
    continued = dict(prompts)
    for kind, prompt in prompts.items():
        if not isinstance(prompt, dict) or "before" not in prompt:
            continue
        parts = dict(prompt)
        earlier = prompts.get(parts.pop("before"))
        if not isinstance(earlier, dict) or "suffix" not in earlier:
            raise ValueError(
                f"{kind}: 'before' names no prompt with the keys shared and suffix; name one"
            )
        suffix = f"{earlier['suffix']}{parts.pop('then', '')}"
        continued[kind] = {**earlier, **parts, "suffix": suffix}
    return continued


Speaker = Literal["system", "user", "assistant"]
TurnText = Annotated[str, AfterValidator(partial(_check_fields, allowed=TEXT_FIELDS))]
FreeText = Annotated[
    str, AfterValidator(partial(_check_fields, allowed=TEXT_FIELDS - {"input"}))
]
FamilyText = Annotated[
    str, AfterValidator(partial(_check_fields, allowed=TEXT_FIELDS | MARKERS))
]
ONE_ENTRY = Field(min_length=1, max_length=1)
COMPLETE_QUESTIONS = AfterValidator(partial(_complete_kinds, kinds=QUESTION_KINDS))
COMPLETE_FREE = AfterValidator(partial(_complete_kinds, kinds=FREE_KINDS))

QuestionTurns = Annotated[
    list[Annotated[dict[Speaker, TurnText], ONE_ENTRY]],
    AfterValidator(_check_names_input),
]
"""Turns of a conversation that asks a question, each as the text of its speaker."""
FreeTurns = list[Annotated[dict[Speaker, FreeText], ONE_ENTRY]]
"""Turns of a conversation about no question of a data set."""


class TurnScript(_Section):
    """Hold the prompts for chat templates, as turns of a conversation.

    Attributes:
        choice: Prompts about questions with labels, by kind.
        open: Prompts about open questions.
        free: Prompts about no question of a data set.
    """

    choice: Annotated[dict[str, QuestionTurns], COMPLETE_QUESTIONS]
    open: Annotated[dict[str, QuestionTurns], COMPLETE_QUESTIONS]
    free: Annotated[dict[str, FreeTurns], COMPLETE_FREE]

    def get_turns(self, answer_type: str, kind: str) -> list[dict[Speaker, str]]:
        """Return the turns of a kind of prompt, for a type of answer: `choice`, `open`, `free`."""
        prompts = {"choice": self.choice, "open": self.open, "free": self.free}
        return prompts[answer_type][kind]


class QuestionPrompt(_Section):
    """Hold the prompt of a family about a question.

    Attributes:
        shared: Part that the prompts for answer and explanation share; it names the item once.
        suffix: Query suffix.
        counted: Text whose tokens the released code counted as the length of the suffix; None if
            it counted the suffix.
    """

    shared: Annotated[FamilyText, AfterValidator(_check_shared_text)]
    suffix: FamilyText
    counted: FamilyText | None = None


class FreePrompt(_Section):
    """Hold the text of a prompt of a family about no question of a data set."""

    text: FamilyText


QuestionPrompts = Annotated[
    dict[str, QuestionPrompt],
    BeforeValidator(_continue_prompts),
    COMPLETE_QUESTIONS,
]
"""Prompts of families about questions, by kind."""


class FamilyScript(_Section):
    """Hold the prompts of families of models.

    Attributes:
        choice: Prompts about questions with labels, by kind.
        open: Prompts about open questions; None if the released code has no such prompts.
        free: Prompts about no question of a data set.
    """

    choice: QuestionPrompts
    open: QuestionPrompts | None = None
    free: Annotated[dict[str, FreePrompt], COMPLETE_FREE]


def _check_forms(forms: dict[str, QuestionForm]) -> dict[str, QuestionForm]:
    """Refuse unknown forms, and questions with unknown names in braces."""
    for name, form in forms.items():
        if name not in FIELDS:
            raise ValueError(
                f"{name}: no such form; expected one of {', '.join(FIELDS)}"
            )
        try:
            _check_fields(form.text, FIELDS[name])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return forms


class PromptFile(_Section):
    """Hold the contents of one prompt file.

    Attributes:
        fidelity: Rules of the profile that the prompts belong to.
        forms: Forms of question by name.
        remark: The biasing remark, with the name `biased` in braces.
        affirms: The answer to `vqascore` whose probability is the score.
        families: Families of models by name, in `published`.
        scripts: Prompts of families by name, in `published`.
        system: System prompt of all conversations in `equations`; empty without a system prompt.
        turns: Prompts for chat templates, in `equations`.
    """

    fidelity: Fidelity
    forms: Annotated[dict[str, QuestionForm], AfterValidator(_check_forms)]
    remark: Annotated[str, AfterValidator(partial(_check_fields, allowed={"biased"}))]
    affirms: str
    families: dict[str, PromptFamily] = {}
    scripts: dict[str, FamilyScript] = {}
    system: str = ""
    turns: TurnScript | None = None

    @model_validator(mode="after")
    def _check_scripts(self) -> "PromptFile":
        """Refuse prompts of another profile, no prompts, and families without prompts."""
        if self.turns is not None and (self.families or self.scripts):
            raise ValueError(
                "has turns and families; remove those that belong to the other profile"
            )
        by_family = self.fidelity.prompts == "families"
        if by_family and self.system:
            raise ValueError(
                f"'system' does not belong to profile {self.fidelity.name}; remove it"
            )
        if not by_family and self.turns is None:
            raise ValueError("'turns' is empty; remove the key, or write the prompts")
        for name, family in self.families.items():
            if family.script not in self.scripts:
                raise ValueError(
                    f"families: {name}: 'script' is none of {', '.join(self.scripts)}; name one of them"
                )
        return self


def read_prompt_file(
    fidelity: Fidelity, path: str | Path | None = None, reads_images: bool = True
) -> PromptFile:
    """Read the prompts of a profile.

    Args:
        fidelity: Rules of the profile.
        path: A file with prompts that replace prompts of the profile, or the name of a prompt file
            of waltz. Prompts that it omits stay.
        reads_images: Whether the prompts are those of VL decoders. In `equations` some prompts of
            language models differ (`equations-texts.yaml`).
    Raises:
        UserError: A file is missing, is not YAML, has an unknown key, or names an unknown field.
    """
    location = RESOURCES / "prompts" / f"{fidelity.name}.yaml"
    entries = _read_defaults(location)
    # In `published` language models are families with scripts of their own.
    texts_location = RESOURCES / "prompts" / f"{fidelity.name}-texts.yaml"
    if not reads_images and texts_location.is_file():
        entries = _merge(entries, _read_defaults(texts_location))
    if path is not None:
        location = find_resource("prompts", path)
        # A user's file states only the entries that it changes.
        entries = _merge(entries, _read_yaml(location))
    try:
        return PromptFile.model_validate({"fidelity": fidelity, **entries})
    except ValidationError as error:
        raise UserError(f"{location}: {_explain(error)}") from None


def _explain(error: ValidationError) -> str:
    """Return the first fault of a prompt file as one line: its keys, and what is wrong."""
    fault = error.errors(include_url=False)[0]
    # Pydantic marks a fault of a key itself by a last part `[key]`.
    keys = [str(part) for part in fault["loc"] if part != "[key]"]
    advice = "correct it"
    # YAML reads the words yes and no as true and false.
    if isinstance(fault["input"], bool):
        advice = "write yes and no in quotation marks"
    message = f"{fault['msg']} (got {describe_value(fault['input'])}); {advice}"
    # The validators of this module have complete messages.
    if fault["type"] == "value_error":
        message = fault["msg"].removeprefix("Value error, ")
    elif fault["type"] == "extra_forbidden":
        message = "unknown key; remove it"
    return ": ".join([*keys, message])


def get_prompt_family(spec: ModelSpec) -> str:
    """Return the family of a decoder in the published prompts, which decides its turn markers and
    system prompt.

    Raises:
        UserError: The model's entry does not name a family, or names a family of other models.
    """
    families = _read_cached(PUBLISHED).families
    reads_images = spec.kind == "vision"
    # A family of VL decoders has a marker before an image; a family of language models has none.
    names = [
        name
        for name, family in families.items()
        if bool(family.begin_image) == reads_images
    ]
    if spec.family in names:
        return spec.family
    if not spec.family:
        fault = "is missing"
    elif reads_images:
        fault = f"{spec.family!r} is not a family of models that read images"
    else:
        fault = f"{spec.family!r} is not a family of models that read text alone"
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
        fidelity = get_fidelity(profile)
        if fidelity.prompts == "families":
            get_prompt_family(spec)
        else:
            _read_cached(fidelity, spec.prompts, spec.kind == "vision")


@cache
def _read_cached(
    fidelity: Fidelity, path: str = "", reads_images: bool = True
) -> PromptFile:
    """Read a prompt file once for all models of a study."""
    return read_prompt_file(fidelity, path or None, reads_images)


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


_read_defaults = cache(_read_yaml)
"""Reads a prompt file of waltz once."""


def _merge(defaults: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two mappings recursively; values of the second replace values of the first."""
    merged = dict(defaults)
    for key, value in overrides.items():
        default = merged.get(key)
        if isinstance(default, dict) and isinstance(value, dict):
            value = _merge(default, value)
        merged[key] = value
    return merged
