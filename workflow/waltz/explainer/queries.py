"""What a decoder is asked by `waltz.Explainer`: a question, ready prompts or a conversation, and
what it generates.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from waltz.attribution.prompt_attribution import PromptGame, PromptSettings
from waltz.consistency.cc_shap.dialogue import (
    MAX_ANSWER_TOKENS,
    POST_HOC,
    Dialogue,
    generate_pairs,
    generate_targets,
)
from waltz.consistency.cc_shap.pair_attribution import Pair
from waltz.core.errors import UserError, shorten_value
from waltz.evaluation.prompting.decoder_outputs import choose_label
from waltz.evaluation.prompting.prompt_files import (
    PromptFile,
    QuestionForm,
    read_prompt_file,
)
from waltz.evaluation.prompting.prompts import (
    PromptTemplate,
    build_equations_template,
    build_published_template,
    join_turns,
    render_prompt,
    render_question,
)
from waltz.evaluation.prompting.questions import Question, list_letters
from waltz.explainer.arguments import ChatMessage
from waltz.models.decoders.decoder import Decoder, PreparedImage
from waltz.models.user_text import check_user_text, list_message_texts

IMAGE_PLACEHOLDER = "<image>"
"""Placeholder of the image in ready prompts, for every model; it is replaced by the placeholder of
the model.
"""
CHOICE, OPEN = "choice of the user", "open"
"""Forms of the user's question: with labels, and without labels."""


@dataclass(frozen=True)
class ReadyPrompts:
    """Hold two rendered prompts, with the query suffixes that end them.

    Attributes:
        answer: The prompt for the answer.
        answer_suffix: The text in it that asks for the answer.
        explanation: The prompt for the explanation.
        explanation_suffix: The text in it that asks for the explanation.
        greedy: Whether the model generates the most probable tokens; else `published` samples
            tokens as the released code does.
        family: For `published`, family of the released prompts whose rules hold: how query suffixes
            are counted, and whether tokens are joined by spaces. None takes the defaults of
            `PromptSettings`.
    """

    answer: str
    answer_suffix: str
    explanation: str
    explanation_suffix: str
    greedy: bool = True
    family: str | None = None


@dataclass(frozen=True)
class DecoderQuestion:
    """Hold a question for a decoder, which the prompts of a profile put into words.

    Attributes:
        question: The question: of the user, or of the form `pairwise` or `single` about texts of an
            image.
        kind: Kind of explanation, one of `dialogue.EXPLANATION_KINDS`; None for an answer without
            explanation.
        family: For `published`, family of the released prompts.
        prompts: A file of other prompts, like the files in `waltz/resources/prompts`, or the name
            of one there.
    """

    question: Question
    kind: str | None = POST_HOC
    family: str | None = None
    prompts: Path | None = None


@dataclass(frozen=True)
class Conversation:
    """Hold messages in the form of chat templates; the reply of the model is explained, without an
    explanation by it.

    Attributes:
        messages: Mappings of `role` and `content`; the content is a text or a list of parts.
    """

    messages: Sequence[ChatMessage]


Query = ReadyPrompts | DecoderQuestion | Conversation


@dataclass(frozen=True)
class GeneratedAnswer:
    """Hold the question that a decoder was asked, and what it generated.

    Attributes:
        question: The question as the prompts word it; None for ready prompts and messages.
        label: The label that the model chose; None without labels.
        games: The prompt of the answer with its explained tokens, followed by the prompt of the
            explanation if any.
    """

    question: str | None
    label: str | None
    games: Pair | tuple[PromptGame]


def build_user_question(text: str, labels: Sequence[str] = ()) -> Question:
    """Return the user's question, which is answered by one of the labels, or in words if there are
    no labels.

    Raises:
        UserError: There is a single label, or a label occurs twice.
    """
    if labels and len(set(labels)) != max(2, len(labels)):
        raise UserError(
            f"labels: too few (got {','.join(labels)}, expected two or more that differ); give such as A,B"
        )
    form = CHOICE if labels else OPEN
    return Question("", "", form, None, {"question": text}, tuple(labels), (), "")


