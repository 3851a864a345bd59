"""LXMERT by its matching or its answering head: language layers, object-relation layers, and cross
layers over both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import EllipsisType

import torch
import transformers

from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.encoders.base import RegionEncoder, load_region_encoder
from waltz.models.encoders.encoder import States, compute_log_odds
from waltz.models.encoders.vqa import find_outputs, read_answer_vocabulary

MATCH = 1
"""Index of a match in the head's output; transformers' documentation names the other index."""
FEATURE_WIDTH_KEY = "visual_feat_dim"
"""Config key of the number of features per region."""


@dataclass(frozen=True)
class Lxmert(RegionEncoder):
    """A loaded LXMERT; see `encoder.Encoder`."""

    images_per_batch: int = 64
    texts_per_batch: int = 64
    pairs_per_batch: int = 64

    def encode_image(self, images: torch.Tensor) -> States:
        """Return states of the regions after the object-relation layers."""
        encoder = self.network.lxmert.encoder
        features, boxes = self.provider.compute_regions(images)
        states = encoder.visn_fc(
            features.to(self.network.dtype), boxes.to(self.network.dtype)
        )
        for layer in encoder.r_layers:
            states = layer(states)[0]
        return (states,)

    def encode_text(self, ids: torch.Tensor) -> States:
        """Return states of the tokens after the language layers."""
        # All tokens belong to segment 0.
        states = self.network.lxmert.embeddings(ids, torch.zeros_like(ids))
        for layer in self.network.lxmert.encoder.layer:
            states = layer(states)[0]
        return (states,)

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return log odds of a match."""
        return compute_log_odds(self.compute_match_logits(text, image), MATCH)

    def compute_match_logits(self, text: States, image: States) -> torch.Tensor:
        """Return the logits of a mismatch and of a match, of shape (batch, 2)."""
        logits: torch.Tensor = self.network.cls.seq_relationship(
            self.compute_pooled_state(text, image)
        )
        return logits

    def compute_pooled_state(self, text: States, image: States) -> torch.Tensor:
        """Return the pooled state after the cross layers, of shape (batch, width)."""
        tokens, regions = text[0], image[0]
        # Tan and Bansal, LXMERT, section 2.2: each stream attends to the other, then to itself.
        for layer in self.network.lxmert.encoder.x_layers:
            tokens, regions = layer(tokens, None, regions, None)[:2]
        state: torch.Tensor = self.network.lxmert.pooler(tokens)
        return state


@dataclass(frozen=True, kw_only=True)
class LxmertAnswering(Lxmert):
    """A loaded LXMERT for questions; see `vqa.AnsweringEncoder`.

    Attributes:
        answers: The answer of each output.
        outputs: Outputs of the head that are used; all by default.
    """

    answers: tuple[str, ...]
    outputs: list[int] | EllipsisType = ...
    probability: bool = False

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return logits of the answers: float32 of shape (batch, answers)."""
        logits: torch.Tensor = self.network.answer_head(
            self.compute_pooled_state(text, image)
        ).float()
        return logits[:, self.outputs]

    def limit_answers(self, answers: Sequence[str]) -> "LxmertAnswering":
        """Return the encoder with some of its answers; see `vqa.AnsweringEncoder`."""
        outputs = find_outputs(self.answers, answers)
        return replace(self, answers=tuple(answers), outputs=outputs)


def load_lxmert(spec: ModelSpec, device: Device) -> Lxmert:
    """Load an LXMERT with its pre-training heads by hub id or folder."""
    fields = load_region_encoder(
        spec,
        device,
        transformers.LxmertForPreTraining,
        "matching head",
        FEATURE_WIDTH_KEY,
    )
    return Lxmert(**fields)


def load_lxmert_answering(spec: ModelSpec, device: Device) -> LxmertAnswering:
    """Load an LXMERT with its answering head by hub id or folder."""
    fields = load_region_encoder(
        spec,
        device,
        transformers.LxmertForQuestionAnswering,
        "answering head",
        FEATURE_WIDTH_KEY,
    )
    answers = read_answer_vocabulary(spec, fields["network"].config.num_qa_labels)
    return LxmertAnswering(**fields, answers=answers)
