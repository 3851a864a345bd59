"""Prompts rendered from the prompt files, with the position of each part.

A prompt has two parts. The shared part ends with the words of the item, and is the same in the
prompts for the answer and for its explanation. The query suffix is everything after it, and asks
for the answer or for the explanation; CC-SHAP skips it (thesis 5.2).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import Formatter
from typing import Any

from waltz.core.errors import ItemError, UserError
from waltz.core.text_diff import Span
from waltz.evaluation.prompting.prompt_files import (
    FREE_KINDS,
    IMAGE_KINDS,
    KINDS,
    MARKERS,
    PromptFamily,
    PromptFile,
    QuestionForm,
    read_prompt_file,
)
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import EQUATIONS, PUBLISHED
from waltz.models.decoders.decoder import ChatTurn
from waltz.models.user_text import check_generated_text, check_user_text

DECODED_PROMPT = "decoded_prompt"
"""Name of the text that stands instead of the prompt of a chain of thought."""
SENTINEL = "\ue000item\ue001"
"""Placeholder for the item's words, which finds their position in a rendered chat; it has
private-use characters.
"""


@dataclass(frozen=True)
class PromptTemplate:
    """Hold the wording and the turn markers of the prompts of one model in one profile.

    Attributes:
        prompt_file: The prompts of the profile.
        family: The prompt family of the model; None in `equations`.
        render_turns: Renders turns, ready for the assistant to continue (`Decoder.render_chat`);
            None in `published`.
        tokenizer: Tokenizer of the decoder, whose control tokens no item may contain; None checks
            nothing.
    """

    prompt_file: PromptFile
    family: str | None = None
    render_turns: Callable[[Sequence[ChatTurn]], str] | None = None
    tokenizer: Any = None

    @property
    def suffix_rule(self) -> str:
        """Return the rule for the players of the query suffix: `span`, or a released rule (see
        `PromptFamily`).
        """
        if self.family is None:
            return "span"
        return self.prompt_file.families[self.family].suffix_rule


@dataclass(frozen=True)
class RenderedPrompt:
    """Hold a rendered prompt with the position of its parts.

    Attributes:
        text: The prompt, placeholder of the image included.
        shared: Span of the shared part, which ends with the item's words; the whole text if no
            question is asked.
        suffix: Span of the query suffix, which is everything after the shared part.
        item: Span of the item in the wording of its form; None if the prompt does not ask a
            question.
        fields: Span of each field of the question, by name; empty if the item's words were edited.
        counted_suffix: Text whose tokens the released code counted as the length of the suffix.
        turns: Turns that the chat template rendered; empty in `published`.
    """

    text: str
    shared: Span
    suffix: Span
    item: Span | None
    fields: Mapping[str, Span] = field(default_factory=dict)
    counted_suffix: str = ""
    turns: tuple[ChatTurn, ...] = ()


def build_published_template(
    family: str, prompt_file: PromptFile | None = None
) -> PromptTemplate:
    """Return the prompts of the released code for a family of models.

    Args:
        family: A key of `families` in the prompt file.
        prompt_file: Prompts that replace the profile's prompts; None takes the profile's.
    Raises:
        UserError: The family is unknown.
    """
    if prompt_file is None:
        prompt_file = read_prompt_file(PUBLISHED)
    if family not in prompt_file.families:
        raise UserError(
            f"no published prompts for this model family: got {family!r}, expected one of"
            f" {', '.join(prompt_file.families)}"
        )
    return PromptTemplate(prompt_file, family)


def build_equations_template(
    render_turns: Callable[[Sequence[ChatTurn]], str],
    prompt_file: PromptFile | None = None,
) -> PromptTemplate:
    """Return the prompts of profile `equations` for a decoder.

    Args:
        render_turns: The decoder's `render_chat`, or `join_turns`.
        prompt_file: Prompts that replace the profile's prompts; None takes the profile's.
    """
    if prompt_file is None:
        prompt_file = read_prompt_file(EQUATIONS)
    return PromptTemplate(prompt_file, render_turns=render_turns)


def join_turns(turns: Sequence[ChatTurn]) -> str:
    """Join turns by line breaks, without markers, for a language model without a chat template.

    Raises:
        UserError: A turn shows an image, which needs a placeholder.
    """
    if any(turn.image for turn in turns):
        raise UserError(
            "a model without a chat template cannot be asked about an image; set models.NAME.chat_template in the study"
        )
    return "\n".join(turn.text for turn in turns)


def render_question(
    question: Question, prompt_file: PromptFile
) -> tuple[str, dict[str, Span]]:
    """Return the words of an item in the wording of its form, and the span of each field.

    Raises:
        UserError: The form is unknown, or names a field that the question lacks.
    """
    if question.form not in prompt_file.forms:
        raise UserError(
            f"unknown form of question: {question.item_id} (got {question.form!r}, expected one of"
            f" {', '.join(prompt_file.forms)})"
        )
    # The form is filled piece by piece, so that the position of each field is known.
    text = ""
    spans: dict[str, Span] = {}
    for literal, name, _, _ in Formatter().parse(prompt_file.forms[question.form].text):
        text += literal
        if name is None:
            continue  # the text after the last field
        if name not in question.fields:
            raise UserError(
                f"{question.item_id}: the form {question.form} names {name!r}, which the question lacks; correct the"
                " prompt file"
            )
        value = question.fields[name]
        spans[name] = Span(start=len(text), end=len(text) + len(value))
        text += value
    return text, spans


def render_label(question: Question, prompt_file: PromptFile, label: str) -> str:
    """Return the text of a label: its letter, unless the form states another text."""
    return prompt_file.forms[question.form].label_texts.get(label, label)


def render_prompt(
    kind: str,
    question: Question | None,
    template: PromptTemplate,
    texts: Mapping[str, str] | None = None,
) -> RenderedPrompt:
    """Render a prompt of one kind, in the wording and with the turn markers of one template.

    Args:
        kind: One of `prompt_files.KINDS`.
        question: The question. The kinds in `FREE_KINDS` need no question; `vqascore` and `caption`
            show its image.
        template: The prompts and turn markers of a model.
        texts: Earlier texts that the prompt repeats: `answer` (label or text), `reasoning` (as it
            was generated, whitespace included), `biased` (the suggested answer, which adds the
            biasing remark), `sentence`, `text`, `other`, `input` (the edited words of the item),
            and `decoded_prompt` (what the tokenizer made of the prompt of the reasoning, which then
            stands before the reasoning; the prompt has no spans).
    Raises:
        ItemError: A text contains a control token, or the chat template changes the item's words.
        UserError: The family has no such prompt.
        ValueError: The kind is unknown, or a text that it needs is missing.
    """
    if kind not in KINDS:
        raise ValueError(
            f"unknown kind of prompt {kind!r}; expected one of {', '.join(KINDS)}"
        )
    asks_question = kind not in FREE_KINDS
    if question is None and asks_question:
        raise ValueError(f"a prompt of the kind {kind!r} needs a question")
    texts = dict(texts or {})
    form: QuestionForm | None = None
    words = ""
    field_spans: dict[str, Span] = {}
    shows_image = False
    if question is not None:
        form = template.prompt_file.forms.get(question.form)
        shows_image = question.image is not None and kind in IMAGE_KINDS
        texts = _spell_labels(texts, question, template.prompt_file)
        if asks_question:
            words, field_spans = render_question(question, template.prompt_file)
    # Edited words replace the words of the form, so that the positions of its fields are unknown.
    if "input" in texts:
        words, field_spans = texts["input"], {}
    if template.tokenizer is not None:
        _check_texts(template.tokenizer, question, words, texts, kind)

    answer_type = "free"
    if form is not None and asks_question:
        answer_type = form.answer_type
    parts = _Parts(
        kind=kind,
        answer_type=answer_type,
        words=words,
        values=_list_values(form, texts, template.prompt_file),
        has_image=shows_image,
    )
    render = _render_equations if template.family is None else _render_published
    prompt = render(parts, template)
    if DECODED_PROMPT in texts:
        # The prompt of the reasoning is the beginning of this prompt.
        beginning = render(replace(parts, kind="cot"), template).text
        text = texts[DECODED_PROMPT] + prompt.text.removeprefix(beginning)
        return _build_free_prompt(text)
    if prompt.item is None:
        return prompt
    # The spans of fields count from the item's first character.
    start = prompt.item["start"]
    fields = {
        name: Span(start=start + span["start"], end=start + span["end"])
        for name, span in field_spans.items()
    }
    return replace(prompt, fields=fields)


@dataclass(frozen=True)
class _Parts:
    """Hold the parts from which a prompt is rendered.

    Attributes:
        kind: Kind of the prompt.
        answer_type: Type of answer by which prompt files group their prompts: `choice`, `open` or
            `free`.
        words: The item's words; empty in a prompt without a question.
        values: Texts of the prompt file's fields by name.
        has_image: Whether the prompt shows an image.
    """

    kind: str
    answer_type: str
    words: str
    values: Mapping[str, str]
    has_image: bool


def _spell_labels(
    texts: Mapping[str, str], question: Question, prompt_file: PromptFile
) -> dict[str, str]:
    """Return the texts that a prompt repeats, with labels in the wording of the question's form."""
    spelled = dict(texts)
    if question.form not in prompt_file.forms:
        return spelled
    # A form may write its labels as words, such as yes and no.
    for name in ("answer", "biased"):
        if name in spelled:
            spelled[name] = render_label(question, prompt_file, spelled[name])
    return spelled


