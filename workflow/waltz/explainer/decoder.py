"""A decoder's answer to one question and its explanation, attributed: the code behind `waltz explain`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from PIL import Image

from waltz.attribution.prompt_attribution import PromptGame, PromptSettings
from waltz.consistency.cc_shap.dialogue import (
    POST_HOC,
    Dialogue,
    apply_family_rules,
    generate_pairs,
    generate_targets,
)
from waltz.consistency.cc_shap.pair_attribution import Pair, attribute_pairs
from waltz.core.devices import lease_device
from waltz.core.errors import UserError
from waltz.evaluation.decoder_tasks import choose_sampling
from waltz.evaluation.prompting.prompt_files import QuestionForm, read_prompt_file
from waltz.evaluation.prompting.prompts import (
    PromptTemplate,
    build_equations_template,
    build_published_template,
    join_turns,
    render_question,
)
from waltz.evaluation.prompting.questions import Question, list_letters
from waltz.explainer.decoder_explanation import DecoderExplanation
from waltz.explainer.encoder import read_image_file
from waltz.model_registry import ModelSpec
from waltz.models.decoders import load_decoder
from waltz.models.decoders.decoder import Decoder, PreparedImage
from waltz.models.visible_image import render_decoder_view

IMAGE_PLACEHOLDER = "<image>"
"""Stands for the image in ready prompts, whatever the model's own placeholder is."""
CHOICE, OPEN = "choice of the user", "open"
"""Forms of a question with labels and without."""


@dataclass(frozen=True)
class ReadyPrompts:
    """Two rendered prompts, with the texts that end them.

    Attributes:
        answer: The prompt for the answer.
        answer_suffix: The text in it that asks for the answer.
        explanation: The prompt for the explanation.
        explanation_suffix: The text in it that asks for the explanation.
        greedy: Whether the likeliest tokens are explained; else `published` draws them as the released code does.
        family: Family of the released prompts whose rules hold, for `published`: how query suffixes are counted, and
            whether tokens are joined by spaces. None takes the defaults of `PromptSettings`.
    """

    answer: str
    answer_suffix: str
    explanation: str
    explanation_suffix: str
    greedy: bool = True
    family: str | None = None


@dataclass(frozen=True)
class DecoderQuestion:
    """A question that a decoder is asked with the prompts of a profile.

    Attributes:
        question: The question: the user's own, or `pairwise` or `single` about texts of an image.
        kind: Kind of explanation, one of `dialogue.EXPLANATION_KINDS`.
        family: Family of the released prompts, for `published`.
        prompts: A file of other prompts, as in `resources/prompts`.
    """

    question: Question
    kind: str = POST_HOC
    family: str | None = None
    prompts: Path | None = None


def build_own_question(text: str, labels: Sequence[str] = ()) -> Question:
    """Return the user's own question, to be answered by one of some labels, or in words where there are none.

    Raises:
        UserError: There is a single label, or one twice.
    """
    if labels and len(set(labels)) != max(2, len(labels)):
        raise UserError(f"labels {','.join(labels)}: give two or more that differ, such as A,B")
    return Question("", "", CHOICE if labels else OPEN, None, {"question": text}, tuple(labels), (), "")


def build_image_question(text: str, foil: str | None = None) -> Question:
    """Return the question whether a text, (A), describes the image or not, (B); or which of text and foil does."""
    if foil is None:
        return Question("", "", "single", None, {"caption": text}, list_letters(2), ("A",), "B", role="caption")
    fields = {"first": text, "second": foil}
    return Question("", "", "pairwise", None, fields, list_letters(2), ("A",), "B", order="caption-first")


def explain_decoder(
    spec: ModelSpec,
    query: ReadyPrompts | DecoderQuestion,
    settings: PromptSettings,
    *,
    image: str | Path | Image.Image | None = None,
    most: int = 100,
) -> DecoderExplanation:
    """Attribute a decoder's answer and its explanation to the tokens of the prompt and the patches of the image.

    Args:
        spec: A decoder (`models.resolve_name.resolve_decoder`).
        query: Ready prompts, or a question.
        settings: Profile, seed, estimator.
        image: A file, or an image; None without one.
        most: Most tokens of the explanation.
    Raises:
        UserError: Model, image, prompts or settings cannot be used, or do not fit each other.
    """
    if image is not None and spec.kind == "text":
        raise UserError(f"{spec.name}: a language model sees no images; leave the image out, or name a model that sees")
    raw = image if image is None or isinstance(image, Image.Image) else read_image_file(Path(image))
    with _load_decoder(spec) as decoder, torch.inference_mode():
        picture = None if raw is None else decoder.prepare_image(raw.convert("RGB"))
        settings = _apply_family(decoder, settings, query)
        if decoder.reads_images and picture is None:
            raise UserError(f"{spec.name}: sees images, and none is named; name one")
        question: str | None = None
        label: str | None = None
        if isinstance(query, ReadyPrompts):
            pair = _generate_ready_pair(decoder, picture, query, settings, most)
        else:
            question, label, pair = _generate_question_pair(decoder, picture, query, settings, most)
        attributions = attribute_pairs(decoder, picture, [pair], settings)[0]
        sides = attributions.answer.attribution, attributions.explanation.attribution
        views = [
            None if picture is None or side.players is None else render_decoder_view(decoder, picture, side.players)
            for side in sides
        ]
        texts = decoder.decode_text(pair[0].targets), decoder.decode_text(pair[1].targets)
    cells = tuple(None if view is None else view[1] for view in views)
    visible_image = None if views[0] is None else views[0][0]
    return DecoderExplanation(spec, settings, question, label, texts, attributions, visible_image, (cells[0], cells[1]))


