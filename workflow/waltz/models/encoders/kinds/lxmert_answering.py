"""LXMERT by its answering head: logits of the answers in a vocabulary, for a question and an image."""

import json
from dataclasses import dataclass
from pathlib import Path

import huggingface_hub
import torch
import transformers

from waltz.core.devices import Device
from waltz.core.errors import UserError
from waltz.models.encoders.encoder import States
from waltz.models.encoders.inputs import on_regions
from waltz.models.encoders.kinds.lxmert import WIDTH, Lxmert
from waltz.models.registry import ModelSpec


@dataclass(frozen=True, kw_only=True)
class LxmertAnswering(Lxmert):
    """A loaded LXMERT for questions; see `answers.AnsweringEncoder`.

    Attributes:
        answers: The answer of each output.
    """

    answers: tuple[str, ...]
    probability: bool = False

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Logits of the answers: float32 of shape (batch, answers)."""
        logits: torch.Tensor = self.network.answer_head(self.pooled(text, image)).float()
        return logits


def load(spec: ModelSpec, device: Device) -> LxmertAnswering:
    """Load an LXMERT with its answering head by hub id or folder.

    Raises:
        UserError: The weights or answers cannot be had, or lack parameters of the network, or its regions are missing.
    """
    network, common = on_regions(spec, device, transformers.LxmertForQuestionAnswering, "answering head", WIDTH)
    longest, answers = network.config.max_position_embeddings, _answers(spec, network.config.num_qa_labels)
    return LxmertAnswering(**common, longest=longest, answers=answers)


def _answers(spec: ModelSpec, outputs: int) -> tuple[str, ...]:
    """The vocabulary: a JSON list in a file of its own, or in one beside the weights."""
    where = f"models.{spec.name}.answers: {spec.answers or 'missing'}"
    if not spec.answers:
        raise UserError(f"{where}: name a JSON list of the {outputs} answers, in the order of the head's outputs")
    beside = Path(spec.weights) / spec.answers
    try:
        if Path(spec.answers).is_file() or Path(spec.weights).is_dir():
            file = Path(spec.answers) if Path(spec.answers).is_file() else beside
        else:
            file = Path(huggingface_hub.hf_hub_download(spec.weights, spec.answers, revision=spec.revision))
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{where}: cannot be read ({str(error).splitlines()[0]}); name a JSON list") from None
    if not isinstance(found, list) or not all(isinstance(answer, str) for answer in found) or len(found) != outputs:
        raise UserError(f"{where}: is no list of the {outputs} answers that {spec.weights} chooses from")
    return tuple(found)
