"""A decoder's answer to one question and its explanation, attributed: as values, as a figure, as lines of text."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from PIL import Image

from waltz.attribution.prompt_attribution import PromptAttribution, PromptGame, PromptSettings
from waltz.attribution.shapley.estimate import to_null
from waltz.attribution.t_shap import TShap, compute_contribution_ratios, find_contributing_outputs
from waltz.consistency.cc_shap.dialogue import (
    POST_HOC,
    Dialogue,
    apply_family_rules,
    generate_pairs,
    generate_targets,
)
from waltz.consistency.cc_shap.pair_attribution import Pair, PairAttribution, SideAttribution, attribute_pairs
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
from waltz.explainer.encoder import load_model, read_image_file
from waltz.model_registry import ModelSpec
from waltz.models.decoders import load_decoder
from waltz.models.decoders.decoder import Decoder, PreparedImage
from waltz.models.visible_image import render_decoder_view
from waltz.reporting.figures import explanations
from waltz.reporting.figures.explanations import draw_answer_and_explanation

NAMES = ("answer", "explanation")
START = "(start)"
"""A start token among the pieces of a text, which has no characters."""
IMAGE_PLACEHOLDER = "<image>"
"""Stands for the image in ready prompts, whatever the model's own placeholder is."""
CHOICE, OPEN = "choice of the user", "open"
"""Forms of a question with labels and without."""


@dataclass(frozen=True, eq=False)
class DecoderExplanation:
    """An answer and its explanation.

    Attributes:
        question: The question as the prompts word it, or None for ready prompts.
        label: The label that the model chose, where it had labels to choose from. In `published` the token that is
            explained may be another one.
        texts: The answer and the explanation.
        image: The image as the model sees it, RGB in [0, 1] of shape (height, width, 3); None without an image.
        cells: Of answer and explanation, number of the patch that each pixel lies in; None without an image.
    """

    model: ModelSpec
    settings: PromptSettings
    question: str | None
    label: str | None
    texts: tuple[str, str]
    pair: PairAttribution
    image: np.ndarray | None
    cells: tuple[np.ndarray | None, np.ndarray | None]

    @property
    def sides(self) -> tuple[SideAttribution, SideAttribution]:
        """Answer and explanation."""
        return self.pair.answer, self.pair.explanation

    def record(self) -> dict[str, Any]:
        """Return the record of `--json` (docs/tutorials/explain.md): plain values, None for NaN or infinity."""
        cc_shap = self.pair.cc_shap
        return {
            "model": self.model.name,
            "revision": self.model.revision,
            "profile": self.settings.profile,
            "seed": self.settings.seed,
            "question": self.question,
            "label": self.label,
            "cc_shap": to_null(cc_shap.value),
            "cc_shap_se": to_null(cc_shap.standard_error),
            "cc_shap_reason": cc_shap.reason,
            "companions": None
            if cc_shap.companions is None
            else {name: to_null(value) for name, value in asdict(cc_shap.companions).items()},
            "weak_answer": cc_shap.weak_answer,
            "weak_explanation": cc_shap.weak_explanation,
            "cc_shap_with_weak": to_null(cc_shap.with_weak),
            "ratios_answer": [to_null(value) for value in cc_shap.ratios_answer],
            "ratios_explanation": [to_null(value) for value in cc_shap.ratios_explanation],
            **{name: _record_side(side, text) for name, side, text in zip(NAMES, self.sides, self.texts, strict=True)},
        }

    def figure(self) -> Figure:
        """Draw tokens and patches of the answer above those of the explanation, as they are and by modality."""
        name = Path(self.model.name).name if self.model.revision == "local" else self.model.name
        sides = [
            explanations.ExplainedText(
                name=side_name,
                generated_text=side_text,
                prompt=side.attribution.game.text,
                tokens=side.attribution.tokens,
                spans=side.attribution.spans,
                phi=_order_text_first(side.attribution),
                cells=cells,
                t_shap=None if cells is None else to_null(side.attribution.t_shap.value),
                t_shap_se=None if cells is None else to_null(side.attribution.t_shap.standard_error),
            )
            for side_name, side, side_text, cells in zip(NAMES, self.sides, self.texts, self.cells, strict=True)
        ]
        return draw_answer_and_explanation(
            sides, f"{name}, {self.settings.profile}: {self._describe_cc_shap()}", self.image
        )

    def lines(self) -> Iterator[str]:
        """Yield a summary: texts, T-SHAP, and the mean ratio of each token in percent; then CC-SHAP."""
        if self.question is not None:
            yield self.question
        for name, side, text in zip(NAMES, self.sides, self.texts, strict=True):
            attribution = side.attribution
            has_image = attribution.text != slice(0, len(attribution.estimate.phi))
            share = f" {_describe_t_shap(attribution.t_shap)};" if has_image else ""
            differs = name == "answer" and self.label is not None and self.label != text.strip()
            label = f" (of the labels, {self.label})" if differs else ""
            yield f"{name}: {' '.join(text.split()) or '(nothing to read)'}{label}"
            yield f" {share} {attribution.estimate.requested} evaluations, {attribution.estimator}; mean ratios in %:"
            means = _compute_percents(attribution)[attribution.text]
            yield "  " + "  ".join(
                f"{token} {'NaN' if math.isnan(mean) else format(mean, '+.1f')}"
                for token, mean in zip(_spell_tokens(attribution), means, strict=True)
            )
        yield self._describe_cc_shap()

    def _describe_cc_shap(self) -> str:
        cc_shap = self.pair.cc_shap
        if cc_shap.value is None:
            return f"CC-SHAP not defined ({cc_shap.reason})"
        error = "" if cc_shap.standard_error is None else f" ± {cc_shap.standard_error:.3f}"
        return f"CC-SHAP {cc_shap.value:.3f}{error}"


