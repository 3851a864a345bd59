"""Layers of ALBEF: the text encoder and the image encoder.

The text encoder has BERT layers with post-norm; the later ones attend to a context. Layers before `fusion` depend on
the text alone, so a text passes them once, whatever images it is paired with. The image encoder is a vision transformer
with pre-norm (Dosovitskiy et al., 2021).
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from waltz.models.networks.albef.sizes import TextSize, VisionSize

PADDING_BIAS = -10000.0
"""Bias of the attention scores of padding; finite, as in the release."""


class TextAttention(nn.Module):
    """Attention of states to a context, added to the states and normalised."""

    def __init__(self, size: TextSize, context: int) -> None:
        """Create the weights, for a context of the given width."""
        super().__init__()
        self.heads = size.heads
        self.self = nn.ModuleDict(
            {
                "query": nn.Linear(size.width, size.width),
                "key": nn.Linear(context, size.width),
                "value": nn.Linear(context, size.width),
            }
        )
        self.output = _build_residual(size.width, size)

    def forward(self, states: torch.Tensor, context: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """Return the states after attention to the context.

        Args:
            states: Of shape (batch, tokens, width).
            context: Of shape (batch, positions, its width).
            bias: Added to the scores, to be broadcast to (batch, heads, tokens, positions).
        Returns:
            Of shape (batch, tokens, width).
        """
        queries = self._by_head(self.self["query"](states))
        keys, values = (self._by_head(self.self[name](context)) for name in ("key", "value"))
        mixed = nn.functional.scaled_dot_product_attention(queries, keys, values, attn_mask=bias)
        mixed = mixed.transpose(1, 2).reshape(states.shape)
        normed: torch.Tensor = self.output["LayerNorm"](states + self.output["dense"](mixed))
        return normed

    def _by_head(self, states: torch.Tensor) -> torch.Tensor:
        """Return states as (batch, heads, positions, width of a head)."""
        batch, positions, width = states.shape
        return states.view(batch, positions, self.heads, width // self.heads).transpose(1, 2)


class TextLayer(nn.Module):
    """Attention to the text, to the context if the layer attends to one, and a perceptron."""

    def __init__(self, size: TextSize, has_context: bool) -> None:
        """Create the weights."""
        super().__init__()
        self.attention = TextAttention(size, size.width)
        if has_context:
            self.crossattention = TextAttention(size, size.context)
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(size.width, size.hidden)})
        self.output = _build_residual(size.hidden, size)

    def forward(
        self,
        queries: torch.Tensor,
        states: torch.Tensor,
        context: torch.Tensor | None = None,
        bias: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return states of some tokens after the layer.

        Args:
            queries: The tokens wanted, of shape (batch, wanted, width).
            states: All tokens, of shape (batch, tokens, width).
            context: The context, of shape (batch, positions, its width).
            bias: Added to the scores of attention to the text.
        Returns:
            Of shape (batch, count, width).
        """
        attended: torch.Tensor = self.attention(queries, states, bias)
        if context is not None:
            attended = self.crossattention(attended, context)
        inner = nn.functional.gelu(self.intermediate["dense"](attended))
        attended = self.output["LayerNorm"](attended + self.output["dense"](inner))
        return attended


class TextLayers(nn.Module):
    """Layers under the name that they have in the release's files."""

    def __init__(self, layers: Iterable[TextLayer]) -> None:
        """Store the layers."""
        super().__init__()
        self.layer = nn.ModuleList(layers)


