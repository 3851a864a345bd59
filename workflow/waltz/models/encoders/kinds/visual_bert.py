"""VisualBERT by its sentence-image head: one BERT over the tokens and the regions."""

from dataclasses import dataclass
from typing import Any

import torch
import transformers

from waltz.core.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.encoders.base import RegionEncoder, has_no_vocabulary, load_region_encoder
from waltz.models.encoders.encoder import States, compute_log_odds

MATCH = 0
"""Index of a match in the head's output."""
BERT_TOKENIZER, BERT_REVISION = "google-bert/bert-base-uncased", "86b5e0934494bd15c9632b12f734a8a67f723594"
"""Tokenizer for checkpoints without one, such as the published ones."""


@dataclass(frozen=True)
class VisualBert(RegionEncoder):
    """A loaded VisualBERT; see `encoder.Encoder`."""

    late: bool = False
    probability: bool = True
    images_per_batch: int = 128
    texts_per_batch: int = 128
    pairs_per_batch: int = 32

    def encode_image(self, images: torch.Tensor) -> States:
        """Return features of the regions; boxes are not used."""
        return (self.provider.compute_regions(images)[0].to(self.network.dtype),)

    def encode_text(self, ids: torch.Tensor) -> States:
        """Return the ids: a single stream has no separate text encoder."""
        return (ids,)

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return log odds of a match."""
        state = self.network.visual_bert(input_ids=text[0], visual_embeds=image[0]).pooler_output
        return compute_log_odds(self.network.cls.seq_relationship(state), MATCH)


class TokenizerLoader:
    """Loader of the tokenizer: the checkpoint's own, or BERT's."""

    @staticmethod
    def from_pretrained(source: str, **options: Any) -> Any:
        """Return the tokenizer.

        Raises:
            OSError: There is none.
        """
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, **options)
        if not has_no_vocabulary(tokenizer):
            return tokenizer
        try:
            return transformers.AutoTokenizer.from_pretrained(BERT_TOKENIZER, revision=BERT_REVISION)
        except OSError as error:
            raise OSError(f"it has no tokenizer, and {BERT_TOKENIZER} at {BERT_REVISION} cannot be had") from error


def load_visual_bert(spec: ModelSpec, device: Device) -> VisualBert:
    """Load a VisualBERT with its pre-training heads by hub id or folder.

    Raises:
        UserError: The weights cannot be had, or lack parameters of the network, or its regions are missing.
    """
    network, common = load_region_encoder(
        spec, device, transformers.VisualBertForPreTraining, "matching head", "visual_embedding_dim", TokenizerLoader
    )
    return VisualBert(**common, max_tokens=network.config.max_position_embeddings)
