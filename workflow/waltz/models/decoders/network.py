"""A causal network: one pass over some positions, given the keys and values of earlier positions."""

import inspect
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer

from waltz.core.errors import UserError, get_first_line
from waltz.models.pretrained import META

log = logging.getLogger(__name__)

States = tuple[tuple[torch.Tensor, torch.Tensor], ...]
"""Keys and values of each layer, of shape (rows, heads, positions, width)."""

PROBE_IDS = (3, 5, 4, 6, 3, 5)
"""Ids by which a network shows whether keys and values can be used again."""
FORWARD_ERRORS = (
    TypeError,
    ValueError,
    RuntimeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    StopIteration,
)
"""Errors of a forward pass that is called in a way that it does not know."""
PROBE_TOLERANCES = {torch.float32: 0.01, torch.float16: 0.1, torch.bfloat16: 0.4}
"""Highest difference, as a share of the spread of the logits, that still counts as the same, by the precision that a
network computes in, also with weights in 4 bits. The 30 layers of SmolLM2-135M differed by 0.0002 in single precision
and by 0.025 in half precision, on a CPU; bfloat16 has three bits fewer."""


@dataclass(frozen=True, eq=False)
class RowImage:
    """The image of one row of a pass.

    Attributes:
        features: What stands for the image: its embeddings, of shape (features, width), or its pixels for a network
            that reads images itself.
        positions: Positions among the ids of the row that it fills.
        inputs: Further arguments of the forward pass of a network that reads images itself.
    """

    features: torch.Tensor
    positions: Sequence[int]
    inputs: Mapping[str, torch.Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Network:
    """A causal network of transformers, in evaluation mode.

    Attributes:
        model: The network, whose logits are those of the next token.
        device: A torch device.
        argument_names: Names of the arguments of its `forward`.
        reuses_prefixes: Whether keys and values of a prefix can be used again; without it every row is read as a whole.
    """

    model: Any
    device: str
    argument_names: frozenset[str]
    reuses_prefixes: bool

    def embed(self, ids: torch.Tensor, images: Sequence[RowImage | None]) -> torch.Tensor:
        """Return embeddings of ids and images, of shape (rows, positions, width)."""
        embeddings: torch.Tensor = self.model.get_input_embeddings()(ids)
        for row, image in enumerate(images):
            if image is not None:
                embeddings[row, image.positions] = image.features.to(embeddings.dtype)
        return embeddings

    def compute_logits(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        past: States | None = None,
        last_count: int = 1,
        images: Sequence[RowImage | None] = (),
        visible: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, States]:
        """Compute the logits of some positions of rows of one length.

        Args:
            ids: int64 of shape (rows, positions).
            positions: Their positions: int64 of shape (rows, positions), or (axes, rows, positions).
            past: Keys and values of what stands before, of the same rows; they stay as they are.
            last_count: Number of last positions whose logits are wanted.
            images: The image of each row, where one stands among the ids; empty without any.
            visible: Which of all positions, those before included, are no padding; all where None.
        Returns:
            Logits of the token after each of the last positions, of shape (rows, last, vocabulary), and the keys and
            values of all positions so far.
        """
        before = past[0][0].shape[2] if past else 0
        if visible is None:
            visible = torch.ones((len(ids), before + ids.shape[1]), dtype=torch.int64, device=ids.device)
        inputs: dict[str, Any] = {"inputs_embeds": self.embed(ids, images)} if any(images) else {"input_ids": ids}
        options = {
            "attention_mask": visible,
            "position_ids": positions,
            "logits_to_keep": last_count,
            "past_key_values": build_cache(past) if self.reuses_prefixes else None,
            "use_cache": self.reuses_prefixes,
        }
        inputs |= {name: value for name, value in options.items() if name in self.argument_names}
        outputs = self.model(**inputs)
        states = (
            tuple((layer.keys, layer.values) for layer in inputs["past_key_values"].layers)
            if self.reuses_prefixes
            else ()
        )
        return outputs.logits[:, -last_count:], states


def get_argument_names(model: Any) -> frozenset[str]:
    """Return the names of the arguments that a forward pass takes, `use_cache` where it takes any."""
    parameters = inspect.signature(model.forward).parameters
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    return frozenset({*parameters, *(["use_cache"] if takes_any else [])})


def wrap_network(model: Any, device: str) -> Network:
    """Return a network that transformers has loaded, after testing whether keys and values can be reused.

    A network on the meta device has no values to test.

    Raises:
        UserError: A token's logits depend on tokens behind it, so that target tokens would give themselves away.
    """
    takes = get_argument_names(model)
    network = Network(model.eval(), device, takes, False)
    if device == META:
        return network
    if _uses_later_tokens(network):
        raise UserError(
            f"{type(model).__name__}: its tokens see those behind them; only causal networks can be explained"
        )
    if "past_key_values" not in takes:
        return network
    reusing = replace(network, reuses_prefixes=True)
    return reusing if _continues_prefixes(reusing, network) else network


def select_rows(states: States, rows: Sequence[int]) -> States:
    """Return keys and values of some rows, repeated where a row is named again."""
    if not states:
        return ()
    indices = torch.as_tensor(rows, device=states[0][0].device)
    return tuple((keys[indices], values[indices]) for keys, values in states)


def join_rows(parts: Sequence[States]) -> tuple[States, torch.Tensor]:
    """Join rows of different lengths into one batch, padded at the start.

    Returns:
        Their keys and values, each padded to its own longest, and which positions of the first layer are no padding,
        int64 of shape (rows, positions).
    """
    longest = max(states[0][0].shape[2] for states in parts)
    pads = [longest - states[0][0].shape[2] for states in parts]
    padded = tuple(
        tuple(_join_padded([states[layer][side] for states in parts]) for side in (0, 1))
        for layer in range(len(parts[0]))
    )
    visible = torch.cat(
        [
            (torch.arange(longest) >= pad).long().expand(states[0][0].shape[0], longest)
            for states, pad in zip(parts, pads, strict=True)
        ]
    )
    return tuple((keys, values) for keys, values in padded), visible.to(parts[0][0][0].device)


def _join_padded(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return rows of different lengths in one tensor, padded at the start."""
    longest = max(part.shape[2] for part in parts)
    return torch.cat([torch.nn.functional.pad(part, (0, 0, longest - part.shape[2], 0)) for part in parts])


def build_cache(past: States | None) -> DynamicCache:
    """Return keys and values as a cache of transformers."""
    cache = DynamicCache()
    for keys, values in past or ():
        layer = DynamicLayer()
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
        cache.layers.append(layer)
    return cache


@torch.inference_mode()
def _uses_later_tokens(network: Network) -> bool:
    """Return whether logits change with later tokens."""
    ids = torch.tensor([PROBE_IDS], device=network.device)
    positions = torch.arange(len(PROBE_IDS), device=network.device)[None]
    expected, _ = network.compute_logits(ids, positions, last_count=len(PROBE_IDS))
    logits, _ = network.compute_logits(ids[:, :-1], positions[:, :-1])
    return measure_difference(logits, expected[:, -2:-1]) > PROBE_TOLERANCES[network.model.dtype]


@torch.inference_mode()
def _continues_prefixes(reusing: Network, network: Network) -> bool:
    """Return whether reading in two parts, the first used twice, gives the logits of one pass."""
    ids = torch.tensor([PROBE_IDS], device=network.device)
    positions = torch.arange(len(PROBE_IDS), device=network.device)[None]
    half = len(PROBE_IDS) // 2
    expected, _ = network.compute_logits(ids, positions, last_count=half)
    try:
        _, states = reusing.compute_logits(ids[:, :half], positions[:, :half])
        prefix_states = select_rows(states, (0, 0))
        logits, _ = reusing.compute_logits(
            ids[:, half:].repeat(2, 1), positions[:, half:].repeat(2, 1), prefix_states, last_count=half
        )
    except FORWARD_ERRORS as error:
        log.info("%s reads whole rows only: %s", type(reusing.model).__name__, get_first_line(error))
        return False
    return measure_difference(logits, expected) <= PROBE_TOLERANCES[network.model.dtype]


def measure_difference(logits: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the highest difference of logits from those expected, as a share of the spread of those."""
    return float((logits.float() - expected.float()).abs().max() / expected.float().std())
