"""Prompts rendered from the prompt files, with the position of each part.

A prompt has two parts. The shared part, up to the end of the item's own words, is the same in the prompts for the
answer and for its explanation. The query suffix, everything after it, asks for one or the other; CC-SHAP skips it
(thesis 5.2).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import Formatter

from waltz.core.errors import UserError
from waltz.core.text_diff import Span
from waltz.evaluation.prompting.prompt_files import (
    FREE_KINDS,
    IMAGE_KINDS,
    KINDS,
    PromptFamily,
    PromptFile,
    get_prompt,
    read_prompt_file,
)
from waltz.evaluation.prompting.questions import Question
from waltz.models.decoders.decoder import Turn

SENTINEL = "\ue000item\ue001"
"""Placeholder for the item's words, to find their position in a rendered chat: private-use characters."""


@dataclass(frozen=True)
class PromptTemplate:
    """The wording and the turn markers of one model in one profile.

    Attributes:
        prompt_file: The prompts of the profile.
        family: The model's prompt family; None in `equations`.
        render_turns: Renders turns, ready for the assistant to continue (`Decoder.render_chat`); None in `published`.
    """

    prompt_file: PromptFile
    family: str | None = None
    render_turns: Callable[[Sequence[Turn]], str] | None = None

    @property
    def suffix_rule(self) -> str:
        """Rule for the players of the query suffix: `span`, or one of the released code (`PromptFamily`)."""
        return "span" if self.family is None else self.prompt_file.families[self.family].suffix_rule


@dataclass(frozen=True)
class RenderedPrompt:
    """A rendered prompt.

    Attributes:
        text: The prompt, image placeholder included.
        shared: Characters up to the end of the item's own words; all of them where the prompt puts no question.
        suffix: Characters of the query suffix: all that follow.
        item: Characters of the item in the wording of its form; None where the prompt puts no question.
        fields: Characters of each field of the question, by name; empty where the item's words were edited.
        counted_suffix: Text whose tokens the released code counted as the length of the suffix.
        turns: Turns that the chat template rendered; empty in `published`.
    """

    text: str
    shared: Span
    suffix: Span
    item: Span | None
    fields: Mapping[str, Span] = field(default_factory=dict)
    counted_suffix: str = ""
    turns: tuple[Turn, ...] = ()


def build_published_template(family: str, prompt_file: PromptFile | None = None) -> PromptTemplate:
    """Return the prompts of the released code for a family of models.

    Args:
        family: A key of `families` in the prompt file.
        prompt_file: Other prompts than the profile's own.
    Raises:
        UserError: The family is unknown.
    """
    prompt_file = read_prompt_file("published") if prompt_file is None else prompt_file
    if family not in prompt_file.families:
        raise UserError(
            f"no published prompts for this model family: got {family!r}, expected one of"
            f" {', '.join(prompt_file.families)}"
        )
    return PromptTemplate(prompt_file, family)


def build_equations_template(
    render_turns: Callable[[Sequence[Turn]], str], prompt_file: PromptFile | None = None
) -> PromptTemplate:
    """Return the prompts of profile `equations` for a decoder.

    Args:
        render_turns: The decoder's `render_chat`, or `join_turns`.
        prompt_file: Other prompts than the profile's own.
    """
    return PromptTemplate(
        read_prompt_file("equations") if prompt_file is None else prompt_file, render_turns=render_turns
    )


def join_turns(turns: Sequence[Turn]) -> str:
    """Join turns by line breaks, without markers, for a language model without a chat template.

    Raises:
        UserError: A turn shows an image, which needs a placeholder.
    """
    if any(turn.image for turn in turns):
        raise UserError("a model without a chat template cannot be asked about an image; set processor.chat_template")
    return "\n".join(turn.text for turn in turns)


def render_question(question: Question, prompt_file: PromptFile) -> tuple[str, dict[str, Span]]:
    """Return the words of an item, and the characters that each field fills.

    Raises:
        UserError: The form is unknown, or names a field that the question lacks.
    """
    if question.form not in prompt_file.forms:
        raise UserError(
            f"unknown form of question: {question.item_id} (got {question.form!r}, expected one of"
            f" {', '.join(prompt_file.forms)})"
        )
    text, spans = "", {}
    for literal, name, _, _ in Formatter().parse(prompt_file.forms[question.form].text):
        text += literal
        if name is not None:
            if name not in question.fields:
                raise UserError(f"{question.item_id}: its form {question.form} names {name!r}, which it lacks")
            spans[name] = Span(start=len(text), end=len(text) + len(question.fields[name]))
            text += question.fields[name]
    return text, spans


def render_label(question: Question, prompt_file: PromptFile, label: str) -> str:
    """Return the text of a label: its letter, unless the form spells it otherwise."""
    return prompt_file.forms[question.form].label_texts.get(label, label)


