"""Explanations of an encoder's scores of one image with one or several texts, or of its answer."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from PIL import Image

from waltz.attribution.attention_relevance import compute_clip_relevance
from waltz.attribution.mm_shap import attribute_texts
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.explainer.explanation import Explanation
from waltz.explainer.players import PlayerChoice, PlayersCallback, build_text_regroup
from waltz.models.batches import ProgressCallback, ignore_progress
from waltz.models.encoders.coalitions import EncoderPlayers, Outcome
from waltz.models.encoders.encoder import Encoder
from waltz.models.encoders.vqa import (
    AnsweringEncoder,
    answer_question,
    build_answer_probability,
)
from waltz.models.visible_image import render_encoder_view
from waltz.reporting.figures.heatmaps import Heatmap


def explain_texts(
    encoder: Encoder,
    image: Image.Image,
    texts: Sequence[str],
    settings: AttributionSettings,
    choice: PlayerChoice,
    progress: ProgressCallback = ignore_progress,
    expect: PlayersCallback = ignore_progress,
    outcome: Outcome | None = None,
) -> list[Explanation]:
    """Explain an encoder's score of each text with one image.

    Args:
        texts: Texts about the image; they share its masked images.
        choice: Players that the user chose.
        progress: Called with the number of coalitions, or encoder passes, that are done.
        expect: Called with the number of players of each text, before its coalitions are evaluated.
        outcome: Function of the encoder's logits that returns the explained value; None for the
            score.
    Raises:
        UserError: The settings do not fit the model, or a text is longer than the model reads.
        ValueError: The players that the user chose do not fit a text or the image.
    """
    regroup = build_text_regroup(encoder, image, choice, expect)
    attributions = attribute_texts(
        encoder,
        image,
        texts,
        settings,
        outcome=outcome,
        regroup=regroup,
        progress=progress,
    )
    # The view shows the image after resizing and cropping, as the encoder reads it.
    prepared = encoder.prepare_image(image)
    view = render_encoder_view(encoder, image)
    explanations = []
    for attribution in attributions:
        players = cast(EncoderPlayers, attribution.players)
        explanations.append(
            Explanation(
                name="caption",
                model=encoder.spec,
                profile=settings.profile,
                attribution=attribution,
                view=view,
                cells=players.cells.cpu().numpy(),
                probability=_compute_probability(encoder, attribution.score),
                relevance=_compute_relevance(encoder, players, prepared),
            )
        )
    return explanations


def explain_encoder_answer(
    encoder: AnsweringEncoder,
    image: Image.Image,
    question: str,
    settings: AttributionSettings,
    choice: PlayerChoice,
    progress: ProgressCallback = ignore_progress,
    expect: PlayersCallback = ignore_progress,
) -> Explanation:
    """Explain the probability of the answer that an encoder chooses, by tokens of the question and
    patches of the image; see `explain_texts`.
    """
    answer = answer_question(encoder, encoder.prepare_image(image), question)
    outcome = build_answer_probability(answer)
    (explanation,) = explain_texts(
        encoder, image, [question], settings, choice, progress, expect, outcome
    )
    return replace(
        explanation,
        name="answer",
        question=question,
        label=answer.text,
        probability=answer.probability,
    )


def pair_with_foil(explanations: Sequence[Explanation]) -> Explanation:
    """Join the explanations of a caption and of its foil to one explanation."""
    caption, foil = explanations
    return replace(caption, foil=replace(foil, name="foil"))


def _compute_relevance(
    encoder: Encoder, players: EncoderPlayers, prepared: torch.Tensor
) -> Heatmap | None:
    """Return CLIP's attention relevance, summed over the tokens of each text player; None for other
    encoders.
    """
    if encoder.spec.kind != "clip":
        return None
    # A word or span has the sum of the relevance of its tokens. Patches are the network's patches,
    # not the grid's.
    ids = torch.tensor(players.text_input.ids)
    relevance = compute_clip_relevance(getattr(encoder, "network"), ids, prepared)  # noqa: B009
    tokens = np.array(
        [relevance.tokens[positions].sum() for positions in players.list_positions()]
    )
    return Heatmap(tokens, relevance.patches)


def _compute_probability(encoder: Encoder, score: float) -> float | None:
    """Return the probability of a match; None if the encoder has none."""
    if not encoder.probability:
        return None
    # Late fusion is explained by its logit; for other encoders the score is the probability
    # already.
    if encoder.late:
        return float(torch.sigmoid(torch.tensor(score, dtype=torch.float64)))
    return score
