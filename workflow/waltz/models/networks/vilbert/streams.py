"""The layers of ViLBERT: those of one stream, and co-attention between both.

Parameters bear the names of the released files. All layers are post-norm.
"""

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
        states = self.attention["output"](attended(asked, keys, values, self.heads, mask), states)
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
        return attended(queries, keys, values, self.heads, mask)

    def _added(self, own: int, states: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        added: torch.Tensor = self.biOutput[f"LayerNorm{own}"](states + self.biOutput[f"dense{own}"](context))
        return added


def attended(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, heads: int, mask: Mask) -> torch.Tensor:
    """Values by softmax(q k / sqrt(size) + mask), head by head: of shape (batch, queries, width)."""
    asked, known, given = (
        states.view(*states.shape[:2], heads, -1).transpose(1, 2) for states in (queries, keys, values)
    )
    context = functional.scaled_dot_product_attention(asked, known, given, attn_mask=mask)
    return context.transpose(1, 2).flatten(2)
