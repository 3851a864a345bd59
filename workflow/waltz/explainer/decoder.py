"""A decoder's answer to one question and its explanation, attributed: values, a figure, a table, lines, HTML."""

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from PIL import Image

from waltz.attribution.own_players import (
    TOKEN,
    ImagePlayers,
    TextPlayers,
    count_regions,
    group_text_players,
    number_decoder_pixels,
    number_image,
    replace_image_players,
)
from waltz.attribution.prompt_attribution import (
    PromptAttribution,
    PromptGame,
    PromptSettings,
    Regroup,
    attribute_prompts,
)
from waltz.attribution.shapley.estimate import to_null
from waltz.attribution.shapley.interactions import compute_joint_share
from waltz.attribution.t_shap import (
    TShap,
    compute_contribution_ratios,
    count_evaluations_for_point,
    find_contributing_outputs,
)
from waltz.consistency.cc_shap.dialogue import (
    MAX_ANSWER_TOKENS,
    POST_HOC,
    Dialogue,
    apply_family_rules,
    generate_pairs,
    generate_targets,
)
from waltz.consistency.cc_shap.measure import CCShap
from waltz.consistency.cc_shap.pair_attribution import Pair, attribute_pairs
from waltz.core.errors import UserError
from waltz.evaluation.decoder_tasks import choose_sampling
from waltz.evaluation.prompting.decoder_outputs import choose_label
from waltz.evaluation.prompting.prompt_files import QuestionForm, read_prompt_file
from waltz.evaluation.prompting.prompts import (
    PromptTemplate,
    build_equations_template,
    build_published_template,
    join_turns,
    render_prompt,
    render_question,
)
from waltz.evaluation.prompting.questions import Question, list_letters
from waltz.explainer.html import render_panels
from waltz.explainer.values import (
    PlayerValues,
    build_image_values,
    build_text_values,
    describe_share,
    describe_strongest_pairs,
    list_rows,
    name_image_players,
    record_interactions,
    shorten_model_name,
)
from waltz.model_registry import ModelSpec
from waltz.models.batches import ProgressCallback, ignore_progress
from waltz.models.decoders.coalitions import Players
from waltz.models.decoders.decoder import Decoder, PreparedImage
from waltz.models.visible_image import render_decoder_view
from waltz.reporting.figures import explanations
from waltz.reporting.figures.explanations import draw_answer_and_explanation
from waltz.reporting.figures.heatmaps import HeatmapPanel, draw_interactions

START = "(start)"
"""A start token among the pieces of a text, which has no characters."""
IMAGE_PLACEHOLDER = "<image>"
"""Stands for the image in ready prompts, whatever the model's own placeholder is."""
CHOICE, OPEN = "choice of the user", "open"
"""Forms of a question with labels and without."""


@dataclass(frozen=True, eq=False, repr=False)
class ExplainedOutput:
    """An answer or an explanation, with the contributions of the prompt and the image to it.

    Attributes:
        generated_text: The explained tokens as text.
        attribution: Shapley values and what belongs to them.
        shared: Players that the other prompt has too; None for an answer alone.
        cells: Number of the image player that each pixel of the view lies in; None without an image.
    """

    generated_text: str
    attribution: PromptAttribution
    shared: np.ndarray | None
    cells: np.ndarray | None

    @property
    def t_shap(self) -> float:
        """Share of the text, between 0 and 1; 1 without an image, NaN where it is undefined."""
        return self.attribution.t_shap.value

    @property
    def t_shap_se(self) -> float:
        """Standard error of T-SHAP; 0 for exact values."""
        return self.attribution.t_shap.standard_error

    @property
    def t_shap_interval(self) -> tuple[float, float]:
        """95 % interval of T-SHAP by Student's t; NaN where there is no standard error."""
        return self.attribution.t_shap.interval

    @property
    def t_shap_corrected(self) -> float:
        """T-SHAP without most of the bias of few permutations; NaN for regressions, which have none to average out."""
        return self.attribution.t_shap.corrected

    @property
    def text(self) -> PlayerValues:
        """Shapley values of the text players for each output token, of shape (players, outputs)."""
        attribution = self.attribution
        phi = attribution.estimate.phi[attribution.text]
        return build_text_values(phi, attribution.game.text, attribution.tokens, attribution.spans)

    @property
    def image(self) -> PlayerValues:
        """Shapley values of the image players for each output token, of shape (players, outputs)."""
        return build_image_values(np.delete(self.attribution.estimate.phi, self.attribution.text, axis=0), self.cells)

    @property
    def interactions(self) -> np.ndarray | None:
        """Shapley interaction indices, of shape (text players, image players, outputs), if requested."""
        return self.attribution.interactions

    @property
    def joint_share(self) -> float:
        """Share of the magnitude of the first token that text and image make together; NaN without interactions."""
        pairs = self.attribution.interactions
        if pairs is None:
            return math.nan
        return compute_joint_share(_order_text_first(self.attribution)[:, 0], pairs[..., 0])

    def name_image_players(self) -> list[str]:
        """Return a name for each image player."""
        return name_image_players(len(self.image), self.attribution.grid, self.cells)


