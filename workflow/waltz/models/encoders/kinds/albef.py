"""ALBEF by its matching head, from a checkpoint file of its authors: text layers, then layers that attend to the
image.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image

from waltz.core.devices import Device
from waltz.core.errors import UserError
from waltz.model_registry import TOKENIZER_FILES, ModelSpec
from waltz.models import checkpoint_file
from waltz.models.encoders.base import BaseEncoder, has_no_vocabulary
from waltz.models.encoders.encoder import States, TokenizedText, compute_log_odds
from waltz.models.encoders.kinds.visual_bert import BERT_REVISION, BERT_TOKENIZER
from waltz.models.encoders.packed_linear import pack_linear_layers
from waltz.models.networks.albef import inputs
from waltz.models.networks.albef.network import load_matching_network

MATCH = 1
"""Index of a match in the head's output."""


@dataclass(frozen=True)
class Albef(BaseEncoder):
    """A loaded ALBEF; see `encoder.Encoder`."""

    late: bool = False
    probability: bool = True
    images_per_batch: int = 8
    texts_per_batch: int = 128
    pairs_per_batch: int = 16

    def tokenize(self, text: str) -> TokenizedText:
        """Return the tokens of the cleaned text; see `networks.albef.inputs`."""
        return inputs.tokenize_caption(self.tokenizer, text, self.max_tokens, self.spec.name)

    def prepare_image(self, image: Image.Image) -> torch.Tensor:
        """Return the prepared image; see `networks.albef.inputs`."""
        return inputs.prepare_image(image, self.network.side).to(
            self.device, self.network.visual_encoder.cls_token.dtype
        )

    def encode_image(self, images: torch.Tensor) -> States:
        """Return states of the image's [CLS] token and of its patches."""
        return (self.network.visual_encoder(images),)

    def encode_text(self, ids: torch.Tensor) -> States:
        """Return states of the tokens before the first cross-attention to the image."""
        return (self.network.text_encoder.encode_text(ids),)

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return log odds of a match."""
        return compute_log_odds(self.network.logits(text[0], image[0]), MATCH)


def load_albef(spec: ModelSpec, device: Device) -> Albef:
    """Load an ALBEF with its matching head from a checkpoint file, or a folder or repository of one.

    Raises:
        UserError: The file or tokenizer cannot be had, or its keys are not those of the network; a checkpoint for
            answering has no matching head.
    """
    file = checkpoint_file.find_checkpoint_file(spec)
    return Albef(
        **build_fields(
            spec,
            device,
            file,
            load_matching_network(file, checkpoint_file.read_configured_settings(spec), spec.name, spec.allow_missing),
        )
    )


def build_fields(spec: ModelSpec, device: Device, file: Path, network: Any) -> dict[str, Any]:
    """Return the fields of a loaded ALBEF with any head.

    Raises:
        UserError: There is no tokenizer.
    """
    network = network.to(device.name, getattr(torch, spec.dtype))
    pack_linear_layers(network.visual_encoder.blocks)
    return {
        "spec": spec,
        "device": device.name,
        "network": network,
        "tokenizer": inputs.remove_end_token(_load_tokenizer(spec, file.parent)),
        "max_tokens": network.longest,
    }


def _load_tokenizer(spec: ModelSpec, folder: Path) -> Any:
    """Return BERT's tokenizer: the one next to the weights, else the published one."""
    has_own = any((folder / name).is_file() for name in TOKENIZER_FILES)
    source, options = (str(folder), {}) if has_own else (BERT_TOKENIZER, {"revision": BERT_REVISION})
    only_vocabulary = has_own and not any((folder / name).is_file() for name in TOKENIZER_FILES[:-1])
    tokenizer_class = transformers.BertTokenizer if only_vocabulary else transformers.AutoTokenizer
    try:
        tokenizer = tokenizer_class.from_pretrained(source, **options)
    except (OSError, ValueError) as error:
        first_line = str(error).strip().splitlines()[0]
        raise UserError(
            f"models.{spec.name}: cannot load the tokenizer {source}: {first_line}; check the network, or copy the"
            f" files of {BERT_TOKENIZER} next to the weights"
        ) from error
    if has_no_vocabulary(tokenizer) or not getattr(tokenizer, "is_fast", False):
        raise UserError(f"models.{spec.name}: {source} has no fast tokenizer; copy the files of {BERT_TOKENIZER} there")
    return tokenizer