def render_prompt(
    kind: str, question: Question | None, template: PromptTemplate, texts: Mapping[str, str] | None = None
) -> RenderedPrompt:
    """Return the prompt of one kind in the wording and the turn markers of one template.

    Args:
        kind: One of `prompt_files.KINDS`.
        question: The question; the kinds in `FREE_KINDS` need none, and `vqascore` and `caption` show its image.
        texts: Earlier texts that the prompt repeats: `answer` (label or text), `reasoning` (as it was generated,
            whitespace included), `biased` (the answer that the remark suggests; adds the remark), `sentence`, `text`,
            `other`, and `input` (the item's words where they were edited).
    Raises:
        UserError: The family has no such prompt, or the chat template changes the item's words.
        ValueError: The kind is unknown, or a text that it names is missing.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown kind of prompt {kind!r}; expected one of {', '.join(KINDS)}")
    if question is None and kind not in FREE_KINDS:
        raise ValueError(f"a prompt of the kind {kind!r} needs a question")
    texts = dict(texts or {})
    forms = template.prompt_file.forms
    form = forms[question.form] if question is not None and question.form in forms else None
    if question is not None and form is not None:
        texts |= {
            name: render_label(question, template.prompt_file, texts[name])
            for name in ("answer", "biased")
            if name in texts
        }
    if question is None or kind in FREE_KINDS:
        words, field_spans = "", dict[str, Span]()
    else:
        words, field_spans = render_question(question, template.prompt_file)
    if "input" in texts:
        words, field_spans = texts["input"], {}
    values = {
        "opening": form.opening if form else "",
        "lead": form.lead if form else "",
        "remark": template.prompt_file.remark.format_map(texts) if "biased" in texts else "",
        **{name: text for name, text in texts.items() if name != "input"},
    }
    answer_type = "free" if kind in FREE_KINDS or form is None else form.answer_type
    has_image = kind in IMAGE_KINDS and question is not None and question.image is not None
    render = _render_published if template.family is not None else _render_equations
    prompt = render(kind, answer_type, words, values, has_image, template)
    if prompt.item is None:
        return prompt
    start = prompt.item["start"]
    fields = {name: Span(start=start + span["start"], end=start + span["end"]) for name, span in field_spans.items()}
    return replace(prompt, fields=fields)


def _render_published(
    kind: str, answer_type: str, words: str, values: Mapping[str, str], has_image: bool, template: PromptTemplate
) -> RenderedPrompt:
    family = template.prompt_file.families[str(template.family)]
    script = template.prompt_file.scripts[family.script]
    if answer_type not in script:
        raise UserError(f"the model family {template.family!r} has no published prompt for open questions")
    values = {**family.markers, **values, "first_begin": _get_first_marker(family, has_image, template)}
    prompt = get_prompt(script[answer_type], kind)
    if "text" in prompt:
        return _build_free_prompt(_fill(prompt["text"], values, kind))
    continuation = ""
    if "before" in prompt:
        continuation, prompt = prompt["then"], script[answer_type][prompt["before"]]
    before, after = (_fill(part, values, kind) for part in prompt["shared"].split("{input}"))
    suffix = _fill(prompt["suffix"] + continuation, values, kind)
    counted = _fill(prompt["counted"], values, kind) if "counted" in prompt else suffix
    item = Span(start=len(before), end=len(before) + len(words))
    shared = before + words + after
    return RenderedPrompt(shared + suffix, *_split_at(len(shared), shared + suffix), item, counted_suffix=counted)


def _get_first_marker(family: PromptFamily, has_image: bool, template: PromptTemplate) -> str:
    if has_image and not family.markers["begin_image"]:
        raise UserError(f"the model family {template.family!r} sees no images")
    return family.markers["begin_image" if has_image else "begin"]


def _render_equations(
    kind: str, answer_type: str, words: str, values: Mapping[str, str], has_image: bool, template: PromptTemplate
) -> RenderedPrompt:
    if template.render_turns is None:
        raise ValueError("the template has neither a family nor a chat template")

    def build_turns(item_words: str) -> tuple[Turn, ...]:
        prompt = get_prompt(template.prompt_file.scripts["turns"][answer_type], kind)
        turns = [next(iter(turn.items())) for turn in prompt]
        if template.prompt_file.system:
            turns.insert(0, ("system", template.prompt_file.system))
        first_user = next((index for index, (speaker, _) in enumerate(turns) if speaker == "user"), None)
        image_turn = first_user if has_image else None
        fields = {**values, "input": item_words}
        return tuple(
            Turn(speaker, _fill(text, fields, kind), index == image_turn) for index, (speaker, text) in enumerate(turns)
        )

    turns = build_turns(words)
    text = template.render_turns(turns)
    if answer_type == "free":
        return replace(_build_free_prompt(text), turns=turns)
    before, sentinel, after = template.render_turns(build_turns(SENTINEL)).partition(SENTINEL)
    after = after.replace(SENTINEL, words)
    if not sentinel or before + words + after != text:
        raise UserError("the chat template changes the words of an item, so its tokens cannot be told from the others")
    item = Span(start=len(before), end=len(before) + len(words))
    return RenderedPrompt(text, *_split_at(item["end"], text), item, counted_suffix=after, turns=turns)


def _build_free_prompt(text: str) -> RenderedPrompt:
    return RenderedPrompt(text, *_split_at(len(text), text), None)


def _split_at(end: int, text: str) -> tuple[Span, Span]:
    """Return the shared part and the query suffix of a prompt whose shared part ends at a character."""
    return Span(start=0, end=end), Span(start=end, end=len(text))


def _fill(text: str, values: Mapping[str, str], kind: str) -> str:
    try:
        return text.format_map(values)
    except KeyError as missing:
        raise ValueError(f"a prompt of the kind {kind!r} needs {missing}") from missing