@dataclass(frozen=True, eq=False, repr=False)
class DecoderExplanation:
    """A decoder's answer, and its explanation of it if there is one.

    Attributes:
        question: The question as the prompts word it, or None for ready prompts and messages.
        label: The label that the model chose, where it had labels to choose from. In `published` the token that is
            explained may be another one.
        answer: The answer.
        explanation: The explanation, or None.
        cc_shap_result: CC-SHAP with its error and companions; None without an explanation.
        view: The image as the model sees it, RGB in [0, 1] of shape (height, width, 3); None without an image.
        forward_pass: How the network was read, as `Decoder.forward_pass`.
    """

    model: ModelSpec
    settings: PromptSettings
    question: str | None
    label: str | None
    answer: ExplainedOutput
    explanation: ExplainedOutput | None
    cc_shap_result: CCShap | None
    view: np.ndarray | None
    forward_pass: str

    @property
    def outputs(self) -> dict[str, ExplainedOutput]:
        """Answer, and explanation if there is one, by name."""
        sides = {"answer": self.answer, "explanation": self.explanation}
        return {name: side for name, side in sides.items() if side is not None}

    @property
    def t_shap(self) -> float:
        """T-SHAP of the answer."""
        return self.answer.t_shap

    @property
    def t_shap_se(self) -> float:
        """Standard error of T-SHAP of the answer."""
        return self.answer.t_shap_se

    @property
    def t_shap_interval(self) -> tuple[float, float]:
        """95 % interval of T-SHAP of the answer by Student's t; NaN where there is no standard error."""
        return self.answer.t_shap_interval

    @property
    def text(self) -> PlayerValues:
        """Shapley values of the answer's text players, of shape (players, outputs), with `tokens` and `spans`."""
        return self.answer.text

    @property
    def image(self) -> PlayerValues:
        """Shapley values of the answer's image players, of shape (players, outputs), with `boxes`."""
        return self.answer.image

    @property
    def interactions(self) -> np.ndarray | None:
        """Shapley interaction indices of the answer, (text players, image players, outputs), if requested."""
        return self.answer.interactions

    @property
    def joint_share(self) -> float:
        """Share of the magnitude of the answer's first token that text and image make together; NaN if unknown."""
        return self.answer.joint_share

    @property
    def cc_shap(self) -> float | None:
        """CC-SHAP, in [-1, 1]; NaN where it is undefined, None without an explanation."""
        result = self.cc_shap_result
        return None if result is None else math.nan if result.value is None else result.value

    def record(self) -> dict[str, Any]:
        """Return the record of `--json` (docs/tutorials/explain.md): plain values, None for NaN or infinity."""
        return {
            "model": self.model.name,
            "revision": self.model.revision,
            "profile": self.settings.profile,
            "forward_pass": self.forward_pass,
            "seed": self.settings.seed,
            "question": self.question,
            "label": self.label,
            **({} if self.cc_shap_result is None else _record_cc_shap(self.cc_shap_result)),
            **{name: _record_output(output) for name, output in self.outputs.items()},
        }

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each player and output token: `side`, `output`, `modality`, `player`, `phi`, its place."""
        return pd.DataFrame(
            row
            for side, explained in self.outputs.items()
            for row in list_rows(explained.text, explained.image, explained.name_image_players(), side=side)
        )

    def plot(self) -> Figure:
        """Draw tokens and patches of the answer above those of the explanation, as they are and by modality."""
        sides = [
            explanations.ExplainedText(
                name=side_name,
                generated_text=side.generated_text,
                prompt=side.attribution.game.text,
                tokens=side.attribution.tokens,
                spans=side.attribution.spans,
                phi=_order_text_first(side.attribution),
                cells=side.cells,
                t_shap=None if side.cells is None else to_null(side.t_shap),
                t_shap_se=None if side.cells is None else to_null(side.t_shap_se),
            )
            for side_name, side in self.outputs.items()
        ]
        title = self._build_title()
        if self.cc_shap_result is not None:
            title += f": {_describe_cc_shap(self.cc_shap_result)}"
        return draw_answer_and_explanation(sides, title, self.view)

    def plot_interactions(self) -> Figure:
        """Draw the image once for each text player, coloured by its interactions for the answer's first token.

        Raises:
            ValueError: Interactions were not requested, or there is no image.
        """
        if self.interactions is None or self.view is None or self.answer.cells is None:
            raise ValueError("interactions: not computed; explain an image with interactions=True")
        pairs = self.interactions[..., 0]
        return draw_interactions(self.view, self.answer.cells, self.text.tokens or (), pairs, self._build_title())

    def _build_title(self) -> str:
        return f"{shorten_model_name(self.model)}, {self.settings.profile}"

    def lines(self) -> Iterator[str]:
        """Yield a summary: texts, T-SHAP, and the mean ratio of each token in percent; then CC-SHAP."""
        if self.question is not None:
            yield self.question
        for name, side in self.outputs.items():
            attribution = side.attribution
            yield self._describe_output(name)
            share = f" {_describe_t_shap(attribution.t_shap)};" if side.cells is not None else ""
            yield f" {share} {attribution.estimate.requested} evaluations, {attribution.estimator}; mean ratios in %:"
            means = _compute_percents(attribution)[attribution.text]
            yield "  " + "  ".join(
                f"{token} {'NaN' if math.isnan(mean) else format(mean, '+.1f')}"
                for token, mean in zip(_spell_tokens(attribution), means, strict=True)
            )
            if side.interactions is not None:
                share = describe_share("used together", side.joint_share, reason="nothing contributes")
                pairs = describe_strongest_pairs(
                    side.interactions[..., 0], _spell_tokens(attribution), side.name_image_players()
                )
                yield f"  first token: {share}; {pairs}"
        if self.cc_shap_result is not None:
            yield _describe_cc_shap(self.cc_shap_result)

    def __repr__(self) -> str:
        """Return at most five lines: the model, then answer and explanation with T-SHAP, then CC-SHAP."""
        lines = [f"Explanation by {self._build_title()}"]
        for name, side in self.outputs.items():
            text = " ".join(side.generated_text.split())
            lines.append(f"  {name}: {text[:80]}; {_describe_t_shap(side.attribution.t_shap)}")
        if self.cc_shap_result is not None:
            lines.append(f"  {_describe_cc_shap(self.cc_shap_result)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        panels = []
        for name, side in self.outputs.items():
            cells = np.zeros((0, 0), dtype=np.int64) if side.cells is None else side.cells
            attribution = side.attribution
            percents = _compute_percents(attribution)
            order = np.concatenate([percents[attribution.text], np.delete(percents, attribution.text)])
            panels.append(
                HeatmapPanel(
                    name, attribution.game.text, attribution.tokens, attribution.spans, cells, order, math.nan, math.nan
                )
            )
        headings = [
            f"{self._describe_output(name)}; {_describe_t_shap(side.attribution.t_shap)}; mean ratios in %"
            for name, side in self.outputs.items()
        ]
        footer = "" if self.cc_shap_result is None else f"<p>{html.escape(_describe_cc_shap(self.cc_shap_result))}</p>"
        return render_panels(self.view, panels, headings) + footer

    def _describe_output(self, name: str) -> str:
        text = self.outputs[name].generated_text
        differs = name == "answer" and self.label is not None and self.label != text.strip()
        label = f" (of the labels, {self.label})" if differs else ""
        return f"{name}: {' '.join(text.split()) or '(nothing to read)'}{label}"


def _describe_cc_shap(cc_shap: CCShap) -> str:
    if cc_shap.value is None:
        return f"CC-SHAP not defined ({cc_shap.reason})"
    error = "" if cc_shap.standard_error is None else f" ± {cc_shap.standard_error:.3f}"
    return f"CC-SHAP {cc_shap.value:.3f}{error}"


def _record_cc_shap(cc_shap: CCShap) -> dict[str, Any]:
    return {
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
    }


def _record_output(output: ExplainedOutput) -> dict[str, Any]:
    attribution, estimate = output.attribution, output.attribution.estimate
    words = [{"text": token, "modality": "text"} for token in _spell_tokens(attribution)]
    image = [{"text": name, "modality": "image"} for name in output.name_image_players()]
    return {
        "generated_text": output.generated_text,
        "target_ids": list(attribution.game.targets),
        "prompt": attribution.game.text,
        "query_suffix": attribution.game.query_suffix,
        "t_shap": to_null(attribution.t_shap.value),
        "t_shap_se": to_null(attribution.t_shap.standard_error),
        "t_shap_interval": list(map(to_null, attribution.t_shap.interval)),
        "t_shap_corrected": to_null(attribution.t_shap.corrected),
        "evaluations_for_1_point": to_null(
            count_evaluations_for_point(estimate.requested, attribution.t_shap.standard_error)
        ),
        "reason": attribution.t_shap.reason,
        "estimator": attribution.estimator,
        "evaluations": estimate.requested,
        "base_value": [to_null(value) for value in estimate.base_value],
        "value": [to_null(value) for value in estimate.value],
        "residual": to_null(estimate.residual),
        **({} if output.shared is None else {"shared": output.shared.tolist()}),
        "players": [*image, *words] if attribution.text.start else [*words, *image],
        "phi": [[to_null(value) for value in row] for row in estimate.phi],
        **record_interactions(output.interactions, output.joint_share),
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
    return describe_share("T-SHAP", t_shap.value, t_shap.standard_error, t_shap.reason)


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
        kind: Kind of explanation, one of `dialogue.EXPLANATION_KINDS`; None for the answer alone.
        family: Family of the released prompts, for `published`.
        prompts: A file of other prompts, as in `waltz/resources/prompts`, or the name of one there.
    """

    question: Question
    kind: str | None = POST_HOC
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


