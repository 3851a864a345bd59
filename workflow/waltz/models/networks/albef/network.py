"""ALBEF as a network that matches images with texts, and as one that answers, each from a checkpoint file."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from waltz.models import checkpoint_file
from waltz.models.networks.albef.answering import Decoder
from waltz.models.networks.albef.dimensions import Shapes, TextSize, VisionSize, bert_settings, text_size, vision_size
from waltz.models.networks.albef.language import Language
from waltz.models.networks.albef.vision import Vision

ELSEWHERE = re.compile(
    r"""[^.]*_m(\..*)?                              # momentum copies of other weights
    | image_queue | text_queue | idx_queue | queue_ptr  # what training compared with
    | temp | (vision|text)_proj\..*                 # the contrastive score
    | (.*\.)?position_ids                           # the numbers from 0 on
    | text_encoder\.cls\..*                         # prediction of masked words
    | text_decoder\..* | itm_head\..*               # heads that another network has
    """,
    re.VERBOSE,
)
"""Keys of a release's file that a network may leave."""
DECODER_SETTINGS = ("num_attention_heads", "hidden_act", "layer_norm_eps")
"""Settings of the text encoder that are the decoder's too; every layer of it looks at the question."""


class Matcher(nn.Module):
    """Image encoder, text and fusion layers, and the head that tells a match from a mismatch."""

    def __init__(self, vision: VisionSize, text: TextSize) -> None:
        """Lay out the weights."""
        super().__init__()
        self.side, self.longest = vision.side, text.positions
        self.visual_encoder = Vision(vision)
        self.text_encoder = Language(text)
        self.itm_head = nn.Linear(text.width, 2)

    def logits(self, states: torch.Tensor, image: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """Logits of a mismatch and a match, read off at the first token.

        Args:
            states: Of texts after `text_encoder.read`, of shape (batch, tokens, width).
            image: Of images after `visual_encoder`, of shape (batch, 1 + patches, width).
            bias: Added to the scores of attention to the text; see `language.padding`.
        Returns:
            Of shape (batch, 2).
        """
        found: torch.Tensor = self.itm_head(self.text_encoder.fuse(states, image, bias, wanted=1)[:, 0])
        return found


class Answerer(nn.Module):
    """Image encoder, text and fusion layers over a question, and the decoder of an answer."""

    def __init__(self, vision: VisionSize, text: TextSize, decoder: TextSize) -> None:
        """Lay out the weights."""
        super().__init__()
        self.side, self.longest = vision.side, text.positions
        self.visual_encoder = Vision(vision)
        self.text_encoder = Language(text)
        self.text_decoder = Decoder(decoder)


def matcher(
    file: Path, config: Mapping[str, Any] | None = None, name: str = "", allow_missing: Mapping[str, str] = {}
) -> Matcher:
    """The matching network of a checkpoint file.

    Args:
        file: A file of the release (`mscoco.pth`, `ALBEF.pth`, ...), or one in its layout at another size.
        config: The release's settings; those beside the file unless given.
        name: Name of the model in the study, for errors.
        allow_missing: See `original.fit`.
    Raises:
        UserError: The file or settings cannot be read, or a weight is missing, unexpected or of another shape; a
            checkpoint for answering has no matching head.
    """
    weights, shapes, config = _opened(file, config, name)
    with torch.device("meta"):
        network = Matcher(vision_size(shapes, config), text_size(shapes, bert_settings(config, shapes.where)))
    checkpoint_file.fit(network, weights, file, name, _elsewhere, allow_missing)
    return network.eval()


def answerer(
    file: Path, config: Mapping[str, Any] | None = None, name: str = "", allow_missing: Mapping[str, str] = {}
) -> Answerer:
    """The answering network of a checkpoint file, `vqa.pth`; see `matcher`."""
    weights, shapes, config = _opened(file, config, name)
    bert = bert_settings(config, shapes.where)
    text = text_size(shapes, bert)
    own = {key: value for key, value in bert.items() if key in DECODER_SETTINGS}
    decoder = replace(text_size(shapes, own, "text_decoder.bert."), fusion=0, context=text.width)
    with torch.device("meta"):
        network = Answerer(vision_size(shapes, config), text, decoder)
    checkpoint_file.fit(network, weights, file, name, _elsewhere, allow_missing)
    return network.eval()


def _opened(
    file: Path, config: Mapping[str, Any] | None, name: str
) -> tuple[dict[str, torch.Tensor], Shapes, Mapping[str, Any]]:
    """Weights of a file, without the level that pre-training puts around the text encoder's; shapes; settings."""
    weights = {
        key.replace("text_encoder.bert.", "text_encoder.", 1): value
        for key, value in checkpoint_file.read(file).items()
    }
    shapes = Shapes(weights, checkpoint_file.named(name, file))
    return weights, shapes, checkpoint_file.settings_beside(file) if config is None else config


def _elsewhere(key: str) -> bool:
    return ELSEWHERE.fullmatch(key) is not None
