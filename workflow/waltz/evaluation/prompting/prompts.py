"""Prompts: what a decoder is asked, rendered from the prompt files, with the place of each part.

A prompt has two parts. The shared part, up to the end of the item's own words, is the same in the prompt for the
answer and in that for its explanation. The tail, all that follows, asks for the one or the other; CC-SHAP drops it
(thesis 5.2).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import Formatter

from waltz.core.errors import UserError
from waltz.core.text_diff import Span
from waltz.evaluation.prompting.prompt_files import FREE, KINDS, SHOWN, Family, Wording, prompt_of, read_wording
from waltz.evaluation.prompting.questions import Question
from waltz.models.decoders.decoder import Turn

SENTINEL = "\ue000item\ue001"
"""Stands for the item's words while a chat template is asked where it puts them: private-use characters."""


@dataclass(frozen=True)
class Voice:
    """How one model is spoken to.

    Attributes:
        wording: The prompts of a profile.
        family: The model's family; None in `equations`.
        template: Renders turns, ready for the assistant to go on (`Decoder.render_chat`); None in `published`.
    """

    wording: Wording
    family: str | None = None
    template: Callable[[Sequence[Turn]], str] | None = None

    @property
    def tail(self) -> str:
        """Which players are the tail: `span`, or a rule of the released code (`wording.Family`)."""
        return "span" if self.family is None else self.wording.families[self.family].tail


@dataclass(frozen=True)
class Asked:
    """A rendered prompt.

    Attributes:
        text: The prompt, image placeholder included.
        shared: Characters up to the end of the item's own words; all of them where no question is put.
        tail: Characters that ask for the answer or the explanation: all that follow.
        item: Characters of the item as its form words it; None where no question is put.
        fields: Characters of each field of the question, by its name; none where the item's words were given.
        counted: Text whose tokens the released code counted to know the length of the tail.
        turns: What was rendered by the chat template; none in `published`.
    """

    text: str
    shared: Span
    tail: Span
    item: Span | None
    fields: Mapping[str, Span] = field(default_factory=dict)
    counted: str = ""
    turns: tuple[Turn, ...] = ()


def published(family: str, wording: Wording | None = None) -> Voice:
    """The voice of the released code for a family of models.

    Args:
        family: A key of `families` in the prompt file.
        wording: Other prompts than the profile's own.
    Raises:
        UserError: The family is unknown.
    """
    wording = read_wording("published") if wording is None else wording
    if family not in wording.families:
        known = ", ".join(wording.families)
        raise UserError(f"no published prompts for the model family {family!r}; there are {known}")
    return Voice(wording, family)


def equations(template: Callable[[Sequence[Turn]], str], wording: Wording | None = None) -> Voice:
    """The voice of the `equations` profile for a decoder.

    Args:
        template: The decoder's `rendered`, or `without_template`.
        wording: Other prompts than the profile's own.
    """
    return Voice(read_wording("equations") if wording is None else wording, template=template)


def without_template(turns: Sequence[Turn]) -> str:
    """Turns one below the other without any marker: for a language model that was trained on no chat.

    Raises:
        UserError: A turn shows an image, for which nothing says how.
    """
    if any(turn.image for turn in turns):
        raise UserError("a model without a chat template cannot be asked about an image: give it one")
    return "\n".join(turn.text for turn in turns)


def worded(question: Question, wording: Wording) -> tuple[str, dict[str, Span]]:
    """The words of an item, and the characters of them that each field fills.

    Raises:
        UserError: The form is unknown, or names a field that the question lacks.
    """
    if question.form not in wording.forms:
        raise UserError(f"{question.item_id}: form {question.form!r} is none of {', '.join(wording.forms)}")
    text, spans = "", {}
    for before, name, _, _ in Formatter().parse(wording.forms[question.form].text):
        text += before
        if name is not None:
            if name not in question.fields:
                raise UserError(f"{question.item_id}: its form {question.form} names {name!r}, which it lacks")
            spans[name] = Span(start=len(text), end=len(text) + len(question.fields[name]))
            text += question.fields[name]
    return text, spans


def said(question: Question, wording: Wording, label: str) -> str:
    """How a label of a question is said: by its letter, unless the form says it otherwise."""
    return wording.forms[question.form].said.get(label, label)