@dataclass(frozen=True)
class Conversation:
    """Messages as chat templates of transformers take them; the model's reply is explained, and no explanation of it.

    Attributes:
        messages: Mappings of `role` and `content`, a text or a list of parts.
    """

    messages: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class OwnPlayers:
    """Players of the user's own.

    Attributes:
        text: `token`, `word`, or spans, counted from the first character of the question, else of the prompt.
        regions: Rows and columns of a grid, or masks of regions; None for the grid of the profile.
    """

    text: TextPlayers = TOKEN
    regions: ImagePlayers | None = None


@torch.inference_mode()
def explain_output(
    decoder: Decoder,
    query: ReadyPrompts | DecoderQuestion | Conversation,
    settings: PromptSettings,
    *,
    image: Image.Image | None = None,
    most: int = 100,
    own_players: OwnPlayers | None = None,
    interactions: bool = False,
    progress: ProgressCallback = ignore_progress,
    expect: ProgressCallback = ignore_progress,
) -> DecoderExplanation:
    """Attribute a decoder's answer and its explanation to the tokens of the prompt and the patches of the image.

    Args:
        image: An RGB image; None without one.
        most: Most tokens of the explanation, or of the reply to messages.
        own_players: Other players than tokens and a square grid; None for those of the profile.
        interactions: See `attribute_prompts`.
        progress: See `attribute_prompts`.
        expect: Called with the number of players of each prompt, before its coalitions are evaluated.
    Raises:
        UserError: Model, image, prompts or settings do not fit each other.
        ValueError: The user's own players do not fit the prompt or the image.
    """
    if image is not None and not decoder.reads_images:
        raise UserError(
            f"{decoder.spec.name}: a language model sees no images; leave the image out, or name a model that sees"
        )
    picture = None if image is None else decoder.prepare_image(image)
    settings = _apply_family(decoder, settings, query)
    if decoder.reads_images and picture is None:
        raise UserError(f"{decoder.spec.name}: sees images, and none is named; name one")
    question, label, games = _generate_games(decoder, picture, query, settings, most)
    regroup, whole = _build_regroup(decoder, picture, own_players, question, expect)
    if own_players is None and picture is None and settings.fidelity.language_models == "partition":
        regroup = None  # shap cuts the text itself
    shared: tuple[np.ndarray | None, ...] = (None,)
    cc_shap = None
    if len(games) == 2:
        pair = attribute_pairs(
            decoder, picture, [games], settings, regroup=regroup, interactions=interactions, progress=progress
        )[0]
        attributions = [pair.answer.attribution, pair.explanation.attribution]
        shared, cc_shap = (pair.answer.shared, pair.explanation.shared), pair.cc_shap
    else:
        attributions = attribute_prompts(
            decoder, picture, games, settings, regroup=regroup, interactions=interactions, progress=progress
        )
    view, outputs = None, []
    for attribution, own_shared in zip(attributions, shared, strict=True):
        cells = None
        if picture is not None and attribution.players is not None:
            view, cells = render_decoder_view(decoder, picture, attribution.players, whole)
        text = decoder.decode_text(attribution.game.targets)
        outputs.append(ExplainedOutput(text, attribution, own_shared, cells))
    explanation = outputs[1] if len(outputs) == 2 else None
    return DecoderExplanation(
        decoder.spec, settings, question, label, outputs[0], explanation, cc_shap, view, decoder.forward_pass
    )


