"""ViLT and VisualBERT, one transformer over the tokens and the patches or regions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import EllipsisType
from typing import Any

import torch
import transformers
from PIL import Image

from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.encoders.base import (
    Fields,
    PixelEncoder,
    RegionEncoder,
    load_pixel_encoder,
    load_region_encoder,
    widen_thin_image,
)
from waltz.models.encoders.encoder import States, compute_log_odds
from waltz.models.encoders.vqa import find_outputs, read_answer_vocabulary

MATCH = 0
"""Index of a match in the output of VisualBERT's head."""


@dataclass(frozen=True, kw_only=True)
class Vilt(PixelEncoder):
    """A loaded ViLT, whose logit ranks pairs but does not give log odds; see `encoder.Encoder`."""

    probability: bool = False
    images_per_batch: int = 32
    texts_per_batch: int = 128
    pairs_per_batch: int = 32

    def prepare_image(self, image: Image.Image) -> torch.Tensor:
        """Return the prepared image, with its aspect ratio; a very thin image is widened."""
        return super().prepare_image(widen_thin_image(image, self.processor))

    def encode_image(self, images: torch.Tensor) -> States:
        """Return embeddings of the patches in their order; transformers' forward pass shuffles
        them, without effect.
        """
        embeddings = self.network.vilt.embeddings
        patches = embeddings.patch_embeddings(images)
        # The learned positions of a square of patches, (1, width, rows, columns), resized to the
        # image's patches.
        rows = embeddings.config.image_size // embeddings.config.patch_size
        learned_positions = (
            embeddings.position_embeddings[:, 1:]
            .transpose(1, 2)
            .unflatten(2, (rows, rows))
        )
        positions = torch.nn.functional.interpolate(
            learned_positions,
            size=patches.shape[2:],
            mode="bilinear",
            align_corners=True,
        )
        # [CLS] keeps its position; (images, 1, width).
        first = (embeddings.cls_token + embeddings.position_embeddings[:, :1]).expand(
            len(images), -1, -1
        )
        states = torch.cat(
            [first, (patches + positions).flatten(2).transpose(1, 2)], dim=1
        )
        # Type 1 is the image, type 0 the text.
        return (states + embeddings.token_type_embeddings.weight[1],)

    def encode_text(self, ids: torch.Tensor) -> States:
        """Return embeddings of the tokens."""
        embeddings = self.network.vilt.embeddings
        return (
            embeddings.text_embeddings(input_ids=ids)
            + embeddings.token_type_embeddings.weight[0],
        )

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return the ranking head's logit."""
        state = self.compute_pooled_state(text, image)
        ranks: torch.Tensor = self.network.rank_output(state)[:, 0].float()
        return ranks

    def compute_pooled_state(self, text: States, image: States) -> torch.Tensor:
        """Return the pooled state of tokens and patches, of shape (batch, width)."""
        vilt = self.network.vilt
        states = vilt.layernorm(
            vilt.encoder(torch.cat([text[0], image[0]], dim=1)).last_hidden_state
        )
        state: torch.Tensor = vilt.pooler(states)
        return state


@dataclass(frozen=True, kw_only=True)
class ViltAnswering(Vilt):
    """A loaded ViLT for questions; see `vqa.AnsweringEncoder`.

    Attributes:
        answers: The answer of each output.
        outputs: Outputs of the head that are used; all by default.
    """

    answers: tuple[str, ...]
    outputs: list[int] | EllipsisType = ...

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return logits of the answers: float32 of shape (batch, answers)."""
        state = self.compute_pooled_state(text, image)
        logits: torch.Tensor = self.network.classifier(state).float()
        return logits[:, self.outputs]

    def limit_answers(self, answers: Sequence[str]) -> "ViltAnswering":
        """Return the encoder with some of its answers; see `vqa.AnsweringEncoder`."""
        outputs = find_outputs(self.answers, answers)
        return replace(self, answers=tuple(answers), outputs=outputs)


def load_vilt(spec: ModelSpec, device: Device) -> Vilt:
    """Load a ViLT for retrieval by hub id or folder."""
    return Vilt(
        **_load_vilt_fields(
            spec, device, transformers.ViltForImageAndTextRetrieval, "ranking head"
        )
    )


def load_vilt_answering(spec: ModelSpec, device: Device) -> ViltAnswering:
    """Load a ViLT for questions by hub id or folder; its config names the answers unless the entry
    does.
    """
    fields = _load_vilt_fields(
        spec, device, transformers.ViltForQuestionAnswering, "answering head"
    )
    config = fields["network"].config
    answers = tuple(config.id2label[index] for index in range(config.num_labels))
    if spec.answers:
        answers = read_answer_vocabulary(spec, config.num_labels)
    return ViltAnswering(**fields, answers=answers)


def _load_vilt_fields(
    spec: ModelSpec, device: Device, network_class: Any, head: str
) -> Fields:
    """Return the fields of a ViLT, which sees all patches of an image."""
    fields = load_pixel_encoder(spec, device, network_class, head)
    patches = fields["network"].config.max_image_length
    if patches > 0:
        raise UserError(
            f"models.{spec.name}: {spec.weights} looks at {patches} patches drawn at random;"
            " set max_image_length to -1 in its config.json"
        )
    return fields


@dataclass(frozen=True)
class VisualBert(RegionEncoder):
    """A loaded VisualBERT; see `encoder.Encoder`."""

    images_per_batch: int = 128
    texts_per_batch: int = 128
    pairs_per_batch: int = 32

    def encode_image(self, images: torch.Tensor) -> States:
        """Return features of the regions; boxes are not used."""
        return (self.provider.compute_regions(images)[0].to(self.network.dtype),)

    def encode_text(self, ids: torch.Tensor) -> States:
        """Return the ids unchanged, because a single stream has no separate text encoder."""
        return (ids,)

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return log odds of a match."""
        state = self.network.visual_bert(
            input_ids=text[0], visual_embeds=image[0]
        ).pooler_output
        return compute_log_odds(self.network.cls.seq_relationship(state), MATCH)


def load_visual_bert(spec: ModelSpec, device: Device) -> VisualBert:
    """Load a VisualBERT with its pre-training heads by hub id or folder."""
    fields = load_region_encoder(
        spec,
        device,
        transformers.VisualBertForPreTraining,
        "matching head",
        "visual_embedding_dim",
    )
    return VisualBert(**fields)
