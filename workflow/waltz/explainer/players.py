"""Players that a user of `waltz.Explainer` chooses: words or spans, and a grid or regions."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PIL import Image

from waltz.attribution import mm_shap, prompt_attribution
from waltz.attribution.custom_players import (
    TOKEN,
    ImagePlayers,
    TextPlayers,
    count_regions,
    group_text_players,
    number_decoder_pixels,
    number_encoder_pixels,
    number_image,
    replace_image_players,
)
from waltz.core.errors import UserError
from waltz.models.decoders import coalitions as decoder_coalitions
from waltz.models.decoders.decoder import Decoder, PreparedImage
from waltz.models.encoders import coalitions as encoder_coalitions
from waltz.models.encoders.encoder import Encoder
from waltz.models.regions import StoredRegions

PlayersCallback = Callable[[int], object]
"""Function that is called with the number of players of each text or prompt, before its coalitions
are evaluated.
"""


@dataclass(frozen=True, eq=False)
class PlayerChoice:
    """Hold the players that the user chose.

    Attributes:
        text: `token`, `word`, or spans, whose characters are counted from the start of the question
            if there is one, else from the start of the text or prompt.
        regions: Rows and columns of a grid, or masks of regions, bool of shape (regions, height,
            width) of the image; None for the grid of the profile.
    """

    text: TextPlayers = TOKEN
    regions: ImagePlayers | None = None

    @property
    def is_default(self) -> bool:
        """Return whether the user chose nothing, so that the profile decides."""
        return (
            isinstance(self.text, str) and self.text == TOKEN and self.regions is None
        )


def build_text_regroup(
    encoder: Encoder, image: Image.Image, choice: PlayerChoice, expect: PlayersCallback
) -> mm_shap.Regroup:
    """Return a function that replaces the players of an encoder's text by the players that the user
    chose.

    Args:
        expect: Called with the number of players of each text.
    Raises:
        UserError: Regions are chosen for an encoder whose stored regions are the players.
    """
    regions = choice.regions
    if regions is not None and isinstance(
        getattr(encoder, "provider", None), StoredRegions
    ):
        raise UserError(
            f"{encoder.spec.name}: grid: its stored regions are the players; leave it out"
        )
    # The regions are the same for all texts, so that they are located once.
    cells = None
    if regions is not None:
        cells = number_encoder_pixels(encoder, image, regions)

    def regroup(
        players: encoder_coalitions.EncoderPlayers, text: str
    ) -> encoder_coalitions.EncoderPlayers:
        players = group_text_players(
            players, text, players.text_input.spans, choice.text
        )
        if regions is not None and cells is not None:
            players = replace_image_players(players, cells, count_regions(regions))
        expect(len(players))
        return players

    return regroup


def build_prompt_regroup(
    decoder: Decoder,
    picture: PreparedImage | None,
    choice: PlayerChoice,
    question: str | None,
    expect: PlayersCallback,
) -> prompt_attribution.Regroup:
    """Return a function that replaces the players of a decoder's prompt by the players that the
    user chose.

    Args:
        question: The question within the prompt, at whose first character spans begin to count;
            None counts from the start of the prompt.
        expect: Called with the number of players of each prompt.
    """
    regions = choice.regions

    def regroup(
        players: decoder_coalitions.DecoderPlayers,
    ) -> decoder_coalitions.DecoderPlayers:
        text = players.prompt.text
        # The prompt begins with the words of a template, which the user does not know, so that
        # spans are counted from the question.
        first_character = 0
        if question is not None:
            first_character = max(0, text.find(question))
        players = group_text_players(
            players, text, players.prompt.spans, choice.text, first_character
        )
        if picture is not None and regions is not None:
            cells = number_decoder_pixels(decoder, picture, regions, players.raw)
            players = replace_image_players(players, cells, count_regions(regions))
        expect(len(players))
        return players

    return regroup


def number_chosen_regions(
    picture: PreparedImage | None, choice: PlayerChoice
) -> np.ndarray | None:
    """Return the number of the region of each pixel of the raw image, int64 of shape (height,
    width); None without an image or regions.
    """
    if picture is None or choice.regions is None:
        return None
    return number_image(picture, choice.regions)
