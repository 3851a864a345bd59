"""ViLBERT and 12-in-1: text layers, image layers, and co-attention layers between both.

ViLBERT is scored by its ITM head. 12-in-1 is scored by its retrieval head, which ranks four
candidates by softmax: its logit has no meaningful zero. Kind `vilbert-12in1-itm` reads the ITM head
that 12-in-1 keeps from pre-training, although its multi-task run put no loss on it.
"""

from dataclasses import dataclass

import torch

from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.model_registry import VILBERT_DETECTOR_KIND, ModelSpec
from waltz.models import checkpoint_file
from waltz.models.encoders.base import (
    Fields,
    RegionEncoder,
    build_provider_fields,
    load_bert_tokenizer,
)
from waltz.models.encoders.encoder import States, compute_log_odds
from waltz.models.networks.vilbert import MATCH, load_two_streams
from waltz.models.networks.vilbert_detector import DETECTOR_NAME
from waltz.models.regions import load_region_provider

RETRIEVAL_TASK = 7
"""Number of the task of retrieval on COCO; retrieval on Flickr30k has the number 8."""


@dataclass(frozen=True)
class Vilbert(RegionEncoder):
    """A loaded ViLBERT; see `encoder.Encoder`.

    Its regions follow a row for the whole image with the mean of their features. If stored regions
    are players, a hidden region keeps its location and has the feature 0, as the model represents a
    missing region. The first row keeps the mean of all regions, as in training: it is not a player,
    and its contribution is part of the base value.

    Texts are read up to the last position; the release cuts them at 30 to 36 tokens.

    Attributes:
        task: Number of the task whose token is inserted after the first; None for a network without
            task tokens.
    """

    images_per_batch: int = 64
    texts_per_batch: int = 128
    pairs_per_batch: int = 32
    task: int | None = None

    def encode_image(self, images: torch.Tensor) -> States:
        """Return states of the regions before the first co-attention; no released model has an
        image layer there.
        """
        features, boxes = self.provider.compute_regions(images)
        # Lu et al., ViLBERT: a location is four coordinates and the share of the image's area.
        areas = (boxes[..., 2:] - boxes[..., :2]).prod(dim=-1, keepdim=True)
        locations = torch.cat([boxes, areas], dim=-1)
        dtype = self.network.dtype
        return (self.network.encode_image(features.to(dtype), locations.to(dtype)),)

    def encode_text(self, ids: torch.Tensor) -> States:
        """Return states of the tokens after the text layers before the first co-attention."""
        tasks = None
        if self.task is not None:
            tasks = torch.full((len(ids),), self.task, device=ids.device)
        return (self.network.encode_text(ids, tasks=tasks),)

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return log odds of a match."""
        joint = self.network.fuse(text[0], image[0])
        return compute_log_odds(self.network.compute_match_logits(joint), MATCH)


@dataclass(frozen=True, kw_only=True)
class Vilbert12in1(Vilbert):
    """A loaded 12-in-1, whose logit ranks pairs but does not give log odds; see `Vilbert`."""

    probability: bool = False

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return the retrieval head's logit."""
        joint = self.network.fuse(text[0], image[0])
        logit: torch.Tensor = self.network.compute_retrieval_logit(joint)[:, 0].float()
        return logit


def load_vilbert(spec: ModelSpec, device: Device) -> Vilbert:
    """Load a ViLBERT from its original checkpoint file, or from a folder or hub id with one file."""
    return Vilbert(**_load_fields(spec, device, task=None))


def load_vilbert_12in1(spec: ModelSpec, device: Device) -> Vilbert12in1:
    """Load a 12-in-1 from its original checkpoint file, or from a folder or hub id with one file."""
    return Vilbert12in1(**_load_fields(spec, device, task=RETRIEVAL_TASK))


def load_vilbert_12in1_itm(spec: ModelSpec, device: Device) -> Vilbert:
    """Load a 12-in-1 as `load_vilbert_12in1` does, scored by its ITM head."""
    return Vilbert(**_load_fields(spec, device, task=RETRIEVAL_TASK))


def _load_fields(spec: ModelSpec, device: Device, task: int | None) -> Fields:
    """Return the fields of `Vilbert` that a checkpoint determines; the release's JSON may be next
    to it.
    """
    file = checkpoint_file.find_checkpoint_file(spec)
    dtype = getattr(torch, spec.dtype)
    network = load_two_streams(
        file,
        checkpoint_file.read_configured_settings(spec),
        task is not None,
        spec.name,
        dtype,
        spec.allow_missing,
    )
    config, tokenizer = network.config, load_bert_tokenizer(spec, file.parent)
    # A network of fewer tasks has no token of this number.
    if task is not None and task >= config.tasks:
        raise UserError(
            f"models.{spec.name}: {file} knows {config.tasks} tasks, none of number {task}; name a 12-in-1"
        )
    # Ids beyond the embeddings would fail only when a rare word is read.
    if len(tokenizer) > config.vocab_size:
        raise UserError(
            f"models.{spec.name}: {file} knows {config.vocab_size} word pieces, its tokenizer {len(tokenizer)}; put its"
            " own tokenizer next to it"
        )
    provider = load_region_provider(
        spec,
        config.v_feature_size,
        device.name,
        VILBERT_DETECTOR_KIND,
        DETECTOR_NAME,
        whole_image=True,
    )
    return {
        "spec": spec,
        "device": device.name,
        "network": network.to(device.name),
        "tokenizer": tokenizer,
        "max_tokens": config.max_position_embeddings,
        "task": task,
        **build_provider_fields(provider),
    }