def build_image_question(text: str, foil: str | None = None) -> Question:
    """Return a question about an image and a text, whose right answer is (A).

    Without a foil it asks whether the text describes the image, (A), or not, (B). With a foil it
    asks which of both texts describes the image: the text, (A), or the foil, (B).
    """
    if foil is None:
        return Question(
            "",
            "",
            "single",
            None,
            {"caption": text},
            list_letters(2),
            ("A",),
            "B",
            role="caption",
        )
    fields = {"first": text, "second": foil}
    return Question(
        "",
        "",
        "pairwise",
        None,
        fields,
        list_letters(2),
        ("A",),
        "B",
        order="caption-first",
    )


def generate_games(
    decoder: Decoder,
    picture: PreparedImage | None,
    query: Query,
    template: PromptTemplate | None,
    settings: PromptSettings,
    max_new_tokens: int,
) -> GeneratedAnswer:
    """Let a decoder answer a query, and explain its answer if the query requests an explanation.

    Args:
        picture: The image, prepared by `decoder.prepare_image`, or None.
        template: The prompts that belong to the query; see `build_query_template`.
        max_new_tokens: Maximum number of tokens of the explanation, or of the reply to messages.
    Raises:
        UserError: Model, image, prompts or settings do not fit each other.
    """
    if isinstance(query, ReadyPrompts):
        games = _generate_ready_pair(decoder, picture, query, settings, max_new_tokens)
        return GeneratedAnswer(None, None, games)
    if isinstance(query, Conversation):
        reply = _generate_reply(decoder, picture, query, settings, max_new_tokens)
        return GeneratedAnswer(None, None, (reply,))
    assert template is not None
    # The prompt shows an image if the question has an image name; the name itself is not used here.
    question = replace(query.question, image=None if picture is None else "")
    wording = render_question(question, template.prompt_file)[0]
    if query.kind is None:
        label, game = _generate_answer(decoder, picture, question, template, settings)
        return GeneratedAnswer(wording, label, (game,))
    # The explanation's prompt repeats the answer, so that both are generated in one dialogue.
    dialogue = Dialogue(
        decoder,
        template,
        settings.seed,
        max_new_tokens,
        of_study=False,
        samples_explanations=False,
    )
    generated = generate_pairs(dialogue, question, picture, (query.kind,))
    pair = generated.pairs[query.kind]
    if isinstance(pair, UserError):
        raise pair
    # Without labels the answer is text, which `Explanation.generated_text` shows.
    label = generated.answer if question.labels else None
    return GeneratedAnswer(wording, label, pair)


def _generate_answer(
    decoder: Decoder,
    picture: PreparedImage | None,
    question: Question,
    template: PromptTemplate,
    settings: PromptSettings,
) -> tuple[str | None, PromptGame]:
    """Return the chosen label (None without labels), and the prompt with the tokens of the answer."""
    prompt = decoder.build_prompt(render_prompt("answer", question, template).text)
    label: str | None = None
    if question.labels:
        label, token = choose_label(decoder, prompt, picture, question, template)
        if label is not None and settings.fidelity.decoder_target == "label":
            return label, PromptGame(prompt.text, "", (token,))
    # `published` explains the token that the model generates, label or not.
    length = 1 if question.labels else MAX_ANSWER_TOKENS
    targets = generate_targets(
        decoder, prompt, picture, length, settings.fidelity, settings.seed
    )
    return label, PromptGame(prompt.text, "", targets)


def _generate_reply(
    decoder: Decoder,
    picture: PreparedImage | None,
    query: Conversation,
    settings: PromptSettings,
    max_new_tokens: int,
) -> PromptGame:
    """Return the rendered messages with the tokens of the model's reply."""
    # A text that spells a control token would end the turn early.
    for text in list_message_texts(query.messages):
        check_user_text(decoder.tokenizer, text, "messages")
    prompt = decoder.build_prompt(decoder.render_messages(query.messages))
    shows_image = prompt.image_position is not None
    if shows_image and picture is None:
        raise UserError(
            f"{decoder.spec.name}: messages: they show an image, and none is given; give both, or neither"
        )
    if not shows_image and picture is not None:
        raise UserError(
            f"{decoder.spec.name}: messages: they show no image; give both, or neither"
        )
    targets = generate_targets(
        decoder, prompt, picture, max_new_tokens, settings.fidelity, settings.seed
    )
    return PromptGame(prompt.text, "", targets)


