"""A decoder's answer and its explanation, explained: what `waltz explain` and a notebook call."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from waltz.consistency.contributions import SLOW
from waltz.consistency.explained import explained
from waltz.consistency.played import Part, Rules
from waltz.consistency.targets import target_ids
from waltz.core.devices import lease_device
from waltz.core.errors import UserError
from waltz.decoder_explanation import DecoderExplanation
from waltz.evaluation.decoders import sampling_of
from waltz.evaluation.prompting.label_tokens import labels as following_labels
from waltz.evaluation.prompting.label_tokens import published_labels
from waltz.evaluation.prompting.prompt_files import Form, read_wording
from waltz.evaluation.prompting.prompts import Voice, equations, published, render, said, without_template, worded
from waltz.evaluation.prompting.questions import Question, letters
from waltz.explainer.explain import image_file
from waltz.models.decoders import load_decoder
from waltz.models.decoders.decoder import Decoder, PreparedImage, Prompt, Sampling
from waltz.models.decoders.outcomes import FIRST_STEP, scores
from waltz.models.registry import ModelSpec
from waltz.models.visible_image import render_decoder_view

MARK = "<image>"
"""Stands for the image in ready prompts, whatever the model's own placeholder is."""
CHOICE, OPEN = "choice of the user", "open"
"""Forms of a question with labels and without."""
OPEN_ANSWER = 10
"""Most tokens of an answer in words, as published."""
KINDS = {"post-hoc": ("answer-attributed", "post-hoc"), "cot": ("answer-attributed-cot", "cot-attributed")}
"""Prompts for answer and explanation, by kind of explanation."""


@dataclass(frozen=True)
class Ready:
    """Two prompts that are ready, and the texts that end them.

    Attributes:
        answer: The prompt for the answer.
        answer_tail: The text in it that asks for the answer.
        explanation: The prompt for the explanation.
        explanation_tail: The text in it that asks for the explanation.
        greedy: Whether the likeliest tokens are explained; else `published` draws them as the released code does.
        family: Family of the released prompts whose rules hold, for `published`: how the tail is counted, and whether
            tokens are joined by blanks. None takes what `Rules` takes.
    """

    answer: str
    answer_tail: str
    explanation: str
    explanation_tail: str
    greedy: bool = True
    family: str | None = None


@dataclass(frozen=True)
class Put:
    """A question that is put to a decoder in the words of a profile.

    Attributes:
        question: What is asked: in one's own words, or `pairwise` or `single` about texts of an image.
        kind: Kind of explanation, a key of `KINDS`.
        family: Family of the released prompts, for `published`.
        prompts: A file of other prompts, as in `resources/prompts`.
    """

    question: Question
    kind: str = "post-hoc"
    family: str | None = None
    prompts: Path | None = None


def own_question(text: str, labels: Sequence[str] = ()) -> Question:
    """A question in one's own words, to be answered by one of some labels, or in words where there are none.

    Raises:
        UserError: There is a single label, or one twice.
    """
    if labels and len(set(labels)) != max(2, len(labels)):
        raise UserError(f"labels {','.join(labels)}: give two or more that differ, such as A,B")
    return Question("", "", CHOICE if labels else OPEN, None, {"question": text}, tuple(labels), (), "")


def image_question(text: str, foil: str | None = None) -> Question:
    """Whether a text describes the image, (A), or not, (B); or which of text, (A), and foil, (B), does."""
    if foil is None:
        return Question("", "", "single", None, {"caption": text}, letters(2), ("A",), "B", role="caption")
    fields = {"first": text, "second": foil}
    return Question("", "", "pairwise", None, fields, letters(2), ("A",), "B", order="caption-first")


def explain_decoder(
    spec: ModelSpec,
    asked: Ready | Put,
    rules: Rules,
    *,
    image: str | Path | Image.Image | None = None,
    most: int = 100,
) -> DecoderExplanation:
    """What each token of the prompt, and each patch, contributes to an answer and to its explanation.

    Args:
        spec: A decoder (`models.named.decoder_named`).
        asked: Ready prompts, or a question.
        rules: Profile, seed, estimator.
        image: A file, or an image; None without one.
        most: Most tokens of the explanation.
    Raises:
        UserError: Model, image, prompts or rules cannot be used, or do not go together.
    """
    if image is not None and spec.kind == "text":
        raise UserError(f"{spec.name}: a language model sees no images; leave the image out, or name a model that sees")
    raw = image if image is None or isinstance(image, Image.Image) else image_file(Path(image))
    with _decoder(spec) as decoder, torch.inference_mode():
        picture = None if raw is None else decoder.image(raw.convert("RGB"))
        rules = _of_family(decoder, rules, asked)
        if isinstance(asked, Ready):
            question, label, parts = None, None, _of_ready(decoder, picture, asked, rules, most)
        else:
            question, label, parts = _of_question(decoder, picture, asked, rules, most)
        found = explained(decoder, picture, [parts], rules)[0]
        shown = [
            render_decoder_view(decoder, picture, side.played.players)
            if picture is not None and side.played.players
            else None
            for side in (found.answer, found.explanation)
        ]
        texts = decoder.said(parts[0].targets), decoder.said(parts[1].targets)
    cells = tuple(None if one is None else one[1] for one in shown)
    seen_image = None if shown[0] is None else shown[0][0]
    return DecoderExplanation(spec, rules, question, label, texts, found, seen_image, (cells[0], cells[1]))


