"""LXMERT by its answering head: logits of the answers in a vocabulary, for a question and an image."""

from dataclasses import dataclass

import torch
import transformers

from waltz.core.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.encoders.base import load_region_encoder
from waltz.models.encoders.encoder import States
from waltz.models.encoders.kinds.lxmert import FEATURE_WIDTH_KEY, Lxmert
from waltz.models.encoders.vqa import read_answer_vocabulary


@dataclass(frozen=True, kw_only=True)
class LxmertAnswering(Lxmert):
    """A loaded LXMERT for questions; see `vqa.AnsweringEncoder`.

    Attributes:
        answers: The answer of each output.
    """

    answers: tuple[str, ...]
    probability: bool = False

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return logits of the answers: float32 of shape (batch, answers)."""
        logits: torch.Tensor = self.network.answer_head(self.compute_pooled_state(text, image)).float()
        return logits


def load_lxmert_answering(spec: ModelSpec, device: Device) -> LxmertAnswering:
    """Load an LXMERT with its answering head by hub id or folder.

    Raises:
        UserError: The weights or answers cannot be had, or lack parameters of the network, or its regions are missing.
    """
    network, common = load_region_encoder(
        spec, device, transformers.LxmertForQuestionAnswering, "answering head", FEATURE_WIDTH_KEY
    )
    max_tokens, answers = (
        network.config.max_position_embeddings,
        read_answer_vocabulary(spec, network.config.num_qa_labels),
    )
    return LxmertAnswering(**common, max_tokens=max_tokens, answers=answers)
