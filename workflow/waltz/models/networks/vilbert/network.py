"""ViLBERT: a text stream, an image stream, and co-attention layers in which they meet."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from waltz.models.networks.vilbert.config import VilbertConfig

pass

EPSILON = 1e-12
"""Of every layer norm, inside the square root."""
ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {"gelu": functional.gelu, "relu": functional.relu}
Mask = torch.Tensor | None
"""What is added to attention scores, of shape (batch, 1, 1, keys); None where every key is seen."""


class Residual(nn.Module):
    """A linear layer whose result is added to what came before, then normalised."""

    def __init__(self, inner: int, width: int) -> None:
        """From `inner` to `width` numbers."""
        super().__init__()
        self.dense = nn.Linear(inner, width)
        self.LayerNorm = nn.LayerNorm(width, EPSILON)

    def forward(self, found: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        """States of the width of `before`."""
        states: torch.Tensor = self.LayerNorm(before + self.dense(found))
        return states


class Dense(nn.Module):
    """A linear layer under the name that it has in the files."""

    def __init__(self, inner: int, width: int, act: str) -> None:
        """From `inner` to `width` numbers and through an activation."""
        super().__init__()
        self.dense = nn.Linear(inner, width)
        self.act = ACTIVATIONS[act]

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """States of the new width."""
        return self.act(self.dense(states))


class StreamLayer(nn.Module):
    """Self-attention and MLP of one stream."""

    def __init__(self, width: int, heads: int, inner: int, act: str) -> None:
        """A layer of that width and so many heads, with an MLP of `inner`."""
        super().__init__()
        self.heads = heads
        read = {name: nn.Linear(width, width) for name in ("query", "key", "value")}
        self.attention: Any = nn.ModuleDict({"self": nn.ModuleDict(read), "output": Residual(width, width)})
        self.intermediate = Dense(width, inner, act)
        self.output = Residual(inner, width)

    def forward(self, states: torch.Tensor, mask: Mask) -> torch.Tensor:
        """States of shape (batch, length, width)."""
        asked, keys, values = (self.attention["self"][name](states) for name in ("query", "key", "value"))
        states = self.attention["output"](compute_attention(asked, keys, values, self.heads, mask), states)
        found: torch.Tensor = self.output(self.intermediate(states), states)
        return found


class CoAttention(nn.Module):
    """Each stream's queries over the other's keys and values, both from the layer's input; then an MLP for each."""

    def __init__(self, config: VilbertConfig) -> None:
        """A layer between streams of the config's widths; number 1 is the image, 2 the text."""
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
        """States of both streams, text first."""
        seen = self._asked(2, text, 1, image, image_mask)
        read = self._asked(1, image, 2, text, text_mask)
        text, image = self._added(2, text, seen), self._added(1, image, read)
        return self.t_output(self.t_intermediate(text), text), self.v_output(self.v_intermediate(image), image)

    def _asked(self, own: int, asking: torch.Tensor, other: int, asked: torch.Tensor, mask: Mask) -> torch.Tensor:
        parts = self.biattention
        queries, keys, values = parts[f"query{own}"](asking), parts[f"key{other}"](asked), parts[f"value{other}"](asked)
        return compute_attention(queries, keys, values, self.heads, mask)

    def _added(self, own: int, states: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        added: torch.Tensor = self.biOutput[f"LayerNorm{own}"](states + self.biOutput[f"dense{own}"](context))
        return added


def compute_attention(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, heads: int, mask: Mask
) -> torch.Tensor:
    """Values by softmax(q k / sqrt(size) + mask), head by head: of shape (batch, queries, width)."""
    asked, known, given = (
        states.view(*states.shape[:2], heads, -1).transpose(1, 2) for states in (queries, keys, values)
    )
    context = functional.scaled_dot_product_attention(asked, known, given, attn_mask=mask)
    return context.transpose(1, 2).flatten(2)


MATCH = 0
"""Index of a match in the ITM head's output: 0 own caption, 1 random caption in training."""
PADDING_BIAS = -10000.0
"""What is added to the attention score of a padded key."""


class TextEmbeddings(nn.Module):
    """Word, position and segment; for 12-in-1 a task's vector, which has neither position nor segment."""

    def __init__(self, config: VilbertConfig) -> None:
        """Tables of the config's sizes."""
        super().__init__()
        width = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, width)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, EPSILON)
        if config.tasks:
            self.task_embeddings = nn.Embedding(config.tasks, width)

    def forward(self, ids: torch.Tensor, segments: torch.Tensor, tasks: torch.Tensor | None) -> torch.Tensor:
        """States of shape (batch, length, width), one longer with tasks: theirs stands at position 1."""
        places = torch.arange(ids.shape[1], device=ids.device)
        states = self.word_embeddings(ids) + self.position_embeddings(places) + self.token_type_embeddings(segments)
        if tasks is not None:
            states = torch.cat([states[:, :1], self.task_embeddings(tasks)[:, None], states[:, 1:]], dim=1)
        normed: torch.Tensor = self.LayerNorm(states)
        return normed