def _generate_ready_pair(
    decoder: Decoder,
    picture: PreparedImage | None,
    ready: ReadyPrompts,
    settings: PromptSettings,
    max_new_tokens: int,
) -> Pair:
    """Return ready prompts with the tokens that are generated after each."""

    def generate(text: str, suffix: str, length: int) -> PromptGame:
        prompt = decoder.build_prompt(_insert_placeholder(decoder, text))
        # The released code samples tokens by the checkpoint's own settings; the most probable
        # tokens are easier to compare.
        targets = generate_targets(
            decoder,
            prompt,
            picture,
            length,
            settings.fidelity,
            settings.seed,
            ready.greedy,
        )
        return PromptGame(prompt.text, suffix, targets)

    answer = generate(ready.answer, ready.answer_suffix, 1)
    return answer, generate(ready.explanation, ready.explanation_suffix, max_new_tokens)


def _insert_placeholder(decoder: Decoder, text: str) -> str:
    """Replace `<image>` in a ready prompt by the model's placeholder of an image."""
    has_placeholder = IMAGE_PLACEHOLDER in text
    if decoder.reads_images and not has_placeholder:
        raise UserError(
            f"prompt {shorten_value(repr(text))}: has no <image> for the image; put <image> where the image belongs"
        )
    if has_placeholder and not decoder.reads_images:
        raise UserError(
            f"prompt {shorten_value(repr(text))}: has an <image>, which a language model cannot see; leave it out"
        )
    if decoder.reads_images:
        return text.replace(IMAGE_PLACEHOLDER, decoder.placeholder)
    return text


def build_query_template(
    decoder: Decoder, query: Query, settings: PromptSettings
) -> PromptTemplate | None:
    """Return the prompts that belong to a query: of the profile with an additional form for the
    user's question, or of the family of ready prompts; None for messages, and without a family.

    Raises:
        UserError: There is no such family, or it does not fit the model.
    """
    by_family = settings.fidelity.prompts == "families"
    if isinstance(query, Conversation):
        return None
    if isinstance(query, ReadyPrompts):
        if query.family is None or not by_family:
            return None
        return _build_family_template(
            decoder, query.family, read_prompt_file(settings.fidelity)
        )
    prompts: str | Path | None = query.prompts
    # The entry of a model may name prompts, which replace those of `equations`.
    if prompts is None and not by_family:
        prompts = decoder.spec.prompts or None
    prompt_file = read_prompt_file(settings.fidelity, prompts, decoder.reads_images)
    # A question of the user is not reworded. If it has labels, it is answered like every other
    # choice.
    forms = {**prompt_file.forms, CHOICE: QuestionForm(text="{question}")}
    prompt_file = prompt_file.model_copy(update={"forms": forms})
    if by_family:
        template = _build_family_template(decoder, query.family, prompt_file)
    else:
        # A base model has no chat template, so that its turns are joined as plain text.
        render_turns = decoder.render_chat if decoder.has_chat_template else join_turns
        template = build_equations_template(render_turns, prompt_file)
    return replace(template, tokenizer=decoder.tokenizer)


def _build_family_template(
    decoder: Decoder, family: str | None, prompt_file: PromptFile
) -> PromptTemplate:
    """Return the released prompts of a family; refuse a family that does not fit the model."""
    if family is None:
        families = ", ".join(prompt_file.families)
        raise UserError(
            f"{decoder.spec.name}: published prompts depend on the family; name one of {families}"
        )
    template = build_published_template(family, prompt_file)
    # Prompts of families that read images have a marker where the image begins.
    family_sees = bool(prompt_file.families[family].begin_image)
    if family_sees != decoder.reads_images:
        ability = "sees images" if family_sees else "sees no images"
        raise UserError(
            f"{decoder.spec.name}: the model family {family!r} {ability}, unlike this model; name another family"
        )
    return template