class TextEncoder(nn.Module):
    """A text encoder, or the body of a decoder; its parameters have the names of the release's `text_encoder`."""

    def __init__(self, size: TextSize) -> None:
        """Create the weights."""
        super().__init__()
        self.fusion, self.vocabulary, self.segments = size.fusion, size.vocabulary, size.segments
        self.embeddings = nn.ModuleDict(
            {
                "word_embeddings": nn.Embedding(size.vocabulary, size.width),
                "position_embeddings": nn.Embedding(size.positions, size.width),
                "token_type_embeddings": nn.Embedding(size.segments, size.width),
                "LayerNorm": nn.LayerNorm(size.width, eps=size.epsilon),
            }
        )
        self.encoder = TextLayers(TextLayer(size, number >= size.fusion) for number in range(size.depth))

    def embed(
        self, ids: torch.Tensor, positions: torch.Tensor | None = None, segments: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return states of tokens before the first layer.

        Args:
            ids: Of shape (batch, tokens).
            positions: Of shape (tokens,); counted from 0 unless given.
            segments: Of shape (batch, tokens); all 0 unless given.
        Returns:
            Of shape (batch, tokens, width).
        """
        tables = self.embeddings
        positions = torch.arange(ids.shape[1], device=ids.device) if positions is None else positions
        segments = torch.zeros_like(ids) if segments is None else segments
        states = tables["word_embeddings"](ids) + tables["token_type_embeddings"](segments)
        normed: torch.Tensor = tables["LayerNorm"](states + tables["position_embeddings"](positions))
        return normed

    def encode_text(
        self, ids: torch.Tensor, bias: torch.Tensor | None = None, segments: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return states of tokens after the layers that read only the text, of shape (batch, tokens, width)."""
        states = self.embed(ids, segments=segments)
        for layer in self.encoder.layer[: self.fusion]:
            states = layer(states, states, bias=bias)
        return states

    def fuse(
        self, states: torch.Tensor, context: torch.Tensor, bias: torch.Tensor | None = None, count: int | None = None
    ) -> torch.Tensor:
        """Return states of tokens after the layers that attend to a context.

        Args:
            states: Of shape (batch, tokens, width), after the layers before.
            context: Of shape (batch, positions, its width).
            bias: Added to the scores of attention to the text.
            count: Number of tokens, from the first, to return; all by default.
        Returns:
            Of shape (batch, count, width).
        """
        layers = self.encoder.layer[self.fusion :]
        for number, layer in enumerate(layers, start=1):
            # no later layer reads the states of the other tokens
            queries = states[:, :count] if number == len(layers) else states
            states = layer(queries, states, context, bias)
        return states


def build_padding_bias(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the bias of attention scores for a mask of tokens: from (batch, tokens) to (batch, 1, 1, tokens)."""
    return ((1 - mask.to(dtype)) * PADDING_BIAS)[:, None, None, :]


def _build_residual(width: int, size: TextSize) -> nn.ModuleDict:
    """Return a projection whose output is added to its layer's input, and the norm of the sum."""
    return nn.ModuleDict(
        {"dense": nn.Linear(width, size.width), "LayerNorm": nn.LayerNorm(size.width, eps=size.epsilon)}
    )


IMAGE_EPSILON = 1e-6
"""Epsilon of the image encoder's layer norms; the text encoder has another."""


class ImageAttention(nn.Module):
    """Self-attention with one matrix for queries, keys and values."""

    def __init__(self, width: int, heads: int) -> None:
        """Create the weights."""
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return states of the same shape (batch, positions, width)."""
        batch, positions, width = states.shape
        parts = self.qkv(states).view(batch, positions, 3, self.heads, width // self.heads)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(queries, keys, values)
        outputs: torch.Tensor = self.proj(mixed.transpose(1, 2).reshape(batch, positions, width))
        return outputs


class ImageBlock(nn.Module):
    """Self-attention and a perceptron, each added to its input."""

    def __init__(self, size: VisionSize) -> None:
        """Create the weights."""
        super().__init__()
        self.norm1 = nn.LayerNorm(size.width, eps=IMAGE_EPSILON)
        self.attn = ImageAttention(size.width, size.heads)
        self.norm2 = nn.LayerNorm(size.width, eps=IMAGE_EPSILON)
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(size.width, size.hidden), "fc2": nn.Linear(size.hidden, size.width)})

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return states of the same shape (batch, positions, width)."""
        states = states + self.attn(self.norm1(states))
        inner = nn.functional.gelu(self.mlp["fc1"](self.norm2(states)))
        outputs: torch.Tensor = states + self.mlp["fc2"](inner)
        return outputs


class ImageEncoder(nn.Module):
    """The image encoder; its parameters have the names of the release's `visual_encoder`."""

    def __init__(self, size: VisionSize) -> None:
        """Create the weights."""
        super().__init__()
        self.grid, self.patch = size.grid, size.patch
        self.cls_token = nn.Parameter(torch.zeros(1, 1, size.width))
        self.pos_embed = nn.Parameter(torch.zeros(1, size.grid**2 + 1, size.width))
        projection = nn.Conv2d(3, size.width, kernel_size=size.patch, stride=size.patch)
        self.patch_embed = nn.ModuleDict({"proj": projection})
        self.blocks = nn.ModuleList(ImageBlock(size) for _ in range(size.depth))
        self.norm = nn.LayerNorm(size.width, eps=IMAGE_EPSILON)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the state of the [CLS] token, then those of the patches, row by row.

        Args:
            images: Prepared images, of shape (batch, 3, side, side), the side a multiple of the patch's.
        Returns:
            Of shape (batch, 1 + patches, width).
        """
        patches = self.patch_embed["proj"](images)
        grid = patches.shape[-1]
        cls = self.cls_token.expand(len(images), -1, -1)
        states = torch.cat([cls, patches.flatten(2).transpose(1, 2)], dim=1)
        states = states + resize_positions(self.pos_embed, self.grid, grid)
        for block in self.blocks:
            states = block(states)
        normed: torch.Tensor = self.norm(states)
        return normed


def resize_positions(positions: torch.Tensor, old: int, new: int) -> torch.Tensor:
    """Return position vectors for another grid: that of [CLS] is kept, the others are interpolated bicubically.

    Args:
        positions: Of shape (1, 1 + old ** 2, width).
        old: Patches per side of the given vectors.
        new: Patches per side of the result.
    Returns:
        Of shape (1, 1 + new ** 2, width).
    """
    if old == new:
        return positions
    grid_vectors: Any = positions[:, 1:].float().reshape(1, old, old, -1).permute(0, 3, 1, 2)
    grid_vectors = nn.functional.interpolate(grid_vectors, size=(new, new), mode="bicubic", align_corners=False)
    return torch.cat([positions[:, :1], grid_vectors.flatten(2).transpose(1, 2).to(positions.dtype)], dim=1)