def _record_side(side: SideAttribution, text: str) -> dict[str, Any]:
    attribution, estimate = side.attribution, side.attribution.estimate
    patches = len(estimate.phi) - len(attribution.tokens)
    grid = math.isqrt(patches)
    words = [{"text": token, "modality": "text"} for token in _spell_tokens(attribution)]
    image = [{"text": f"patch {patch // grid},{patch % grid}", "modality": "image"} for patch in range(patches)]
    return {
        "generated_text": text,
        "target_ids": list(attribution.game.targets),
        "prompt": attribution.game.text,
        "query_suffix": attribution.game.query_suffix,
        "t_shap": to_null(attribution.t_shap.value),
        "t_shap_se": to_null(attribution.t_shap.standard_error),
        "reason": attribution.t_shap.reason,
        "estimator": attribution.estimator,
        "evaluations": estimate.requested,
        "base_value": [to_null(value) for value in estimate.base_value],
        "value": [to_null(value) for value in estimate.value],
        "residual": to_null(estimate.residual),
        "shared": side.shared.tolist(),
        "players": [*image, *words] if attribution.text.start else [*words, *image],
        "phi": [[to_null(value) for value in row] for row in estimate.phi],
    }


def _spell_tokens(attribution: PromptAttribution) -> list[str]:
    """Return the characters that each text player stands for, or the token itself where it stands for none."""
    text = attribution.game.text
    spans = zip(attribution.tokens, attribution.spans, strict=True)
    return [text[span["start"] : span["end"]].strip() or token or START for token, span in spans]


def _order_text_first(attribution: PromptAttribution) -> np.ndarray:
    """Return the Shapley values of text players, then of patches."""
    phi = attribution.estimate.phi
    return np.concatenate([phi[attribution.text], np.delete(phi, attribution.text, axis=0)])


def _compute_percents(attribution: PromptAttribution) -> np.ndarray:
    """Return the mean ratios of all players in percent, over outputs to which more than next to nothing contributes."""
    phi = attribution.estimate.phi
    strong = find_contributing_outputs(phi)
    if not strong.any():
        return np.full(len(phi), math.nan)
    percents: np.ndarray = 100 * compute_contribution_ratios(phi[:, strong]).mean(axis=1)
    return percents


def _describe_t_shap(t_shap: TShap) -> str:
    if math.isnan(t_shap.value):
        return f"T-SHAP not defined ({t_shap.reason})"
    error = "" if math.isnan(t_shap.standard_error) else f" ± {100 * t_shap.standard_error:.2f}"
    return f"T-SHAP {100 * t_shap.value:.2f} %{error}"


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
        prompts: A file of other prompts, as in `waltz/resources/prompts`, or the name of one there.
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
        raise UserError(f"labels: too few (got {','.join(labels)}, expected two or more that differ); give such as A,B")
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
        image: A file, or an image; None without one.
        most: Most tokens of the explanation.
    Raises:
        UserError: Model, image, prompts or settings cannot be used, or do not fit each other.
    """
    if image is not None and spec.kind == "text":
        raise UserError(f"{spec.name}: a language model sees no images; leave the image out, or name a model that sees")
    raw = image if image is None or isinstance(image, Image.Image) else read_image_file(Path(image))
    with load_model(load_decoder, spec) as decoder, torch.inference_mode():
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
            (None, None)
            if picture is None or side.players is None
            else render_decoder_view(decoder, picture, side.players)
            for side in sides
        ]
        texts = decoder.decode_text(pair[0].targets), decoder.decode_text(pair[1].targets)
    (visible_image, answer_cells), (_, explanation_cells) = views
    cells = answer_cells, explanation_cells
    return DecoderExplanation(spec, settings, question, label, texts, attributions, visible_image, cells)


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
    """Return a question in the words of the prompts, the chosen label if it has labels, and its pair of games."""
    template = _build_template(decoder, query, settings)
    question = replace(query.question, image=None if picture is None else "")
    dialogue = Dialogue(decoder, template, settings.seed, most, of_study=False)
    generated = generate_pairs(dialogue, question, picture, (query.kind,))
    pair = generated.pairs[query.kind]
    if isinstance(pair, UserError):
        raise pair
    return render_question(question, template.prompt_file)[0], generated.answer if question.labels else None, pair


def _apply_family(decoder: Decoder, settings: PromptSettings, query: ReadyPrompts | DecoderQuestion) -> PromptSettings:
    """Return settings with the rules of the released code for a family."""
    if settings.fidelity.prompts != "families" or query.family is None:
        return settings
    prompt_file = read_prompt_file(settings.profile, query.prompts if isinstance(query, DecoderQuestion) else None)
    template = build_published_template(query.family, prompt_file)
    if bool(prompt_file.families[query.family].markers["begin_image"]) != decoder.reads_images:
        sees = "sees no images" if decoder.reads_images else "sees images"
        raise UserError(f"{decoder.spec.name}: the model family {query.family!r} {sees}, unlike this model")
    return apply_family_rules(settings, decoder, template)


def _build_template(decoder: Decoder, query: DecoderQuestion, settings: PromptSettings) -> PromptTemplate:
    """Return the prompts of a profile, with a form for the user's own question."""
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