class ImageEmbeddings(nn.Module):
    """Feature and location of a region, each by a linear map."""

    def __init__(self, config: VilbertConfig) -> None:
        """Maps of the config's sizes."""
        super().__init__()
        self.image_embeddings = nn.Linear(config.v_feature_size, config.v_hidden_size)
        self.image_location_embeddings = nn.Linear(5, config.v_hidden_size)
        self.LayerNorm = nn.LayerNorm(config.v_hidden_size, EPSILON)

    def forward(self, features: torch.Tensor, locations: torch.Tensor) -> torch.Tensor:
        """States of shape (batch, regions, width)."""
        states: torch.Tensor = self.LayerNorm(
            self.image_embeddings(features) + self.image_location_embeddings(locations)
        )
        return states


class TwoStreams(nn.Module):
    """Both streams with the ITM head, and for 12-in-1 the retrieval head; parameters as the released files name them.

    `match_logits(joint(read(...), see(...)))` is the forward pass.
    """

    def __init__(self, config: VilbertConfig) -> None:
        """A network of the config's sizes, with task tokens and retrieval head where it has tasks."""
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
        """States of texts before they first meet an image.

        Args:
            ids: Word pieces, int64 of shape (batch, length).
            segments: Of the same shape; None for segment 0 throughout.
            tasks: Numbers of tasks, int64 of shape (batch,), for a network with task tokens.
            mask: From `shade`, task token included.
        Returns:
            Of shape (batch, length, width); the length is one more with tasks.
        """
        states = self.bert["embeddings"](ids, torch.zeros_like(ids) if segments is None else segments, tasks)
        return self._through("layer", 0, states, mask)

    def encode_image(self, features: torch.Tensor, locations: torch.Tensor, mask: Mask = None) -> torch.Tensor:
        """States of regions before they first meet a text.

        Args:
            features: Of shape (batch, regions, v_feature_size); row 0 is the whole image.
            locations: Left, top, right, bottom and area as shares of the image, of shape (batch, regions, 5).
            mask: From `shade`.
        Returns:
            Of shape (batch, regions, v_hidden_size).
        """
        return self._through("v_layer", 0, self.bert["v_embeddings"](features, locations), mask)

    def fuse(
        self, text: torch.Tensor, image: torch.Tensor, text_mask: Mask = None, image_mask: Mask = None
    ) -> torch.Tensor:
        """The joint vector of texts that `read` read and images that `see` saw, of shape (batch, bi_hidden_size)."""
        for number, meet in enumerate(self.bert["encoder"]["c_layer"]):
            text, image = meet(text, image, text_mask, image_mask)
            text = self._through("layer", number + 1, text, text_mask)
            image = self._through("v_layer", number + 1, image, image_mask)
        said, seen = self.bert["t_pooler"](text[:, 0]), self.bert["v_pooler"](image[:, 0])
        joint: torch.Tensor = said * seen if self.config.fusion_method == "mul" else said + seen
        return joint

    def match_logits(self, joint: torch.Tensor) -> torch.Tensor:
        """Both logits of the ITM head, of shape (batch, 2): match, then mismatch."""
        logits: torch.Tensor = self.cls["bi_seq_relationship"](joint)
        return logits

    def retrieval_logit(self, joint: torch.Tensor) -> torch.Tensor:
        """The retrieval head's one number, of shape (batch, 1); it has no meaningful zero."""
        logit: torch.Tensor = self.vil_logit(joint)
        return logit

    def _through(self, stack: str, meetings: int, states: torch.Tensor, mask: Mask) -> torch.Tensor:
        """States after the layers of one stream that lie behind so many meetings and before the next."""
        config = self.config
        places = config.t_biattention_id if stack == "layer" else config.v_biattention_id
        layers = self.bert["encoder"][stack]
        first, last = [0, *places, len(layers)][meetings : meetings + 2]
        for layer in layers[first:last]:
            states = layer(states, mask)
        return states


def build_padding_bias(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What is added to attention scores: 0 where a key is seen, a large negative number where it is padding.

    Args:
        mask: 1 or 0 for each key, of shape (batch, keys).
        dtype: Precision of the network.
    Returns:
        Of shape (batch, 1, 1, keys).
    """
    return ((1.0 - mask.to(torch.float32)) * PADDING_BIAS).to(dtype)[:, None, None]
