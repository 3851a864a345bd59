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
class Recipe:
    """All that decides a model, but for the code.

    Attributes:
        role: What it stands for.
        scenes: Training scenes seen.
        steps: Batches, over which the learning rate rises and falls once.
        seed: Seed of scenes, batches and weights.
    """

    role: str
    scenes: int
    steps: int
    seed: int


RECIPES = {
    "masked-lm": Recipe("SpanBERT's and BERT's place in proposals, GRUEN's likelihood", 9000, 2600, 101),
    "acceptability": Recipe("GRUEN's CoLA classifier", 9000, 2400, 102),
    "nli": Recipe("the NLI filter", 7000, 1800, 103),
    "causal-lm": Recipe("text-only baseline", 9000, 900, 104),
    "clip": Recipe("encoder, contrastive", 14000, 2400, 105),
    "matcher": Recipe("encoder with a matching head", 7000, 1000, 106),
    "llava": Recipe("decoder", 9000, 2700, 107),
}
"""By name."""


def train(name: str, start: Path | None, told: Told) -> tuple[Any, Any]:
    """A network with its tokenizer or processor.

    Args:
        name: One of `RECIPES`.
        start: Folder of the trained model that `STARTS` names, where it names one.
        told: Told step and loss.
    """
    recipe = RECIPES[name]
    graphs = data.graphs(recipe.scenes, recipe.seed, "training")
    rngs = [data.generator(name, recipe.seed, graph) for graph in graphs]
    how: dict[str, Any] = {"seed": recipe.seed, "steps": recipe.steps, "told": told}
    if name in TEXT:
        prepare, learn = TEXT[name]
        examples = [entry for graph, rng in zip(graphs, rngs, strict=True) for entry in prepare(graph, rng)]
        return learn(examples, **how)
    pixels, seen = data.pixels(graphs), sight(graphs)
    if name == "llava":
        turns = [data.turns(graph, rng) + data.presence(graph, rng) for graph, rng in zip(graphs, rngs, strict=True)]
        return decoder.llava(_tower(start), pixels, turns, seen, **how)
    pairs = [data.example(graph, rng) for graph, rng in zip(graphs, rngs, strict=True)]
    if name == "clip":
        return vision.clip(pixels, pairs, seen, **how)
    return matching.matcher(_tower(start), pixels, pairs, seen, **how)


def _tower(start: Path | None) -> Any:
    return transformers.CLIPVisionModel.from_pretrained(start, dtype=torch.float32)


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
