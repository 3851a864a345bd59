"""CLIP's attention relevance: tokens and patches weighted by attention and its gradient.

Shown with Shapley values in figures B.9 and B.10 of the thesis. Relevance has no sign: it shows where the model
attends, but not whether that raises or lowers the score, nor how much each modality contributes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True, eq=False)
class ClipRelevance:
    """Relevance for one score of CLIP.

    Attributes:
        tokens: Relevance of each token to the vector of the text, float64 of shape (length,), at least 0.
        patches: Relevance of each of the network's own patches to the vector of the image, float64 of shape
            (rows, columns), at least 0.
    """

    tokens: np.ndarray
    patches: np.ndarray


def compute_clip_relevance(network: Any, ids: torch.Tensor, image: torch.Tensor) -> ClipRelevance:
    """Compute the relevance of tokens and patches for CLIP's `logits_per_image`.

    In each tower, relevance starts as the identity and is propagated through all layers. The result is the row of the
    position whose state becomes the tower's vector: the class token of the image, the end token of the text. The
    initial 1 in that position's own column is subtracted.

    Args:
        network: A transformers `CLIPModel` in evaluation mode.
        ids: Token ids, int64 of shape (length,).
        image: The prepared image, of shape (3, height, width).
    Source:
        Chefer, Gur and Wolf, Generic Attention-model Explainability (ICCV 2021), equations 1, 5 and 6, for an encoder
        of each modality (their section on CLIP takes the score of one pair).
    """
    implementations = {
        "": network.config._attn_implementation,
        "text_config": network.config.text_config._attn_implementation,
        "vision_config": network.config.vision_config._attn_implementation,
    }
    frozen = [weights for weights in network.parameters() if not weights.requires_grad]
    for weights in frozen:
        weights.requires_grad_(True)  # otherwise no map has a gradient
    network.set_attn_implementation("eager")  # the other implementations never form the maps
    try:
        with torch.enable_grad():
            output = network(
                input_ids=ids[None].to(network.device),
                pixel_values=image[None].to(network.device, network.dtype),
                output_attentions=True,
            )
            towers = (output.text_model_output.attentions, output.vision_model_output.attentions)
            gradients = torch.autograd.grad(
                output.logits_per_image[0, 0], [layer for tower in towers for layer in tower]
            )
    finally:
        network.set_attn_implementation(implementations)
        for weights in frozen:
            weights.requires_grad_(False)
    layers = len(towers[0])
    text = propagate_relevance([layer[0] for layer in towers[0]], [layer[0] for layer in gradients[:layers]])
    image_relevance = propagate_relevance([layer[0] for layer in towers[1]], [layer[0] for layer in gradients[layers:]])
    pooled = _find_pooled_position(network.config.text_config.eos_token_id, ids)
    tokens = text[pooled].clone()
    tokens[pooled] -= 1
    side = network.config.vision_config.patch_size
    patches = image_relevance[0, 1:].reshape(image.shape[-2] // side, image.shape[-1] // side)
    return ClipRelevance(tokens.cpu().numpy(), patches.cpu().numpy())


def propagate_relevance(maps: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor]) -> torch.Tensor:
    """Compute the relevance of each position for each other through layers of self-attention.

    R = I at first; each layer adds mean over heads of the positive part of (gradient x attention), times R.

    Args:
        maps: Attention of each layer, the first one first, each of shape (heads, positions, positions).
        gradients: Gradient of the score by each.
    Returns:
        float64 of shape (positions, positions): one row per attending position, one column per attended position.
    """
    relevance = torch.eye(maps[0].shape[-1], dtype=torch.float64, device=maps[0].device)
    for attention, gradient in zip(maps, gradients, strict=True):
        positive = (gradient.double() * attention.detach().double()).clamp(min=0).mean(dim=0)
        relevance = relevance + positive @ relevance
    return relevance


def _find_pooled_position(end: int, ids: torch.Tensor) -> int:
    """Return the position that CLIP pools at: the first end token, in old checkpoints (end id 2) the largest id."""
    return int(ids.argmax() if end == 2 else (ids == end).int().argmax())