def _list_values(
    form: QuestionForm | None, texts: Mapping[str, str], prompt_file: PromptFile
) -> dict[str, str]:
    """Return the texts of the fields of prompts, except the item's words and the markers of a
    family.
    """
    # Fields that a prompt does not use stay empty.
    values = {"opening": "", "lead": "", "remark": ""}
    if form is not None:
        values |= {"opening": form.opening, "lead": form.lead}
    if "biased" in texts:
        values["remark"] = prompt_file.remark.format_map(texts)
    values |= texts
    values.pop("input", None)
    return values


def _check_texts(
    tokenizer: Any,
    question: Question | None,
    words: str,
    texts: Mapping[str, str],
    kind: str,
) -> None:
    """Refuse texts of an item, and generated texts that a prompt repeats, if they contain control
    tokens.
    """
    item_texts = [words]
    label = kind
    if question is not None:
        item_texts += [*question.fields.values(), *question.labels]
        label = question.item_id or kind
    for text in item_texts:
        check_user_text(tokenizer, text, label)
    for name, text in texts.items():
        # A decoded prompt begins with the markers of its own prompt, whose texts are checked.
        if name != DECODED_PROMPT:
            check_generated_text(tokenizer, text, label)


def _render_published(parts: _Parts, template: PromptTemplate) -> RenderedPrompt:
    """Render a prompt with the markers of a family of the released code."""
    # The family decides the script of prompts and the markers between turns.
    family = template.prompt_file.families[str(template.family)]
    script = template.prompt_file.scripts[family.script]
    first_begin = _get_first_marker(family, parts.has_image, template)
    markers = family.model_dump(include=MARKERS)
    values = {**markers, **parts.values, "first_begin": first_begin}

    def fill(text: str) -> str:
        return _fill(text, values, parts.kind)

    if parts.answer_type == "free":
        return _build_free_prompt(fill(script.free[parts.kind].text))
    prompts = script.open if parts.answer_type == "open" else script.choice
    if prompts is None:
        raise UserError(
            f"the model family {template.family!r} has no published prompt for open questions; take published out of"
            " profiles, or name another family"
        )
    prompt = prompts[parts.kind]
    # The item's words may contain braces, so that only the texts before and after them are filled.
    before, after = (fill(text) for text in prompt.shared.split("{input}"))
    suffix = fill(prompt.suffix)
    counted_suffix = suffix
    if prompt.counted is not None:
        counted_suffix = fill(prompt.counted)
    item = Span(start=len(before), end=len(before) + len(parts.words))
    shared = before + parts.words + after
    text = shared + suffix
    return RenderedPrompt(
        text, *_split_at(len(shared), text), item, counted_suffix=counted_suffix
    )


