"""Encoders whose values can be worked out another way, and players for them."""

from dataclasses import dataclass, field

import torch

from stand_ins.gpu_memory import SimulatedMemory
from waltz.core.text_diff import Span
from waltz.model_registry import ModelSpec
from waltz.models.encoders.coalitions import (
    EncoderPlayers,
    build_equations_players,
    build_published_players,
)
from waltz.models.encoders.encoder import TokenizedText

SIDE = 12
MASKED = 1


@dataclass
class Toy:
    """Tokens and pixels through a random nonlinear map each: a dot product of unit vectors, or a
    map of both.

    `passes` counts the rows of each call of each side.
    """

    late: bool = True
    seed: int = 0
    width: int = 5
    scale: float = 7.0
    bias: float = 0.5
    probability: bool = False
    masked_id: int = MASKED
    device: str = "cpu"
    images_per_batch: int = 8
    texts_per_batch: int = 16
    pairs_per_batch: int = 32
    out_of_memory_above: int = 10**9
    memory: SimulatedMemory | None = None
    spec: ModelSpec = field(default_factory=lambda: ModelSpec("toy"))
    passes: dict[str, list[int]] = field(
        default_factory=lambda: {"see": [], "read": [], "fuse": []}
    )

    def __post_init__(self):
        draw = torch.Generator().manual_seed(self.seed)
        self.pixels = (
            torch.randn(
                3 * SIDE * SIDE, self.width, generator=draw, dtype=torch.float64
            )
            / 6
        )
        self.words = torch.randn(
            100, 80, self.width, generator=draw, dtype=torch.float64
        )
        self.shift = torch.randn(self.width, generator=draw, dtype=torch.float64)

    def _note(self, side, rows):
        self.passes[side].append(rows)
        if rows > self.out_of_memory_above:
            raise torch.OutOfMemoryError("toy")
        if self.memory is not None:
            self.memory.hold(rows)

    def encode_image(self, images):
        self._note("see", len(images))
        return (self._vector(images.double().reshape(len(images), -1) @ self.pixels),)

    def encode_text(self, ids):
        self._note("read", len(ids))
        return (
            self._vector(self.words[ids, torch.arange(ids.shape[1])].sum(dim=1) / 2),
        )

    def fuse(self, text, image):
        self._note("fuse", len(text[0]))
        dot = (text[0] * image[0]).sum(dim=-1)
        return self.scale * (dot if self.late else torch.sin(3 * dot)) + self.bias

    def _vector(self, features):
        return torch.nn.functional.normalize(torch.tanh(features + self.shift), dim=-1)


def text(*ids: int) -> TokenizedText:
    """A text of token ids of which the first and the last are special."""
    special = tuple(place in (0, len(ids) - 1) for place in range(len(ids)))
    return TokenizedText(
        ids, tuple(map(str, ids)), tuple(Span(start=0, end=0) for _ in ids), special
    )


def picture(seed: int = 0) -> torch.Tensor:
    return torch.randn(
        3,
        SIDE,
        SIDE,
        generator=torch.Generator().manual_seed(seed),
        dtype=torch.float64,
    )


def game(
    encoder, image: torch.Tensor, *ids: int, profile: str = "published"
) -> EncoderPlayers:
    return {"published": build_published_players, "equations": build_equations_players}[
        profile
    ](encoder, text(*ids), image)
