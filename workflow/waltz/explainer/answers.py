"""Explanations of what a decoder generates: its answer, and its explanation of it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from PIL import Image

from waltz.attribution.engine import Attribution
from waltz.attribution.prompt_attribution import (
    PromptSettings,
    Regroup,
    attribute_prompts,
)
from waltz.consistency.cc_shap.dialogue import apply_family_rules
from waltz.consistency.cc_shap.pair_attribution import attribute_pairs
from waltz.core.errors import UserError
from waltz.explainer.explanation import ONE_ITEM, Explanation, ForwardPass
from waltz.explainer.players import (
    PlayerChoice,
    PlayersCallback,
    build_prompt_regroup,
    number_chosen_regions,
)
from waltz.explainer.queries import (
    DecoderQuestion,
    Query,
    build_query_template,
    generate_games,
)
from waltz.models.batches import ProgressCallback, ignore_progress
from waltz.models.decoders.coalitions import DecoderPlayers
from waltz.models.decoders.decoder import Decoder, PreparedImage
from waltz.models.visible_image import render_decoder_view


@torch.inference_mode()
def explain_answer(
    decoder: Decoder,
    query: Query,
    settings: PromptSettings,
    image: Image.Image | None,
    choice: PlayerChoice,
    max_new_tokens: int,
    progress: ProgressCallback = ignore_progress,
    expect: PlayersCallback = ignore_progress,
) -> Explanation:
    """Explain a decoder's answer, and the explanation that it gives, by tokens of the prompt and
    patches of the image.

    Args:
        query: The question, ready prompts or conversation that the decoder answers.
        image: An RGB image; None for a query without an image.
        choice: Players that the user chose.
        max_new_tokens: Maximum number of tokens of the explanation, or of the reply to messages.
        progress: Called with the number of coalitions that are done.
        expect: Called with the number of players of each prompt, before its coalitions are
            evaluated.
    Raises:
        UserError: Model, image, prompts or settings do not fit each other.
        ValueError: The players that the user chose do not fit the prompt or the image.
    """
    if decoder.reads_images and image is None:
        raise UserError(
            f"{decoder.spec.name}: sees images, and none is named; name one"
        )
    # The model answers first, since the attribution explains the text that it generates.
    picture = None
    if image is not None:
        picture = decoder.prepare_image(image)
    template = build_query_template(decoder, query, settings)
    if template is not None:
        settings = apply_family_rules(settings, decoder, template)
    generation = generate_games(
        decoder, picture, query, template, settings, max_new_tokens
    )

    regions = number_chosen_regions(picture, choice)
    regroup: Regroup | None = build_prompt_regroup(
        decoder, picture, choice, generation.question, expect
    )
    if (
        picture is None
        and choice.is_default
        and settings.fidelity.language_models == "partition"
    ):
        # shap's partition explainer cuts the text itself, so that there are no players to group.
        regroup = None

    # A single prompt is attributed alone. An answer and its explanation are attributed together,
    # and CC-SHAP compares them.
    games = generation.games
    pair = None
    if len(games) == 1:
        attributions = attribute_prompts(
            decoder, picture, games, settings, regroup=regroup, progress=progress
        )
    else:
        (pair,) = attribute_pairs(
            decoder, picture, [games], settings, regroup=regroup, progress=progress
        )
        attributions = [pair.answer.attribution, pair.explanation.attribution]
    answer, *explanations = _build_explanations(
        decoder, picture, settings, attributions, regions
    )
    forward_pass = decoder.describe_forward_pass()
    answer = replace(
        answer,
        question=generation.question,
        label=generation.label,
        forward_pass=ForwardPass(
            forward_pass["forward_pass"], forward_pass["forward_pass_reason"]
        ),
    )
    if pair is None:
        return answer
    return replace(
        answer,
        shared=pair.answer.shared,
        explanation=replace(explanations[0], shared=pair.explanation.shared),
        kind=query.kind if isinstance(query, DecoderQuestion) else None,
        cc_shap_result=pair.cc_shap,
        excess_reason=ONE_ITEM,
    )


def _build_explanations(
    decoder: Decoder,
    picture: PreparedImage | None,
    settings: PromptSettings,
    attributions: Sequence[Attribution],
    regions: np.ndarray | None,
) -> list[Explanation]:
    """Return the explanation of the answer, and then of the decoder's explanation if it was
    attributed too.
    """
    explanations = []
    # There are one or two attributions, so that the second name may stay unused.
    for name, attribution in zip(("answer", "explanation"), attributions, strict=False):
        # Without an image, or where shap cut the text into pieces, there is nothing to draw on.
        view = cells = None
        if picture is not None and attribution.players is not None:
            view, cells = render_decoder_view(
                decoder, picture, cast(DecoderPlayers, attribution.players), regions
            )
        explanations.append(
            Explanation(
                name=name,
                model=decoder.spec,
                profile=settings.profile,
                attribution=attribution,
                view=view,
                cells=cells,
                generated_text=decoder.decode_text(attribution.instance.targets),
            )
        )
    return explanations
