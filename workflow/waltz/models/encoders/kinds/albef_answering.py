"""ALBEF by its text decoder: logarithms of the probabilities of the answers in a list, for a question and an image."""

from dataclasses import dataclass
from typing import Any

import torch

from waltz.core.devices import Device
from waltz.core.errors import UserError
from waltz.model_registry import ModelSpec
from waltz.models import checkpoint_file
from waltz.models.encoders.encoder import States
from waltz.models.encoders.kinds.albef import Albef, build_fields
from waltz.models.encoders.vqa import read_answer_vocabulary
from waltz.models.networks.albef.network import AnswerTrees, build_answer_trees, load_answering_network


@dataclass(frozen=True, kw_only=True)
class AlbefAnswering(Albef):
    """A loaded ALBEF for questions; see `vqa.AnsweringEncoder`.

    Attributes:
        answers: The answer of each output.
        answer_trees: The answers as prefix trees for the decoder.
    """

    answers: tuple[str, ...]
    answer_trees: tuple[AnswerTrees, ...]
    probability: bool = False
    pairs_per_batch: int = 4

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return logits of the answers: float32 of shape (batch, answers)."""
        question = self.network.text_encoder.fuse(text[0], image[0])
        logits: torch.Tensor = self.network.text_decoder(question, self.answer_trees)
        return logits


def load_albef_answering(spec: ModelSpec, device: Device) -> AlbefAnswering:
    """Load an ALBEF with its text decoder from a checkpoint file, or a folder or repository of one.

    Raises:
        UserError: The file, tokenizer or answers cannot be had, or its keys are not those of the network.
    """
    file = checkpoint_file.find_checkpoint_file(spec)
    network = load_answering_network(
        file, checkpoint_file.read_configured_settings(spec), spec.name, spec.allow_missing
    )
    loaded = build_fields(spec, device, file, network)
    answers = read_answer_vocabulary(spec)
    tokenizer = loaded["tokenizer"]
    ids = [_tokenize_answer(tokenizer, answer, loaded["max_tokens"], spec) for answer in answers]
    trees = build_answer_trees(ids, tokenizer.cls_token_id, tokenizer.sep_token_id, device.name)
    return AlbefAnswering(**loaded, answers=answers, answer_trees=tuple(trees))


def _tokenize_answer(tokenizer: Any, answer: str, max_tokens: int, spec: ModelSpec) -> list[int]:
    """Return token ids of an answer, without special tokens."""
    ids: list[int] = tokenizer(answer, add_special_tokens=False)["input_ids"]
    if not 0 < len(ids) < max_tokens:
        raise UserError(
            f"models.{spec.name}.answers: {answer!r}: unsupported length (got {len(ids)} tokens, expected 1 to"
            f" {max_tokens - 1}); remove it from the list"
        )
    return ids
