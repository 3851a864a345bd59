"""What `waltz.Explainer` returns: contributions to a score or answer as values, table, figure,
lines, HTML.
"""

import html
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from waltz.attribution.engine import Attribution
from waltz.attribution.shapley.estimate import to_null
from waltz.attribution.t_shap import (
    compute_contribution_ratios,
    count_evaluations_for_point,
    find_contributing_outputs,
)
from waltz.consistency.cc_shap.exchanged import Excess
from waltz.consistency.cc_shap.measure import CCShap
from waltz.explainer.html import render_panels
from waltz.explainer.values import (
    JsonRecord,
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
from waltz.fidelity import Profile, describe_rules
from waltz.model_registry import ModelSpec
from waltz.reporting.figures.explanations import (
    ExplainedText,
    draw_answer_and_explanation,
)
from waltz.reporting.figures.heatmaps import (
    Heatmap,
    HeatmapPanel,
    draw_heatmaps,
    draw_interactions,
)

START = "(start)"
"""Name of a start token among the pieces of a text; the token has no characters."""
ONE_ITEM = "it needs two items or more: explain a list of images or texts, take waltz.summarize_cc_shap, or run a study"
"""Reason why an item that is explained alone has no excess."""
LINE_LENGTH = 80
"""Maximum number of characters of a text in a summary of one line."""


@dataclass(frozen=True)
class ForwardPass:
    """State how the network of a decoder was run.

    Attributes:
        name: Name of the kind of forward pass, as in `Decoder.forward_pass`.
        reason: Why no faster kind was used; empty if this is the fastest.
    """

    name: str
    reason: str


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Show how much each player of the text and of the image contributes to a score, or to
    generated text.

    For an encoder, the explanation is about the score of a text; it holds the explanation of the
    `foil` if there is a foil. For an encoder that answers questions, it is about the probability of
    the answer, `label`. For a decoder, it is about the answer; if the decoder explained its
    answer, it holds the explanation of that text under `explanation`.

    Attributes:
        name: `caption` or `foil`, `answer` or `explanation`.
        model: Entry of the model in the registry, or a description of a model that has no entry.
        profile: Rules that hold: `equations` or `published`.
        attribution: Shapley values with all that was computed next to them.
        view: The image as the model sees it: RGB in [0, 1] of shape (height, width, 3); None
            without an image.
        cells: Number of the image player of each pixel of the view, int64 of shape (height, width);
            the number of players for a pixel outside all players. None without an image.
        probability: Probability of a match, if an encoder computes one, or of its answer; else None.
        relevance: Attention relevance, for CLIP.
        foil: The explanation of the foil; None without a foil.
        generated_text: The explained tokens as text; None for a score.
        question: The question as the prompts word it; None for a score, ready prompts and messages.
        label: The label that a decoder chose, None if it had no labels; or an encoder's answer. In `published` the
            explained token may differ from this label.
        explanation: The explanation of the text with which the decoder explained its answer; None
            without such a text.
        shared: Positions of the players that the other prompt has too; None without an explanation.
        kind: Kind of the decoder's explanation, `post-hoc` or `cot`; None without an explanation, and
            for ready prompts.
        cc_shap_result: CC-SHAP with its error and companions; None without an explanation.
        excess: CC-SHAP next to that of the answer with the explanations of the other items of the
            same call; None without such items.
        excess_reason: Why there is no excess; None if there is one, and without an explanation.
        forward_pass: How a decoder's network was run; None for an encoder.
    """

    name: str
    model: ModelSpec
    profile: Profile
    attribution: Attribution
    view: np.ndarray | None
    cells: np.ndarray | None
    probability: float | None = None
    relevance: Heatmap | None = None
    foil: "Explanation | None" = None
    generated_text: str | None = None
    question: str | None = None
    label: str | None = None
    explanation: "Explanation | None" = None
    shared: np.ndarray | None = None
    kind: str | None = None
    cc_shap_result: CCShap | None = None
    excess: Excess | None = None
    excess_reason: str | None = None
    forward_pass: ForwardPass | None = None

    @property
    def is_score(self) -> bool:
        """Return whether a score is explained; else generated text is explained."""
        return self.generated_text is None

    @property
    def outputs(self) -> list["Explanation"]:
        """Return this explanation, followed by the explanation of the foil or of the decoder's
        explanation, if any.
        """
        second = self.explanation
        if self.is_score:
            second = self.foil
        if second is None:
            return [self]
        return [self, second]

    @property
    def caption(self) -> str:
        """Return the text that is scored, or the rendered prompt."""
        return self.attribution.text

    @property
    def score(self) -> float:
        """Return the explained value of the unmasked input; for generated text, the value of its
        first token.

        For an encoder it is the logit of late fusion; for early fusion the probability of a match
        if there is one.
        """
        return self.attribution.score

    @property
    def t_shap(self) -> float:
        """Return T-SHAP, the share of the text, between 0 and 1; 1 without an image, NaN if it is
        undefined.
        """
        return self.attribution.t_shap.value

    @property
    def t_shap_se(self) -> float:
        """Return the standard error of T-SHAP, a share; 0 for exact values."""
        return self.attribution.t_shap.standard_error

    @property
    def t_shap_interval(self) -> tuple[float, float]:
        """Return the 95 % interval of T-SHAP by Student's t; NaN without a standard error."""
        return self.attribution.t_shap.interval

    @property
    def t_shap_corrected(self) -> float:
        """Return T-SHAP without most of the bias of few permutations; NaN for regressions, where it
        is unknown.
        """
        return self.attribution.t_shap.corrected

    @property
    def reason(self) -> str | None:
        """Return why the score, T-SHAP or its standard error is not defined; None if all are.

        A foil and a decoder's explanation have a reason of their own.
        """
        # Generated text has several outputs, whose values T-SHAP itself checks.
        if not self.is_score:
            return self.attribution.t_shap.reason
        phi = self.attribution.estimate.phi
        if not math.isfinite(self.score) or not np.isfinite(phi).all():
            return "the model's score is not finite"
        return self.attribution.t_shap.reason

    @property
    def text(self) -> PlayerValues:
        """Return the Shapley values of the text players, with `tokens` and `spans`.

        The shape is (players,) for a score, and (players, generated tokens) for generated text.
        """
        attribution = self.attribution
        phi = self._drop_single_output(attribution.text_phi)
        return build_text_values(
            phi, attribution.text, attribution.tokens, attribution.spans
        )

    @property
    def image(self) -> PlayerValues:
        """Return the Shapley values of the image players, with `boxes`; the axes are the same as in
        `text`.
        """
        return build_image_values(
            self._drop_single_output(self.attribution.image_phi), self.cells
        )

    @property
    def interactions(self) -> np.ndarray | None:
        """Return the Shapley interaction indices of text players with image players; None if they
        were not requested.

        The shape is (text players, image players) for a score; for generated text a last axis has
        its tokens.
        """
        pairs = self.attribution.interactions
        if pairs is None:
            return None
        return self._drop_single_output(pairs)

    @property
    def joint_share(self) -> float:
        """Return the share of the score's magnitude that comes from text and image together; NaN
        without interactions.

        For generated text it is the share for the first token.
        """
        return self.attribution.joint_share

    @property
    def cc_shap(self) -> float | None:
        """Return CC-SHAP, in [-1, 1]; NaN if it is undefined, None without an explanation."""
        if self.cc_shap_result is None:
            return None
        if self.cc_shap_result.value is None:
            return math.nan
        return self.cc_shap_result.value

    @property
    def cc_shap_excess(self) -> float | None:
        """Return CC-SHAP less the mean CC-SHAP of the answer with the explanations of the other items
        of the same call, in [-2, 2]; NaN if it is undefined, None without an explanation.
        """
        if self.cc_shap_result is None:
            return None
        if self.excess is None:
            return math.nan
        return self.excess.difference

    def record(self) -> JsonRecord:
        """Return the record that `--json` writes: plain values, with None for NaN or infinity."""
        record: JsonRecord = {
            "model": self.model.name,
            "revision": self.model.revision,
            "profile": self.profile,
        }
        # Keys and their order are documented in docs/tutorials/explain.md.
        if self.is_score:
            if self.label is not None:
                record |= {"question": self.question, "label": self.label}
            record |= self._record_score()
            if self.foil is not None:
                record["foil"] = self.foil._record_score()
            return record
        if self.forward_pass is not None:
            record |= {
                "forward_pass": self.forward_pass.name,
                "forward_pass_reason": self.forward_pass.reason,
            }
        record |= {
            "seed": self.attribution.seed,
            "question": self.question,
            "label": self.label,
        }
        if self.cc_shap_result is not None:
            record |= _record_cc_shap(self.cc_shap_result)
            record |= {
                "cc_shap_excess": to_null(self.cc_shap_excess),
                "cc_shap_excess_reason": self.excess_reason,
            }
        for output in self.outputs:
            record[output.name] = output._record_generated_text()
        return record

    def to_frame(self) -> pd.DataFrame:
        """Return a table with one row for each player, or for each player and output token if text
        was generated.

        Columns: `role` (`caption`, `foil`, an encoder's `answer`) of a score, or `side` (`answer`, `explanation`) and
        `output`; `modality`, `player`, `phi`, and the player's characters (`start`, `end`) or box
        (`left`, `top`, `right`, `bottom`).
        """
        # Caption and foil are roles of texts; an answer and its explanation are two sides of
        # CC-SHAP.
        name_column = "role" if self.is_score else "side"
        rows: list[JsonRecord] = []
        for output in self.outputs:
            names = output._name_image_players()
            rows += list_rows(
                output.text, output.image, names, **{name_column: output.name}
            )
        return pd.DataFrame(rows)

    def plot(self) -> Figure:
        """Draw the tokens and patches of each output, with values as they are and normalized within
        each modality.
        """
        if self.is_score:
            # An encoder reads an image.
            assert self.view is not None
            return draw_heatmaps(self.view, self._build_panels(), self._build_title())
        title = self._build_title()
        if self.cc_shap_result is not None:
            title += f": {self._describe_cc_shap()}"
        return draw_answer_and_explanation(
            [output._build_figure_text() for output in self.outputs], title, self.view
        )

    def plot_interactions(self) -> Figure:
        """Draw the image once for each text player, colored by the interactions of its regions with
        that player.

        For generated text, these are the interactions for its first token.

        Raises:
            ValueError: Interactions were not requested, or there is no image.
        """
        pairs = self.attribution.interactions
        if pairs is None or self.view is None or self.cells is None:
            raise ValueError(
                "interactions: not computed; explain with interactions=True, and with an image"
            )
        return draw_interactions(
            self.view,
            self.cells,
            self.text.tokens or (),
            pairs[..., 0],
            self._build_title(),
        )

    def lines(self) -> Iterator[str]:
        """Yield the lines of a summary: the model and the profile, each text with its score, or
        generated text with mean ratios; then CC-SHAP.
        """
        rules = describe_rules(self.profile, self.model.kind, self.model.family)
        yield f"{shorten_model_name(self.model)}, profile {self.profile}: {rules}"
        # The text of an encoder's answer is the question itself.
        if self.question is not None and not self.is_score:
            yield self.question
        for output in self.outputs:
            if self.is_score:
                yield from output._list_score_lines()
            else:
                yield from output._list_generated_text_lines()
        if self.cc_shap_result is not None:
            yield self._describe_cc_shap()
        if self.excess_reason is not None:
            yield f"  excess over other items' explanations: {self.excess_reason}"

    def __repr__(self) -> str:
        """Return at most five lines: the model, then each output with T-SHAP, then CC-SHAP."""
        lines = [f"Explanation by {self._build_title()}"]
        for output in self.outputs:
            if output.generated_text is None:
                lines += [
                    f"  {_shorten(output.caption)}",
                    f"    {output._describe_score()}",
                ]
            else:
                text = _join_lines(output.generated_text)[:LINE_LENGTH]
                lines.append(f"  {output.name}: {text}; {output._describe_t_shap()}")
        if self.cc_shap_result is not None:
            lines.append(f"  {self._describe_cc_shap()}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        headings = []
        for output in self.outputs:
            if self.is_score:
                headings.append(
                    f"{_shorten(output.caption)} ({output._describe_score()})"
                )
            else:
                headings.append(
                    f"{output._describe_output()}; {output._describe_t_shap()}; mean ratios in %"
                )
        footer = ""
        if self.cc_shap_result is not None:
            footer = f"<p>{html.escape(self._describe_cc_shap())}</p>"
        return render_panels(self.view, self._build_panels(), headings) + footer

    # Names and values of the players

    def _drop_single_output(self, values: np.ndarray) -> np.ndarray:
        """Return values without their last axis, the outputs, for a score, which has a single
        output.
        """
        if self.is_score:
            return values[..., 0]
        return values

    def _name_image_players(self) -> list[str]:
        return name_image_players(
            len(self.attribution.image_phi), self.attribution.grid, self.cells
        )

    def _spell_tokens(self) -> list[str]:
        """Return the characters of the text that each text player covers, or the token if it covers
        none.
        """
        tokens = []
        for token, span in zip(
            self.attribution.tokens, self.attribution.spans, strict=True
        ):
            # A special token has no characters; pieces of a prompt come with spaces before them.
            characters = self.attribution.text[span["start"] : span["end"]]
            if not self.is_score:
                characters = characters.strip()
                token = token or START
            tokens.append(characters or token)
        return tokens

    def _compute_percents(self) -> np.ndarray:
        """Return the mean ratios of all players in percent, text players first.

        Outputs to which the players contribute hardly anything are skipped.
        """
        phi = self.attribution.phi_text_first
        # An output to which the prompt hardly contributes would have ratios of noise.
        contributing = find_contributing_outputs(self.attribution.estimate.phi)
        if not contributing.any():
            return np.full(len(phi), math.nan)
        # percents: mean over output tokens, (players,), in the order of the game; the result has
        # text players first.
        ratios = compute_contribution_ratios(
            self.attribution.estimate.phi[:, contributing]
        )
        percents = 100 * ratios.mean(axis=1)
        text_slice = self.attribution.text_slice
        return np.concatenate([percents[text_slice], np.delete(percents, text_slice)])

    # Records

    def _record_score(self) -> JsonRecord:
        # Text players come first in the record, with the value of the single output.
        estimate = self.attribution.estimate
        players = []
        for modality, names, values in (
            ("text", self._spell_tokens(), self.text),
            ("image", self._name_image_players(), self.image),
        ):
            for name, value in zip(names, values, strict=True):
                players.append(
                    {"text": name, "modality": modality, "phi": to_null(value)}
                )
        return {
            "text": self.caption,
            "estimator": self.attribution.estimator,
            "score": to_null(self.score),
            "probability": to_null(self.probability),
            **self._record_t_shap(),
            "reason": self.reason,
            "players": players,
            "requested": estimate.requested,
            "evaluated": self.attribution.evaluated,
            "base_value": to_null(estimate.base_value[0]),
            "value": to_null(estimate.value[0]),
            "residual": to_null(estimate.residual),
            "seed": self.attribution.seed,
            **record_interactions(self.interactions, self.joint_share),
        }

    def _record_generated_text(self) -> JsonRecord:
        attribution, estimate = self.attribution, self.attribution.estimate
        text_players = [
            {"text": token, "modality": "text"} for token in self._spell_tokens()
        ]
        image_players = [
            {"text": name, "modality": "image"} for name in self._name_image_players()
        ]
        image_first = attribution.text_slice.start > 0
        record = {
            "generated_text": self.generated_text,
            "target_ids": list(attribution.instance.targets),
            "prompt": attribution.text,
            "query_suffix": attribution.instance.query_suffix,
            **self._record_t_shap(),
            "reason": self.reason,
            "estimator": attribution.estimator,
            "requested": estimate.requested,
            "base_value": [to_null(value) for value in estimate.base_value],
            "value": [to_null(value) for value in estimate.value],
            "residual": to_null(estimate.residual),
        }
        if self.shared is not None:
            record["shared"] = self.shared.tolist()
        # Rows of `phi` are in the order of the game, in which `published` puts patches first; the
        # names follow it.
        record["players"] = [*text_players, *image_players]
        if image_first:
            record["players"] = [*image_players, *text_players]
        record["phi"] = [[to_null(value) for value in row] for row in estimate.phi]
        return record | record_interactions(self.interactions, self.joint_share)

    def _record_t_shap(self) -> JsonRecord:
        # The number of evaluations with which T-SHAP would be right within one percentage point.
        needed = count_evaluations_for_point(
            self.attribution.estimate.requested, self.t_shap_se
        )
        return {
            "t_shap": to_null(self.t_shap),
            "t_shap_se": to_null(self.t_shap_se),
            "t_shap_interval": [to_null(end) for end in self.t_shap_interval],
            "t_shap_corrected": to_null(self.t_shap_corrected),
            "evaluations_for_1_point": to_null(needed),
        }

    # Sentences

    def _list_score_lines(self) -> Iterator[str]:
        attribution = self.attribution
        tokens = self.text.tokens or ()
        values = [_format_number(value, "+.3g") for value in self.text.tolist()]
        # The share of both modalities together is known only with interactions.
        joint = ""
        if self.interactions is not None:
            joint = f"; {self._describe_joint_share()}"
        requested = attribution.estimate.requested
        yield self.caption
        yield f"  {self._describe_score()}{joint}; {requested} evaluations, {attribution.estimator}"
        yield "  " + "  ".join(
            f"{token} {value}" for token, value in zip(tokens, values, strict=True)
        )
        if self.interactions is not None:
            yield f"  {describe_strongest_pairs(self.interactions, tokens, self._name_image_players())}"

    def _list_generated_text_lines(self) -> Iterator[str]:
        attribution = self.attribution
        tokens = self._spell_tokens()
        means = [
            _format_number(mean, "+.1f")
            for mean in self._compute_percents()[: len(tokens)].tolist()
        ]
        # Without an image T-SHAP is 1 by definition, and not worth a line.
        share = ""
        if self.cells is not None:
            share = f" {self._describe_t_shap()};"
        requested = attribution.estimate.requested
        yield self._describe_output()
        yield f" {share} {requested} evaluations, {attribution.estimator}; mean ratios in %:"
        yield "  " + "  ".join(
            f"{token} {mean}" for token, mean in zip(tokens, means, strict=True)
        )
        if attribution.interactions is not None:
            pairs = describe_strongest_pairs(
                attribution.interactions[..., 0], tokens, self._name_image_players()
            )
            yield f"  first token: {self._describe_joint_share()}; {pairs}"

    def _describe_score(self) -> str:
        """Return the score and T-SHAP with its error, and the reason if one of them is not defined."""
        score = "not finite"
        if math.isfinite(self.score):
            score = f"{self.score:.6g}"
        share = "not defined"
        if not math.isnan(self.t_shap):
            share = f"{100 * self.t_shap:.2f} %"
        if not math.isnan(self.t_shap_se):
            share += f" ± {100 * self.t_shap_se:.2f}"
        name = "score"
        if self.label is not None:
            name = f"answer {self.label}, probability"
        description = f"{name} {score}, T-SHAP {share}"
        if self.reason:
            return f"{description} ({self.reason})"
        return description

    def _describe_output(self) -> str:
        """Return the generated text, and the chosen label if it differs from the explained token."""
        text = self.generated_text or ""
        label = ""
        if self.label is not None and self.label != text.strip():
            label = f" (of the labels, {self.label})"
        return f"{self.name}: {_join_lines(text) or '(nothing to read)'}{label}"

    def _describe_t_shap(self) -> str:
        return describe_share("T-SHAP", self.t_shap, self.t_shap_se, self.reason)

    def _describe_joint_share(self) -> str:
        return describe_share(
            "used together", self.joint_share, reason="nothing contributes"
        )

    def _describe_cc_shap(self) -> str:
        """Return CC-SHAP with its error and its excess, or the reason why it is not defined."""
        cc_shap = self.cc_shap_result
        # Callers have checked that there is an explanation.
        assert cc_shap is not None
        if cc_shap.value is None:
            return f"CC-SHAP not defined ({cc_shap.reason})"
        description = f"CC-SHAP {cc_shap.value:.3f}"
        if cc_shap.standard_error is not None:
            description += f" ± {cc_shap.standard_error:.3f}"
        if self.excess is not None:
            description += f", excess {self.excess.difference:+.3f}"
        return description

    def _build_title(self) -> str:
        return f"{shorten_model_name(self.model)}, {self.profile}"

    # Figures

    def _build_panels(self) -> list[HeatmapPanel]:
        if self.is_score:
            has_foil = self.foil is not None
            return [
                output._build_score_panel(output.name if has_foil else "text")
                for output in self.outputs
            ]
        return [output._build_ratio_panel() for output in self.outputs]

    def _build_score_panel(self, heading: str) -> HeatmapPanel:
        attribution = self.attribution
        # An encoder reads an image.
        assert self.cells is not None
        return HeatmapPanel(
            heading=heading,
            text=self.caption,
            tokens=attribution.tokens,
            spans=attribution.spans,
            cells=self.cells,
            phi=attribution.estimate.phi[:, 0],
            score=self.score,
            t_shap=self.t_shap,
            t_shap_se=self.t_shap_se,
            relevance=self.relevance,
        )

    def _build_ratio_panel(self) -> HeatmapPanel:
        """Return the tokens and patches of generated text with their mean ratios in percent."""
        attribution = self.attribution
        # A prompt without an image has a panel of tokens alone.
        cells = self.cells
        if cells is None:
            cells = np.zeros((0, 0), dtype=np.int64)
        return HeatmapPanel(
            heading=self.name,
            text=attribution.text,
            tokens=attribution.tokens,
            spans=attribution.spans,
            cells=cells,
            phi=self._compute_percents(),
            # Ratios have no score, and the heading already states T-SHAP.
            score=math.nan,
            t_shap=math.nan,
        )

    def _build_figure_text(self) -> ExplainedText:
        attribution = self.attribution
        # Without an image T-SHAP is 1 by definition and not shown.
        t_shap = t_shap_se = None
        if self.cells is not None:
            t_shap, t_shap_se = to_null(self.t_shap), to_null(self.t_shap_se)
        return ExplainedText(
            name=self.name,
            generated_text=self.generated_text or "",
            prompt=attribution.text,
            tokens=attribution.tokens,
            spans=attribution.spans,
            phi=attribution.phi_text_first,
            cells=self.cells,
            t_shap=t_shap,
            t_shap_se=t_shap_se,
        )


def _record_cc_shap(cc_shap: CCShap) -> JsonRecord:
    """Return the fields of the JSON record that belong to CC-SHAP."""
    # An undefined CC-SHAP has no companions.
    companions = None
    if cc_shap.companions is not None:
        companions = {
            name: to_null(value) for name, value in asdict(cc_shap.companions).items()
        }
    return {
        "cc_shap": to_null(cc_shap.value),
        "cc_shap_se": to_null(cc_shap.standard_error),
        "cc_shap_reason": cc_shap.reason,
        "companions": companions,
        "weak_answer": cc_shap.weak_answer,
        "weak_explanation": cc_shap.weak_explanation,
        "cc_shap_with_weak": to_null(cc_shap.with_weak),
        "ratios_answer": [to_null(value) for value in cc_shap.ratios_answer],
        "ratios_explanation": [to_null(value) for value in cc_shap.ratios_explanation],
    }


def _format_number(value: float, form: str) -> str:
    if math.isnan(value):
        return "NaN"
    return format(value, form)


def _join_lines(text: str) -> str:
    """Return a text on one line."""
    return " ".join(text.split())


def _shorten(text: str) -> str:
    line = _join_lines(text)
    if len(line) <= LINE_LENGTH:
        return line
    return f"{line[: LINE_LENGTH - 1]}…"