@contextmanager
def _load_decoder(spec: ModelSpec) -> Iterator[Decoder]:
    with lease_device(1, torch.get_num_threads()) as device:
        try:
            decoder = load_decoder(spec, device)
        except UserError:
            raise
        except Exception as error:  # a folder of the user's: whatever its files make transformers raise
            first_line = (str(error).strip().splitlines() or [""])[0]
            raise UserError(f"{spec.name}: cannot be loaded: {type(error).__name__}: {first_line}") from error
        yield decoder


def _generate_ready_pair(
    decoder: Decoder, picture: PreparedImage | None, ready: ReadyPrompts, settings: PromptSettings, most: int
) -> Pair:
    """Return ready prompts with the tokens that are generated after each."""
    sampling = None if ready.greedy else choose_sampling(decoder, settings.profile)
    games = []
    for text, suffix, length in (
        (ready.answer, ready.answer_suffix, 1),
        (ready.explanation, ready.explanation_suffix, most),
    ):
        if (IMAGE_PLACEHOLDER in text) != decoder.reads_images:
            reason = (
                "has no <image> for the image"
                if decoder.reads_images
                else "has an <image>, which a language model cannot see"
            )
            raise UserError(f"prompt {text[:40]!r}...: {reason}")
        prompt = decoder.build_prompt(
            text.replace(IMAGE_PLACEHOLDER, decoder.placeholder) if decoder.reads_images else text
        )
        targets = generate_targets(decoder, prompt, picture, length, settings.profile, sampling, settings.seed)
        games.append(PromptGame(prompt.text, suffix, targets))
    return games[0], games[1]


def _generate_question_pair(
    decoder: Decoder, picture: PreparedImage | None, query: DecoderQuestion, settings: PromptSettings, most: int
) -> tuple[str, str | None, Pair]:
    """Return a question as the prompts word it, the chosen label if it has labels, and its prompts with their targets.

    Raises:
        UserError: There is no answer, or no explanation.
    """
    template = _build_voice(decoder, query, settings)
    question = replace(query.question, image=None if picture is None else "")
    dialogue = Dialogue(decoder, template, settings.seed, most, of_study=False)
    generated = generate_pairs(dialogue, question, picture, (query.kind,))
    pair = generated.pairs[query.kind]
    if isinstance(pair, UserError):
        raise pair
    return render_question(question, template.prompt_file)[0], generated.answer if question.labels else None, pair


def _apply_family(decoder: Decoder, settings: PromptSettings, query: ReadyPrompts | DecoderQuestion) -> PromptSettings:
    """Return settings with the rules of the released code for a family.

    Raises:
        UserError: The family is unknown, or reads images while this model does not, or the reverse.
    """
    if settings.fidelity.prompts != "families" or query.family is None:
        return settings
    prompt_file = read_prompt_file(settings.profile, query.prompts if isinstance(query, DecoderQuestion) else None)
    template = build_published_template(query.family, prompt_file)
    if bool(prompt_file.families[query.family].markers["begin_image"]) != decoder.reads_images:
        sees = "sees no images" if decoder.reads_images else "sees images"
        raise UserError(f"{decoder.spec.name}: the model family {query.family!r} {sees}, unlike this model")
    return apply_family_rules(settings, decoder, template)


def _build_voice(decoder: Decoder, query: DecoderQuestion, settings: PromptSettings) -> PromptTemplate:
    """Return the prompts of a profile, with a form for the user's own question.

    Raises:
        UserError: The profile's prompts are those of families, and none is named.
    """
    prompt_file = read_prompt_file(settings.profile, query.prompts)
    prompt_file = replace(
        prompt_file, forms={**prompt_file.forms, CHOICE: QuestionForm("{question}", "", "choice", {})}
    )
    if settings.fidelity.prompts == "families":
        if query.family is None:
            families = ", ".join(prompt_file.families)
            raise UserError(f"{decoder.spec.name}: published prompts depend on the family; name one of {families}")
        return build_published_template(query.family, prompt_file)
    return build_equations_template(decoder.render_chat if decoder.has_chat_template else join_turns, prompt_file)
