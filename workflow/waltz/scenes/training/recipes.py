"""How each model of the scenes is made: how many scenes it sees, for how many steps, from which seed."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from waltz.scenes.training import data, decoder, text, vision

Told = Callable[[int, float], object]


@dataclass(frozen=True)
class Recipe:
    """All that decides a model, but for the code.

    Attributes:
        scenes: Training scenes seen.
        steps: Batches of a cycle.
        seed: Seed of scenes, weights and batches of the first cycle; the next has the next seed.
        role: What it stands for.
        cycles: How often the learning rate rises and falls, each time on new scenes.
    """

    scenes: int
    steps: int
    seed: int
    role: str
    cycles: int = 1


RECIPES = {
    "masked-lm": Recipe(9000, 2600, 101, "SpanBERT's and BERT's place in proposals, GRUEN's likelihood"),
    "acceptability": Recipe(9000, 900, 102, "GRUEN's CoLA classifier"),
    "nli": Recipe(7000, 1800, 103, "the NLI filter"),
    "causal-lm": Recipe(9000, 900, 104, "text-only baseline"),
    "tower": Recipe(9000, 1200, 105, "a CLIP half-way: what clip and llava start from"),
    "clip": Recipe(11000, 1300, 108, "encoder, contrastive", cycles=4),
    "matcher": Recipe(9000, 800, 106, "encoder with a matching head"),
    "llava": Recipe(9000, 1300, 107, "decoder", cycles=2),
}
"""By name. `clip` goes on from `tower`, `llava` starts from its vision half; the tower itself is not committed."""


def train(name: str, tower: Path | None, told: Told) -> tuple[Any, Any]:
    """A network with its tokenizer or processor.

    Args:
        name: One of `RECIPES`.
        tower: Folder of the trained tower, for `clip` and `llava`.
        told: Told step and loss.
    """
    recipe = RECIPES[name]
    made = None
    if name == "clip":
        assert tower is not None
        network = transformers.CLIPModel.from_pretrained(tower, dtype=torch.float32)
        made = (network, transformers.AutoProcessor.from_pretrained(tower))
    for seed in range(recipe.seed, recipe.seed + recipe.cycles):
        made = _cycle(name, recipe, seed, made, tower, told)
    assert made is not None
    return made


def _cycle(
    name: str, recipe: Recipe, seed: int, start: tuple[Any, Any] | None, tower: Path | None, told: Told
) -> tuple[Any, Any]:
    graphs = data.graphs(recipe.scenes, seed, "training")
    if name in TEXT:
        prepare, learn = TEXT[name]
        examples = [entry for graph in graphs for entry in prepare(graph, data.generator(name, seed, graph))]
        return learn(examples, seed=seed, steps=recipe.steps, told=told)
    pixels = data.pixels(graphs)
    if name == "llava":
        assert tower is not None
        eye = transformers.CLIPVisionModel.from_pretrained(tower, dtype=torch.float32)
        turns = [data.turns(graph, data.generator(name, seed, graph)) for graph in graphs]
        return decoder.llava(eye, pixels, turns, seed=seed, steps=recipe.steps, told=told, start=start)
    pairs = [data.example(graph, data.generator(name, seed, graph)) for graph in graphs]
    if name == "matcher":
        return vision.matcher(pixels, pairs, seed=seed, steps=recipe.steps, told=told)
    return vision.clip(pixels, pairs, seed=seed, steps=recipe.steps, told=told, start=start)


TEXT: dict[str, tuple[Callable[..., Any], Callable[..., tuple[Any, Any]]]] = {
    "masked-lm": (data.sentences, text.masked_lm),
    "acceptability": (data.judged, text.acceptability),
    "nli": (data.inferences, text.nli),
    "causal-lm": (data.sentences, text.causal_lm),
}


def save(network: Any, words: Any, folder: Path) -> None:
    """Half-precision safetensors with config and tokenizer or processor, in transformers format."""
    network.to(torch.float16).save_pretrained(folder)
    words.save_pretrained(folder)
