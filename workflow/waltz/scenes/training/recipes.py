"""How each model of the scenes is made: how many scenes it sees, for how many steps, from which seed and start."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from waltz.scenes.training import data, decoder, matching, text, vision
from waltz.scenes.training.sight import sight

Told = Callable[[int, float], object]


@dataclass(frozen=True)
class Cycle:
    """A rise and fall of the learning rate over scenes of its own.

    Attributes:
        scenes: Training scenes seen.
        steps: Batches.
        seed: Seed of scenes, batches, and weights where it is the first cycle.
    """

    scenes: int
    steps: int
    seed: int


@dataclass(frozen=True)
class Recipe:
    """All that decides a model, but for the code.

    Attributes:
        role: What it stands for.
        cycles: How it is trained; every cycle goes on from the one before, in half precision.
    """

    role: str
    cycles: tuple[Cycle, ...]

    @property
    def steps(self) -> int:
        """Batches of all cycles."""
        return sum(cycle.steps for cycle in self.cycles)


RECIPES = {
    "masked-lm": Recipe("SpanBERT's and BERT's place in proposals, GRUEN's likelihood", (Cycle(9000, 2600, 101),)),
    "acceptability": Recipe("GRUEN's CoLA classifier", (Cycle(9000, 2400, 102),)),
    "nli": Recipe("the NLI filter", (Cycle(7000, 1800, 103),)),
    "causal-lm": Recipe("text-only baseline", (Cycle(9000, 900, 104),)),
    "clip": Recipe("encoder, contrastive", (Cycle(14000, 2400, 105),)),
    "matcher": Recipe("encoder with a matching head", (Cycle(7000, 1000, 106),)),
    "llava": Recipe(
        "decoder", (Cycle(7000, 1200, 107), Cycle(5000, 560, 113), Cycle(6000, 1000, 114), Cycle(7000, 1000, 115))
    ),
}
"""By name."""


def train(name: str, start: Path | None, told: Told) -> tuple[Any, Any]:
    """A network with its tokenizer or processor.

    Args:
        name: One of `RECIPES`.
        start: Folder of the trained model that `STARTS` names, where it names one.
        told: Told step and loss.
    """
    made = None
    for cycle in RECIPES[name].cycles:
        network, words = _cycle(name, cycle, made, start, told)
        made = (network.to(torch.float16).to(torch.float32), words)
    assert made is not None
    return made


def _cycle(name: str, cycle: Cycle, made: tuple[Any, Any] | None, start: Path | None, told: Told) -> tuple[Any, Any]:
    graphs = data.graphs(cycle.scenes, cycle.seed, "training")
    how: dict[str, Any] = {"seed": cycle.seed, "steps": cycle.steps, "told": told}
    if name in TEXT:
        prepare, learn = TEXT[name]
        examples = [entry for graph in graphs for entry in prepare(graph, data.generator(name, cycle.seed, graph))]
        return learn(examples, **how)
    pixels = data.pixels(graphs)
    if name == "clip":
        pairs = [data.example(graph, data.generator(name, cycle.seed, graph)) for graph in graphs]
        return vision.clip(pixels, pairs, sight(graphs), start=made, **how)
    tower = transformers.CLIPVisionModel.from_pretrained(start, dtype=torch.float32)
    if name == "llava":
        rngs = [data.generator(name, cycle.seed, graph) for graph in graphs]
        turns = [data.turns(graph, rng) + data.presence(graph, rng) for graph, rng in zip(graphs, rngs, strict=True)]
        return decoder.llava(tower, pixels, turns, sight(graphs), start=made, **how)
    pairs = [data.example(graph, data.generator(name, cycle.seed, graph)) for graph in graphs]
    return matching.matcher(tower, pixels, pairs, sight(graphs), start=made, **how)


TEXT: dict[str, tuple[Callable[..., Any], Callable[..., tuple[Any, Any]]]] = {
    "masked-lm": (data.sentences, text.masked_lm),
    "acceptability": (data.judged, text.acceptability),
    "nli": (data.inferences, text.nli),
    "causal-lm": (data.sentences, text.causal_lm),
}


def save(network: Any, words: Any, folder: Path) -> None:
    """Half-precision safetensors with config and tokenizer or processor, in transformers format."""
    if "vision_config" in network.config.sub_configs:
        network.config.vision_config._name_or_path = ""  # the folder of the model that it started from
    network.to(torch.float16).save_pretrained(folder)
    words.save_pretrained(folder)
