"""ViLBERT: a text stream, an image stream, and co-attention layers in which they meet."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from waltz.models.networks.vilbert.config import VilbertConfig

EPSILON = 1e-12
"""Of every layer norm, inside the square root."""
ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {"gelu": functional.gelu, "relu": functional.relu}
Mask = torch.Tensor | None
"""Bias of attention scores, of shape (batch, 1, 1, keys); None if every key is visible."""


class Residual(nn.Module):
    """A linear layer whose output is added to the residual, then normalised."""

    def __init__(self, inner: int, width: int) -> None:
        """Create a layer from `inner` to `width` features."""
        super().__init__()
        self.dense = nn.Linear(inner, width)
        self.LayerNorm = nn.LayerNorm(width, EPSILON)

    def forward(self, states: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Return states of the width of the residual."""
        normed: torch.Tensor = self.LayerNorm(residual + self.dense(states))
        return normed


class Dense(nn.Module):
    """A linear layer and an activation under the release's names."""

    def __init__(self, inner: int, width: int, act: str) -> None:
        """Create a layer from `inner` to `width` features with an activation."""
        super().__init__()
        self.dense = nn.Linear(inner, width)
        self.act = ACTIVATIONS[act]

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return states of the new width."""
        return self.act(self.dense(states))


class StreamLayer(nn.Module):
    """Self-attention and MLP of one stream."""

    def __init__(self, width: int, heads: int, inner: int, act: str) -> None:
        """Create a layer with `heads` heads and an MLP of width `inner`."""
        super().__init__()
        self.heads = heads
        projections = {name: nn.Linear(width, width) for name in ("query", "key", "value")}
        self.attention: Any = nn.ModuleDict({"self": nn.ModuleDict(projections), "output": Residual(width, width)})
        self.intermediate = Dense(width, inner, act)
        self.output = Residual(inner, width)

    def forward(self, states: torch.Tensor, mask: Mask) -> torch.Tensor:
        """Return states of shape (batch, length, width)."""
        queries, keys, values = (self.attention["self"][name](states) for name in ("query", "key", "value"))
        states = self.attention["output"](compute_attention(queries, keys, values, self.heads, mask), states)
        outputs: torch.Tensor = self.output(self.intermediate(states), states)
        return outputs


class CoAttention(nn.Module):
    """Queries of each stream over keys and values of the other, both from the layer's input; then an MLP for each."""

    def __init__(self, config: VilbertConfig) -> None:
        """Create a layer between both streams; number 1 is the image, 2 the text."""
        super().__init__()
        self.heads = config.bi_num_attention_heads
        image, text, inner = config.v_hidden_size, config.hidden_size, config.bi_hidden_size
        self.biattention = nn.ModuleDict(
            {
                f"{name}{number}": nn.Linear(width, inner)
                for number, width in ((1, image), (2, text))
                for name in ("query", "key", "value")
            }
        )
        self.biOutput = nn.ModuleDict(
            {
                "dense1": nn.Linear(inner, image),
                "LayerNorm1": nn.LayerNorm(image, EPSILON),
                "dense2": nn.Linear(inner, text),
                "LayerNorm2": nn.LayerNorm(text, EPSILON),
            }
        )
        self.v_intermediate = Dense(image, config.v_intermediate_size, config.v_hidden_act)
        self.v_output = Residual(config.v_intermediate_size, image)
        self.t_intermediate = Dense(text, config.intermediate_size, config.hidden_act)
        self.t_output = Residual(config.intermediate_size, text)

    def forward(
        self, text: torch.Tensor, image: torch.Tensor, text_mask: Mask, image_mask: Mask
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return states of both streams, text first."""
        image_context = self._attend(2, text, 1, image, image_mask)
        text_context = self._attend(1, image, 2, text, text_mask)
        text, image = self._add_residual(2, text, image_context), self._add_residual(1, image, text_context)
        return self.t_output(self.t_intermediate(text), text), self.v_output(self.v_intermediate(image), image)

    def _attend(
        self,
        query_stream: int,
        query_states: torch.Tensor,
        context_stream: int,
        context_states: torch.Tensor,
        mask: Mask,
    ) -> torch.Tensor:
        parts = self.biattention
        queries, keys, values = (
            parts[f"query{query_stream}"](query_states),
            parts[f"key{context_stream}"](context_states),
            parts[f"value{context_stream}"](context_states),
        )
        return compute_attention(queries, keys, values, self.heads, mask)

    def _add_residual(self, stream: int, states: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        normed: torch.Tensor = self.biOutput[f"LayerNorm{stream}"](states + self.biOutput[f"dense{stream}"](context))
        return normed


def compute_attention(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, heads: int, mask: Mask
) -> torch.Tensor:
    """Return values weighted by softmax(q k / sqrt(size) + mask), per head: of shape (batch, queries, width)."""
    query_heads, key_heads, value_heads = (
        states.view(*states.shape[:2], heads, -1).transpose(1, 2) for states in (queries, keys, values)
    )
    context = functional.scaled_dot_product_attention(query_heads, key_heads, value_heads, attn_mask=mask)
    return context.transpose(1, 2).flatten(2)


MATCH = 0
"""Index of a match in the ITM head's output: 0 own caption, 1 random caption in training."""


class TextEmbeddings(nn.Module):
    """Embeddings of word, position and segment; for 12-in-1 a task's vector, without position and segment."""

    def __init__(self, config: VilbertConfig) -> None:
        """Create the tables."""
        super().__init__()
        width = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, width)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, EPSILON)
        if config.tasks:
            self.task_embeddings = nn.Embedding(config.tasks, width)

    def forward(self, ids: torch.Tensor, segments: torch.Tensor, tasks: torch.Tensor | None) -> torch.Tensor:
        """Return states of shape (batch, length, width), one longer with tasks: theirs is at position 1."""
        positions = torch.arange(ids.shape[1], device=ids.device)
        states = self.word_embeddings(ids) + self.position_embeddings(positions) + self.token_type_embeddings(segments)
        if tasks is not None:
            states = torch.cat([states[:, :1], self.task_embeddings(tasks)[:, None], states[:, 1:]], dim=1)
        normed: torch.Tensor = self.LayerNorm(states)
        return normed