def render(kind: str, question: Question | None, voice: Voice, given: Mapping[str, str] | None = None) -> Asked:
    """A prompt of one kind, in the words and the markers of one voice.

    Args:
        kind: One of `wording.KINDS`.
        question: What is asked; the kinds in `wording.FREE` need none, and `vqascore` and `caption` show its image.
        voice: How the model is spoken to.
        given: What was said before: `answer` (label or text), `reasoning` (as it was generated, blanks included),
            `biased` (the answer that a remark suggests; adds the remark), `sentence`, `text`, `other`, and `input`
            (the item's words where they were edited).
    Raises:
        UserError: The family cannot be asked this, or the chat template changes the item's words.
        ValueError: The kind is unknown, or something that it names was not given.
    """
    if kind not in KINDS:
        raise ValueError(f"kind of prompt {kind!r} is none of {', '.join(KINDS)}")
    if question is None and kind not in FREE:
        raise ValueError(f"a prompt of the kind {kind!r} needs a question")
    given = dict(given or {})
    if question is not None and question.form in voice.wording.forms:
        given |= {name: said(question, voice.wording, given[name]) for name in ("answer", "biased") if name in given}
    form = voice.wording.forms[question.form] if question and question.form in voice.wording.forms else None
    words, fields = ("", {}) if question is None or kind in FREE else worded(question, voice.wording)
    if "input" in given:
        words, fields = given["input"], {}
    filled = {
        "lead": form.lead if form else "",
        "remark": voice.wording.remark.format_map(given) if "biased" in given else "",
        **{name: text for name, text in given.items() if name != "input"},
    }
    manner = "free" if kind in FREE or form is None else form.manner
    image = kind in SHOWN and question is not None and question.image is not None
    if voice.family is not None:
        asked = _published(kind, manner, words, filled, image, voice)
    else:
        asked = _equations(kind, manner, words, filled, image, voice)
    if asked.item is None:
        return asked
    start = asked.item["start"]
    placed = {name: Span(start=start + span["start"], end=start + span["end"]) for name, span in fields.items()}
    return replace(asked, fields=placed)


def _published(kind: str, manner: str, words: str, filled: Mapping[str, str], image: bool, voice: Voice) -> Asked:
    family = voice.wording.families[str(voice.family)]
    script = voice.wording.scripts[family.script]
    if manner not in script:
        raise UserError(f"the model family {voice.family!r} has no published prompt for open questions")
    values = {**family.markers, **filled, "first_begin": _first_begin(family, image, voice)}
    prompt = prompt_of(script[manner], kind)
    if "text" in prompt:
        return _apart(_fill(prompt["text"], values, kind))
    then = ""
    if "before" in prompt:
        then, prompt = prompt["then"], script[manner][prompt["before"]]
    before, after = (_fill(part, values, kind) for part in prompt["shared"].split("{input}"))
    tail = _fill(prompt["tail"] + then, values, kind)
    counted = _fill(prompt["counted"], values, kind) if "counted" in prompt else tail
    item = Span(start=len(before), end=len(before) + len(words))
    shared = before + words + after
    return Asked(shared + tail, *_parts(len(shared), shared + tail), item, counted=counted)


def _first_begin(family: Family, image: bool, voice: Voice) -> str:
    if image and not family.markers["begin_image"]:
        raise UserError(f"the model family {voice.family!r} sees no images")
    return family.markers["begin_image" if image else "begin"]


def _equations(kind: str, manner: str, words: str, filled: Mapping[str, str], image: bool, voice: Voice) -> Asked:
    if voice.template is None:
        raise ValueError("the voice has neither a family nor a chat template")

    def conversation(item: str) -> tuple[Turn, ...]:
        prompt = prompt_of(voice.wording.scripts["turns"][manner], kind)
        spoken = [next(iter(turn.items())) for turn in prompt]
        shown = next((place for place, (speaker, _) in enumerate(spoken) if speaker == "user"), None) if image else None
        values = {**filled, "input": item}
        return tuple(
            Turn(speaker, _fill(text, values, kind), place == shown) for place, (speaker, text) in enumerate(spoken)
        )

    turns = conversation(words)
    text = voice.template(turns)
    if manner == "free":
        return Asked(text, Span(start=0, end=len(text)), Span(start=len(text), end=len(text)), None, turns=turns)
    before, found, after = voice.template(conversation(SENTINEL)).partition(SENTINEL)
    after = after.replace(SENTINEL, words)
    if not found or before + words + after != text:
        raise UserError("the chat template changes the words of an item, so its tokens cannot be told from the others")
    item = Span(start=len(before), end=len(before) + len(words))
    return Asked(text, *_parts(item["end"], text), item, counted=after, turns=turns)


def _apart(text: str) -> Asked:
    return Asked(text, *_parts(len(text), text), None)


def _parts(end: int, text: str) -> tuple[Span, Span]:
    """Shared part and tail of a prompt whose shared part ends at a character."""
    return Span(start=0, end=end), Span(start=end, end=len(text))


def _fill(text: str, values: Mapping[str, str], kind: str) -> str:
    try:
        return text.format_map(values)
    except KeyError as missing:
        raise ValueError(f"a prompt of the kind {kind!r} needs {missing}") from missing
