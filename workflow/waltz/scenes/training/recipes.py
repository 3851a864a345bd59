"""Recipe of each model of the scenes: how many scenes it sees, for how many steps, from which seed and start."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from waltz.scenes.training import data, decoder, matching, text, vision
from waltz.scenes.training.loop import ReportLoss, TrainedModel
from waltz.scenes.training.patch_labels import label_patches


@dataclass(frozen=True)
class Recipe:
    """Settings that determine a model, apart from the code.

    Attributes:
        role: Model of the papers that it replaces.
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


def train_model(name: str, start: Path | None, report: ReportLoss) -> TrainedModel:
    """Train a network with its tokenizer or processor.

    Args:
        name: One of `RECIPES`.
        start: Folder of the trained model that `STARTS` names, where it names one.
        report: Called with step and loss.
    """
    recipe = RECIPES[name]
    graphs = data.draw_graphs(recipe.scenes, recipe.seed, "training")
    rngs = [data.create_generator(name, recipe.seed, graph) for graph in graphs]
    options: dict[str, Any] = {"seed": recipe.seed, "steps": recipe.steps, "report": report}
    if name in TEXT_TRAINERS:
        prepare, train = TEXT_TRAINERS[name]
        entries = [entry for graph, rng in zip(graphs, rngs, strict=True) for entry in prepare(graph, rng)]
        return train(entries, **options)
    pixels, labels = data.render_pixels(graphs), label_patches(graphs)
    if name == "llava":
        turns = [
            data.draw_turns(graph, rng) + data.draw_presence_turns(graph, rng)
            for graph, rng in zip(graphs, rngs, strict=True)
        ]
        return decoder.train_llava(_load_tower(start), pixels, turns, labels, **options)
    pairs = [data.draw_example(graph, rng) for graph, rng in zip(graphs, rngs, strict=True)]
    if name == "clip":
        return vision.train_clip(pixels, pairs, labels, **options)
    return matching.train_matcher(_load_tower(start), pixels, pairs, labels, **options)


def _load_tower(start: Path | None) -> Any:
    return transformers.CLIPVisionModel.from_pretrained(start, dtype=torch.float32)


TEXT_TRAINERS: dict[str, tuple[Callable[..., Any], Callable[..., TrainedModel]]] = {
    "masked-lm": (data.draw_sentences, text.train_masked_lm),
    "acceptability": (data.draw_judged_sentences, text.train_acceptability),
    "nli": (data.draw_inferences, text.train_nli),
    "causal-lm": (data.draw_sentences, text.train_causal_lm),
}


def save_model(network: Any, words: Any, folder: Path) -> None:
    """Write half-precision weights with config and tokenizer or processor, in transformers format."""
    if "vision_config" in network.config.sub_configs:
        network.config.vision_config._name_or_path = ""  # the folder of the model that it started from
    network.to(torch.float16).save_pretrained(folder)
    words.save_pretrained(folder)