@contextmanager
def _decoder(spec: ModelSpec) -> Iterator[Decoder]:
    with lease_device(1, torch.get_num_threads()) as device:
        try:
            decoder = load_decoder(spec, device)
        except UserError:
            raise
        except Exception as error:  # a folder of somebody else's: whatever its files make transformers raise
            first = (str(error).strip().splitlines() or [""])[0]
            raise UserError(f"{spec.name}: cannot be loaded: {type(error).__name__}: {first}") from error
        yield decoder


def _of_ready(
    decoder: Decoder, picture: PreparedImage | None, ready: Ready, rules: Rules, most: int
) -> tuple[Part, Part]:
    own = getattr(decoder, "placeholder", MARK)
    if decoder.sees and picture is None:
        raise UserError(f"{decoder.spec.name}: sees images, and none is named; name one")
    sampling = None if ready.greedy else sampling_of(decoder, rules.profile)
    made = []
    for text, tail, length in (
        (ready.answer, ready.answer_tail, 1),
        (ready.explanation, ready.explanation_tail, most),
    ):
        if (MARK in text) != decoder.sees:
            what = (
                "has no <image> for the image" if decoder.sees else "has an <image>, which a language model cannot see"
            )
            raise UserError(f"prompt {text[:40]!r}...: {what}")
        prompt = decoder.prompt(text.replace(MARK, own))
        made.append(Part(prompt.text, tail, _said(decoder, prompt, picture, length, rules, sampling)))
    return made[0], made[1]


def _said(
    decoder: Decoder, prompt: Prompt, picture: PreparedImage | None, most: int, rules: Rules, sampling: Sampling | None
) -> tuple[int, ...]:
    return target_ids(decoder, prompt, picture, most, rules.profile, sampling, rules.seed)


def _of_question(
    decoder: Decoder, picture: PreparedImage | None, put: Put, rules: Rules, most: int
) -> tuple[str, str | None, tuple[Part, Part]]:
    """A question as it is worded, the label that was chosen, and its prompts with what is said after each."""
    voice = _voice(decoder, put, rules)
    if decoder.sees and picture is None:
        raise UserError(f"{decoder.spec.name}: sees images, and none is named; name one")
    question = replace(put.question, image=None if picture is None else "")
    sampling = sampling_of(decoder, rules.profile)
    of_answer, of_explanation = KINDS[put.kind]
    asked = render(of_answer, question, voice)
    prompt = decoder.prompt(asked.text)
    if question.labels:
        answer, token = _label(decoder, prompt, picture, question, voice)
        targets: tuple[int, ...] = (token,)
        if rules.profile == "published":  # whatever token comes first, though the label was taken among the labels
            targets = _said(decoder, prompt, picture, 1, rules, sampling)
    else:
        words = _said(decoder, prompt, picture, OPEN_ANSWER, rules, sampling)
        answer, targets = decoder.said(words).strip(), words[:1] if rules.profile == "published" else words
    why = render(of_explanation, question, voice, {"answer": answer} if put.kind == "post-hoc" else {})
    after = decoder.prompt(why.text)
    spoken = _said(decoder, after, picture, most, rules, sampling)
    words_of_item, _ = worded(question, voice.wording)
    label = answer if question.labels else None
    return words_of_item, label, (Part(prompt.text, asked.counted, targets), Part(after.text, why.counted, spoken))


def _of_family(decoder: Decoder, rules: Rules, asked: Ready | Put) -> Rules:
    """The rules of the released code for a family.

    Raises:
        UserError: The family is unknown, or is one of models that see while this does not, or the reverse.
    """
    if rules.profile != "published" or asked.family is None:
        return rules
    wording = read_wording("published", asked.prompts if isinstance(asked, Put) else None)
    family = wording.families[str(published(asked.family, wording).family)]
    if bool(family.markers["begin_image"]) != decoder.sees:
        sees = "sees no images" if decoder.sees else "sees images"
        raise UserError(f"{decoder.spec.name}: the model family {asked.family!r} {sees}, unlike this model")
    return replace(rules, tail=family.tail, blanks=not decoder.sees and asked.family in SLOW)


def _voice(decoder: Decoder, put: Put, rules: Rules) -> Voice:
    wording = read_wording(rules.profile, put.prompts)
    wording = replace(wording, forms={**wording.forms, CHOICE: Form("{question}", "", "choice", {})})
    if rules.profile == "published":
        if put.family is None:
            known = ", ".join(wording.families)
            raise UserError(f"{decoder.spec.name}: published prompts hang on the family; name one of {known}")
        return published(put.family, wording)
    has_template = decoder.sees or bool(getattr(getattr(decoder, "tokenizer", None), "chat_template", None))
    return equations(decoder.rendered if has_template else without_template, wording)


def _label(
    decoder: Decoder, prompt: Prompt, picture: PreparedImage | None, question: Question, voice: Voice
) -> tuple[str, int]:
    """The likeliest label, the first of equally likely ones, and its token."""
    follow = following_labels if voice.family is None else published_labels
    ids = follow(decoder, prompt, [said(question, voice.wording, label) for label in question.labels])
    best = int(np.argmax(scores(decoder, [prompt], [picture], [ids], FIRST_STEP)[0]))
    return question.labels[best], ids[best]
