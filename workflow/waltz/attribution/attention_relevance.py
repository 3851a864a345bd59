"""CLIP's attention relevance: tokens and patches weighted by attention and its gradient.

Shown with Shapley values in figures B.9 and B.10 of the thesis. Relevance has no sign: it shows
where the model attends, but not whether that raises or lowers the score, nor how much each modality
contributes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True, eq=False)
class ClipRelevance:
    """Hold the attention relevance of tokens and patches for one score of CLIP.

    Attributes:
        tokens: Relevance of each token to the vector of the text, float64 of shape (length,), at
            least 0.
        patches: Relevance of each of the network's own patches to the vector of the image, float64
            of shape (rows, columns), at least 0.
    """

    tokens: np.ndarray
    patches: np.ndarray


def compute_clip_relevance(
    network: Any, ids: torch.Tensor, image: torch.Tensor
) -> ClipRelevance:
    """Compute the relevance of tokens and patches for CLIP's `logits_per_image`.

    In each tower, relevance starts as the identity and is propagated through all layers. The result
    is the row of the position whose state becomes the tower's vector: the class token of the image,
    the end token of the text. The initial 1 in that position's own column is subtracted.

    Args:
        network: A transformers `CLIPModel` in evaluation mode.
        ids: Token ids, int64 of shape (length,).
        image: The prepared image, of shape (3, height, width).
    Source:
        Chefer, Gur and Wolf, Generic Attention-model Explainability (ICCV 2021), equations 1, 5 and
        6, for an encoder of each modality (their section on CLIP takes the score of one pair).
    """
    implementations = {
        "": network.config._attn_implementation,
        "text_config": network.config.text_config._attn_implementation,
        "vision_config": network.config.vision_config._attn_implementation,
    }
    frozen = [weights for weights in network.parameters() if not weights.requires_grad]
    for weights in frozen:
        # Attention maps have gradients only if the weights before them require gradients.
        weights.requires_grad_(True)
    # Only eager attention returns the maps; the other implementations never form them.
    network.set_attn_implementation("eager")
    try:
        with torch.enable_grad():
            output = network(
                input_ids=ids[None].to(network.device),
                pixel_values=image[None].to(network.device, network.dtype),
                output_attentions=True,
            )
            towers = (
                output.text_model_output.attentions,
                output.vision_model_output.attentions,
            )
            gradients = torch.autograd.grad(
                output.logits_per_image[0, 0],
                [layer for tower in towers for layer in tower],
            )
    finally:
        network.set_attn_implementation(implementations)
        for weights in frozen:
            weights.requires_grad_(False)
    # autograd returns the gradients of both towers in one list: text first. Index [0] takes the
    # only item of the batch.
    layers = len(towers[0])
    text = propagate_relevance(
        [layer[0] for layer in towers[0]], [layer[0] for layer in gradients[:layers]]
    )
    image_relevance = propagate_relevance(
        [layer[0] for layer in towers[1]], [layer[0] for layer in gradients[layers:]]
    )
    # The relevance of the end token to itself begins with the 1 of the identity, which does not
    # come from attention.
    pooled = _find_pooled_position(network.config.text_config.eos_token_id, ids)
    tokens = text[pooled].clone()
    tokens[pooled] -= 1
    # Row 0 belongs to the class token. Its own column is skipped; the other columns are the
    # patches, row by row.
    patch_size = network.config.vision_config.patch_size
    patches = image_relevance[0, 1:].reshape(
        image.shape[-2] // patch_size, image.shape[-1] // patch_size
    )
    return ClipRelevance(tokens.cpu().numpy(), patches.cpu().numpy())


def propagate_relevance(
    maps: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor]
) -> torch.Tensor:
    """Compute how relevant each position is for each other position, through all layers of
    self-attention.

    The relevance R begins as the identity. Each layer then adds A R, where A is the mean over heads
    of the positive part of (gradient x attention).

    Args:
        maps: Attention of each layer, the first one first, each of shape (heads, positions,
            positions).
        gradients: Gradient of the score with respect to each of these maps.
    Returns:
        float64 of shape (positions, positions): one row per attending position, one column per
        attended position.
    """
    relevance = torch.eye(maps[0].shape[-1], dtype=torch.float64, device=maps[0].device)
    for attention, gradient in zip(maps, gradients, strict=True):
        # Chefer et al., equation 5: the mean over heads, of shape (positions, positions).
        positive = (
            (gradient.double() * attention.detach().double()).clamp(min=0).mean(dim=0)
        )
        # Chefer et al., equation 6.
        relevance = relevance + positive @ relevance
    return relevance


def _find_pooled_position(end: int, ids: torch.Tensor) -> int:
    """Return the position whose state becomes CLIP's text vector: the first end token.

    In old checkpoints, whose end id is 2, it is the position of the largest token id.
    """
    # Old configurations state the end id 2 by mistake; in their vocabulary the end token has the
    # largest id.
    if end == 2:
        return int(ids.argmax())
    return int((ids == end).int().argmax())