class ImageEmbeddings(nn.Module):
    """Linear embeddings of a region's feature and location."""

    def __init__(self, config: VilbertConfig) -> None:
        """Create the linear maps."""
        super().__init__()
        self.image_embeddings = nn.Linear(config.v_feature_size, config.v_hidden_size)
        self.image_location_embeddings = nn.Linear(5, config.v_hidden_size)
        self.LayerNorm = nn.LayerNorm(config.v_hidden_size, EPSILON)

    def forward(self, features: torch.Tensor, locations: torch.Tensor) -> torch.Tensor:
        """Return states of shape (batch, regions, width)."""
        states: torch.Tensor = self.LayerNorm(
            self.image_embeddings(features) + self.image_location_embeddings(locations)
        )
        return states


class TwoStreams(nn.Module):
    """Both streams with the ITM head, and for 12-in-1 the retrieval head; parameters as the released files name them.

    `match_logits(fuse(encode_text(...), encode_image(...)))` is the forward pass.
    """

    def __init__(self, config: VilbertConfig) -> None:
        """Create a network, with task tokens and retrieval head if it has tasks."""
        super().__init__()
        self.config = config
        text = (config.hidden_size, config.num_attention_heads, config.intermediate_size, config.hidden_act)
        image = (config.v_hidden_size, config.v_num_attention_heads, config.v_intermediate_size, config.v_hidden_act)
        inner = config.bi_hidden_size
        stacks = {
            "layer": nn.ModuleList(StreamLayer(*text) for _ in range(config.num_hidden_layers)),
            "v_layer": nn.ModuleList(StreamLayer(*image) for _ in range(config.v_num_hidden_layers)),
            "c_layer": nn.ModuleList(CoAttention(config) for _ in config.v_biattention_id),
        }
        self.bert: Any = nn.ModuleDict(
            {
                "embeddings": TextEmbeddings(config),
                "v_embeddings": ImageEmbeddings(config),
                "encoder": nn.ModuleDict(stacks),
                "t_pooler": Dense(config.hidden_size, inner, "relu"),
                "v_pooler": Dense(config.v_hidden_size, inner, "relu"),
            }
        )
        self.cls: Any = nn.ModuleDict({"bi_seq_relationship": nn.Linear(inner, 2)})
        if config.tasks:
            self.vil_logit = nn.Linear(inner, 1)

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the weights."""
        dtype: torch.dtype = self.cls["bi_seq_relationship"].weight.dtype
        return dtype

    def encode_text(
        self,
        ids: torch.Tensor,
        segments: torch.Tensor | None = None,
        tasks: torch.Tensor | None = None,
        mask: Mask = None,
    ) -> torch.Tensor:
        """Return states of texts before the first co-attention.

        Args:
            ids: Word pieces, int64 of shape (batch, length).
            segments: Of the same shape; None for segment 0 throughout.
            tasks: Numbers of tasks, int64 of shape (batch,), for a network with task tokens.
            mask: From `build_padding_bias`, task token included.
        Returns:
            Of shape (batch, length, width); the length is one more with tasks.
        """
        states = self.bert["embeddings"](ids, torch.zeros_like(ids) if segments is None else segments, tasks)
        return self._apply_layers("layer", 0, states, mask)

    def encode_image(self, features: torch.Tensor, locations: torch.Tensor, mask: Mask = None) -> torch.Tensor:
        """Return states of regions before the first co-attention.

        Args:
            features: Of shape (batch, regions, v_feature_size); row 0 is the whole image.
            locations: Left, top, right, bottom and area as shares of the image, of shape (batch, regions, 5).
            mask: From `build_padding_bias`.
        Returns:
            Of shape (batch, regions, v_hidden_size).
        """
        return self._apply_layers("v_layer", 0, self.bert["v_embeddings"](features, locations), mask)

    def fuse(
        self, text: torch.Tensor, image: torch.Tensor, text_mask: Mask = None, image_mask: Mask = None
    ) -> torch.Tensor:
        """Return the joint vector of encoded texts and images, of shape (batch, bi_hidden_size)."""
        for number, co_attention in enumerate(self.bert["encoder"]["c_layer"]):
            text, image = co_attention(text, image, text_mask, image_mask)
            text = self._apply_layers("layer", number + 1, text, text_mask)
            image = self._apply_layers("v_layer", number + 1, image, image_mask)
        text_vector, image_vector = self.bert["t_pooler"](text[:, 0]), self.bert["v_pooler"](image[:, 0])
        joint: torch.Tensor = (
            text_vector * image_vector if self.config.fusion_method == "mul" else text_vector + image_vector
        )
        return joint

    def match_logits(self, joint: torch.Tensor) -> torch.Tensor:
        """Return both logits of the ITM head, of shape (batch, 2): match, then mismatch."""
        logits: torch.Tensor = self.cls["bi_seq_relationship"](joint)
        return logits

    def retrieval_logit(self, joint: torch.Tensor) -> torch.Tensor:
        """Return the logit of the retrieval head, of shape (batch, 1); it has no meaningful zero."""
        logit: torch.Tensor = self.vil_logit(joint)
        return logit

    def _apply_layers(self, stack: str, co_attentions: int, states: torch.Tensor, mask: Mask) -> torch.Tensor:
        """Return states after the layers of one stream between two co-attention layers."""
        config = self.config
        positions = config.t_biattention_id if stack == "layer" else config.v_biattention_id
        layers = self.bert["encoder"][stack]
        first, last = [0, *positions, len(layers)][co_attentions : co_attentions + 2]
        for layer in layers[first:last]:
            states = layer(states, mask)
        return states