def _get_first_marker(
    family: PromptFamily, has_image: bool, template: PromptTemplate
) -> str:
    """Return the marker before the first turn, with the placeholder of an image if there is one."""
    if not has_image:
        return family.begin
    if not family.begin_image:
        raise UserError(
            f"the model family {template.family!r} sees no images; name a family that does"
        )
    return family.begin_image


def _render_equations(parts: _Parts, template: PromptTemplate) -> RenderedPrompt:
    """Render a prompt with a chat template.

    A template may change its input. The position of the item is therefore found by rendering a
    placeholder instead of the item.
    """
    if template.render_turns is None:
        raise ValueError("the template has neither a family nor a chat template")
    turns = _build_turns(parts, parts.words, template.prompt_file)
    text = template.render_turns(turns)
    if parts.answer_type == "free":
        return replace(_build_free_prompt(text), turns=turns)

    # The second rendering has the placeholder; the text around it must be the same as around the
    # item.
    with_sentinel = template.render_turns(
        _build_turns(parts, SENTINEL, template.prompt_file)
    )
    before, sentinel, after = with_sentinel.partition(SENTINEL)
    # A prompt may repeat the item, so that further placeholders are replaced.
    after = after.replace(SENTINEL, parts.words)
    if not sentinel or before + parts.words + after != text:
        raise ItemError(
            "the chat template changes the words of an item, so its tokens cannot be told from the others; take another"
            " model, or set models.NAME.chat_template in the study"
        )
    item = Span(start=len(before), end=len(before) + len(parts.words))
    return RenderedPrompt(
        text, *_split_at(item["end"], text), item, counted_suffix=after, turns=turns
    )