def _build_regroup(
    decoder: Decoder,
    picture: PreparedImage | None,
    own_players: OwnPlayers | None,
    question: str | None,
    expect: ProgressCallback,
) -> tuple[Regroup | None, np.ndarray | None]:
    """Return the function from the profile's players to the user's own, and the region of each pixel of the image."""
    own = own_players or OwnPlayers()
    regions, whole = own.regions, None
    if regions is not None:
        if picture is None:
            raise UserError(
                f"{decoder.spec.name}: grid: there is no image whose regions could be players; leave it out"
            )
        whole = number_image(picture, regions)

    def regroup(players: Players) -> Players:
        text = players.prompt.text
        first = 0 if question is None else max(0, text.find(question))
        players = group_text_players(players, text, players.prompt.spans, own.text, first)
        if picture is not None and regions is not None:
            cells = number_decoder_pixels(decoder, picture, regions, players.raw)
            players = replace_image_players(players, cells, count_regions(regions))
        expect(len(players))
        return players

    return regroup, whole


def _generate_games(
    decoder: Decoder,
    picture: PreparedImage | None,
    query: ReadyPrompts | DecoderQuestion | Conversation,
    settings: PromptSettings,
    most: int,
) -> tuple[str | None, str | None, Pair | tuple[PromptGame]]:
    """Return the question, the chosen label, and the games of the answer and of its explanation if there is one."""
    if isinstance(query, ReadyPrompts):
        return None, None, _generate_ready_pair(decoder, picture, query, settings, most)
    if isinstance(query, Conversation):
        return None, None, (_generate_reply(decoder, picture, query, settings, most),)
    template = _build_template(decoder, query, settings)
    question = replace(query.question, image=None if picture is None else "")
    words = render_question(question, template.prompt_file)[0]
    if query.kind is None:
        prompt = decoder.build_prompt(render_prompt("answer", question, template).text)
        label: str | None = None
        targets: tuple[int, ...] = ()
        if question.labels:
            label, token = choose_label(decoder, prompt, picture, question, template)
            targets = (token,)
        if label is None or settings.fidelity.decoder_target != "label":
            length = 1 if question.labels else MAX_ANSWER_TOKENS
            sampling = choose_sampling(decoder, settings.profile)
            targets = generate_targets(decoder, prompt, picture, length, settings.profile, sampling, settings.seed)
        return words, label, (PromptGame(prompt.text, "", targets),)
    dialogue = Dialogue(decoder, template, settings.seed, most, of_study=False)
    generated = generate_pairs(dialogue, question, picture, (query.kind,))
    pair = generated.pairs[query.kind]
    if isinstance(pair, UserError):
        raise pair
    return words, generated.answer if question.labels else None, pair


def _generate_reply(
    decoder: Decoder, picture: PreparedImage | None, query: Conversation, settings: PromptSettings, most: int
) -> PromptGame:
    """Return the rendered messages with the tokens that the model replies."""
    prompt = decoder.build_prompt(decoder.render_messages(query.messages))
    if (prompt.image_position is None) != (picture is None):
        fault = "show no image" if prompt.image_position is None else "show an image, and none is given"
        raise UserError(f"{decoder.spec.name}: messages: they {fault}; give both, or neither")
    sampling = choose_sampling(decoder, settings.profile)
    targets = generate_targets(decoder, prompt, picture, most, settings.profile, sampling, settings.seed)
    return PromptGame(prompt.text, "", targets)


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


def _apply_family(
    decoder: Decoder, settings: PromptSettings, query: ReadyPrompts | DecoderQuestion | Conversation
) -> PromptSettings:
    """Return settings with the rules of the released code for a family."""
    if settings.fidelity.prompts != "families" or isinstance(query, Conversation) or query.family is None:
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
