"""ALBEF's image encoder: a vision transformer with the norm before each part (Dosovitskiy et al., 2021)."""

from typing import Any

import torch
from torch import nn

from waltz.models.networks.albef.dimensions import VisionSize

EPSILON = 1e-6
"""Of the layer norms; the text side has another."""


class Attention(nn.Module):
    """Self-attention of one matrix for queries, keys and values."""

    def __init__(self, width: int, heads: int) -> None:
        """Lay out the weights."""
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """From shape (batch, positions, width) to the same."""
        batch, positions, width = states.shape
        parts = self.qkv(states).view(batch, positions, 3, self.heads, width // self.heads)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(queries, keys, values)
        found: torch.Tensor = self.proj(mixed.transpose(1, 2).reshape(batch, positions, width))
        return found


class Block(nn.Module):
    """Self-attention and a perceptron, each added to its input."""

    def __init__(self, size: VisionSize) -> None:
        """Lay out the weights."""
        super().__init__()
        self.norm1 = nn.LayerNorm(size.width, eps=EPSILON)
        self.attn = Attention(size.width, size.heads)
        self.norm2 = nn.LayerNorm(size.width, eps=EPSILON)
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(size.width, size.hidden), "fc2": nn.Linear(size.hidden, size.width)})

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """From shape (batch, positions, width) to the same."""
        states = states + self.attn(self.norm1(states))
        inner = nn.functional.gelu(self.mlp["fc1"](self.norm2(states)))
        found: torch.Tensor = states + self.mlp["fc2"](inner)
        return found


class Vision(nn.Module):
    """The image encoder; its parameters have the names of the release's `visual_encoder`."""

    def __init__(self, size: VisionSize) -> None:
        """Lay out the weights."""
        super().__init__()
        self.grid, self.patch = size.grid, size.patch
        self.cls_token = nn.Parameter(torch.zeros(1, 1, size.width))
        self.pos_embed = nn.Parameter(torch.zeros(1, size.grid**2 + 1, size.width))
        projection = nn.Conv2d(3, size.width, kernel_size=size.patch, stride=size.patch)
        self.patch_embed = nn.ModuleDict({"proj": projection})
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.depth))
        self.norm = nn.LayerNorm(size.width, eps=EPSILON)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """States of the image as a whole, then of its patches row by row.

        Args:
            images: Prepared images, of shape (batch, 3, side, side), the side a multiple of the patch's.
        Returns:
            Of shape (batch, 1 + patches, width).
        """
        patches = self.patch_embed["proj"](images)
        grid = patches.shape[-1]
        whole = self.cls_token.expand(len(images), -1, -1)
        states = torch.cat([whole, patches.flatten(2).transpose(1, 2)], dim=1)
        states = states + resized(self.pos_embed, self.grid, grid)
        for block in self.blocks:
            states = block(states)
        found: torch.Tensor = self.norm(states)
        return found


def resized(positions: torch.Tensor, old: int, new: int) -> torch.Tensor:
    """Position vectors for another grid: that of the whole image is kept, the others are interpolated bicubically.

    Args:
        positions: Of shape (1, 1 + old ** 2, width).
        old: Patches a side that they are for.
        new: Patches a side that are wanted.
    Returns:
        Of shape (1, 1 + new ** 2, width).
    """
    if old == new:
        return positions
    laid: Any = positions[:, 1:].float().reshape(1, old, old, -1).permute(0, 3, 1, 2)
    laid = nn.functional.interpolate(laid, size=(new, new), mode="bicubic", align_corners=False)
    return torch.cat([positions[:, :1], laid.flatten(2).transpose(1, 2).to(positions.dtype)], dim=1)
