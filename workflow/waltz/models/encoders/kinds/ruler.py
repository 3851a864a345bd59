"""Rulers: additive encoders with a known share of text, to test whether a measure recovers it.

A ruler's logit is the share of text times the mean sign of the visible tokens, plus the rest times
the share of visible pixels. Each token's Shapley value is therefore plus or minus share / tokens,
and the values of the patches sum to the rest: T-SHAP is the share. Pixels that `published` puts
into no patch would reduce the image's part, so pixels at the right and lower edge count for
nothing: in grids of up to ten patches in each direction, that is for texts of up to 98 words, all
pixels that count lie in some patch.
"""

from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image

from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.core.text_diff import WORD, Span
from waltz.model_registry import ModelSpec
from waltz.models.encoders.encoder import States, TokenizedText

MASKED_ID, START_ID, END_ID = 0, 1, 2
FIRST_WORD_ID = 3
"""Smallest id of a word; a word with an even distance from it counts for a match, another one
against it.
"""
IMAGE_SIDE = 120
"""Rows and columns of pixels, divisible by all grids up to ten except 7 (1 pixel is left) and 9 (3
are left).
"""
COUNTED_SIDE = IMAGE_SIDE - 3
"""Number of rows and columns of pixels that count."""


@dataclass(frozen=True)
class Ruler:
    """A ruler; its fields are those of `encoder.Encoder`.

    Attributes:
        share: Share of text, between 0 and 1.
    """

    spec: ModelSpec
    device: str
    share: float
    late: bool = False
    probability: bool = False
    masked_id: int = MASKED_ID
    images_per_batch: int = 32
    texts_per_batch: int = 128
    pairs_per_batch: int = 4096

    def tokenize(self, text: str) -> TokenizedText:
        """Return words and punctuation marks between a start and an end token."""
        ids = [START_ID]
        tokens = ["[START]"]
        spans = [Span(start=0, end=0)]
        special = [True]
        for word in WORD.finditer(text):
            # The parity of the sum of a word's characters decides its sign, the same in every text.
            ids.append(FIRST_WORD_ID + sum(map(ord, word.group())))
            tokens.append(word.group())
            spans.append(Span(start=word.start(), end=word.end()))
            special.append(False)
        ids.append(END_ID)
        tokens.append("[END]")
        spans.append(Span(start=0, end=0))
        special.append(True)
        return TokenizedText(tuple(ids), tuple(tokens), tuple(spans), tuple(special))

    def prepare_image(self, image: Image.Image) -> torch.Tensor:
        """Return the image with values from 1 to 2, so that only a hidden pixel is 0."""
        resized = image.resize((IMAGE_SIDE, IMAGE_SIDE))
        pixels = np.asarray(resized, dtype=np.float32).transpose(2, 0, 1) / 255 + 1
        return torch.from_numpy(pixels).to(self.device)

    def encode_image(self, images: torch.Tensor) -> States:
        """Return the share of visible pixels among those that count."""
        # (batch, 3, rows, columns)
        counted = images[:, :, :COUNTED_SIDE, :COUNTED_SIDE]
        is_visible = (counted != 0).double()
        return (is_visible.mean(dim=(1, 2, 3)),)

    def encode_text(self, ids: torch.Tensor) -> States:
        """Return the mean sign of the words; hidden words count 0."""
        # Without start and end token.
        words = ids[:, 1:-1]
        parity = (words - FIRST_WORD_ID) % 2
        is_visible = words >= FIRST_WORD_ID
        signs = torch.where(is_visible, 1 - 2 * parity, 0).double()
        return (signs.sum(dim=1) / max(1, words.shape[1]),)

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return the weighted sum of both."""
        # Additive, so that no interaction of text and image blurs the share.
        return self.share * text[0] + (1 - self.share) * image[0]


def load_ruler(spec: ModelSpec, device: Device) -> Ruler:
    """Return the ruler whose share is written in the entry's weights, as `share:0.25`.

    Raises:
        UserError: The weights do not state a share between 0 and 1.
    """
    name, _, number = spec.weights.partition(":")
    try:
        share = float(number)
    except ValueError:
        share = -1.0
    if name != "share" or not 0 <= share <= 1:
        raise UserError(
            f"models.{spec.name}.weights: {spec.weights!r}: a ruler's weights are its share of text, as share:0.25"
        )
    return Ruler(spec, device.name, share)