def _build_turns(
    parts: _Parts, item_words: str, prompt_file: PromptFile
) -> tuple[ChatTurn, ...]:
    """Return the turns of a prompt from the prompt file; the first turn of the user shows the
    image.
    """
    if prompt_file.turns is None:
        raise ValueError("the prompt file has no turns for a chat template")
    fields = {**parts.values, "input": item_words}
    turns = []
    if prompt_file.system:
        turns.append(ChatTurn("system", _fill(prompt_file.system, fields, parts.kind)))
    is_image_due = parts.has_image
    for entry in prompt_file.turns.get_turns(parts.answer_type, parts.kind):
        [(speaker, text)] = entry.items()
        shows_image = is_image_due and speaker == "user"
        turns.append(ChatTurn(speaker, _fill(text, fields, parts.kind), shows_image))
        if shows_image:
            is_image_due = False  # the image is shown once
    return tuple(turns)


def _build_free_prompt(text: str) -> RenderedPrompt:
    return RenderedPrompt(text, *_split_at(len(text), text), None)


def _split_at(end: int, text: str) -> tuple[Span, Span]:
    """Return the spans of the shared part and of the query suffix, if the shared part ends at a
    character.
    """
    return Span(start=0, end=end), Span(start=end, end=len(text))


def _fill(text: str, values: Mapping[str, str], kind: str) -> str:
    try:
        return text.format_map(values)
    except KeyError as missing:
        raise ValueError(f"a prompt of the kind {kind!r} needs {missing}") from missing
