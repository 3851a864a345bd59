"""Recipe and model card of each scene model."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from tools.train_scene_models import STARTS, decoder, examples, patches, text, vision
from tools.train_scene_models.loop import TrainedModel
from waltz.core.files.atomic import write_text
from waltz.core.measure import Measure
from waltz.models.training import ReportLoss, Training
from waltz.scenes.language.acceptability import draw_judged_sentences
from waltz.scenes.language.entailment import draw_inferences
from waltz.scenes.model_scores import is_sufficient, measure_model
from waltz.scenes.sampling import create_generator, draw_scenes


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
    "masked-lm": Recipe(
        "SpanBERT's and BERT's place in proposals, GRUEN's likelihood", 9000, 2600, 101
    ),
    "acceptability": Recipe("GRUEN's CoLA classifier", 9000, 2400, 102),
    "nli": Recipe("the NLI filter", 7000, 1800, 103),
    "causal-lm": Recipe("text-only baseline", 9000, 900, 104),
    "clip": Recipe("encoder, contrastive", 14000, 2400, 105),
    "matcher": Recipe("encoder with a matching head", 7000, 1000, 106),
    "llava": Recipe("decoder", 9000, 2700, 107),
}

TEXT_TRAINERS: dict[str, tuple[Callable[..., Any], Callable[..., TrainedModel]]] = {
    "masked-lm": (examples.draw_sentences, text.train_masked_lm),
    "acceptability": (draw_judged_sentences, text.train_acceptability),
    "nli": (draw_inferences, text.train_nli),
    "causal-lm": (examples.draw_sentences, text.train_causal_lm),
}


def build_model(
    name: str, start: Path | None, folder: Path, seed: int, held_out: int
) -> None:
    """Train a model from scratch, measure it on held-out scenes, and write it with its card.

    Args:
        name: One of `RECIPES`.
        start: Folder of the trained model that `STARTS` names, if it names one.
        folder: Folder to write, in transformers format.
        seed: Seed of the held-out scenes.
        held_out: Number of the held-out scenes.
    """

    def log_loss(step: int, loss: float) -> None:
        if step % 100 == 0:
            logging.info("step %d: loss %.3f", step, loss)

    begun = time.process_time()
    network, words = train_model(name, start, log_loss)
    seconds = time.process_time() - begun
    save_model(network, words, folder)
    parameters = sum(weights.numel() for weights in network.parameters())
    scores = measure_model(name, folder, seed, held_out)
    write_text(
        folder / "README.md",
        render_card(name, type(network).__name__, parameters, seconds, scores, seed),
    )


def train_model(name: str, start: Path | None, report: ReportLoss) -> TrainedModel:
    """Train a network with its tokenizer or processor; `name` and `start` as of `build_model`."""
    recipe = RECIPES[name]
    training = Training(recipe.seed, recipe.steps, report)
    graphs = draw_scenes(recipe.scenes, recipe.seed, "training")
    scenes = [(graph, create_generator(name, recipe.seed, graph)) for graph in graphs]
    if name in TEXT_TRAINERS:
        draw_examples, train = TEXT_TRAINERS[name]
        return train(
            [example for graph, rng in scenes for example in draw_examples(graph, rng)],
            training,
        )

    pixels, labels = patches.render_pixels(graphs), patches.label_patches(graphs)
    if name == "llava":
        turns = [
            examples.draw_turns(graph, rng) + examples.draw_presence_turns(graph, rng)
            for graph, rng in scenes
        ]
        return decoder.train_llava(_load_tower(start), pixels, turns, labels, training)
    pairs = [examples.draw_example(graph, rng) for graph, rng in scenes]
    if name == "clip":
        return vision.train_clip(pixels, pairs, labels, training)
    return vision.train_matcher(_load_tower(start), pixels, pairs, labels, training)


def _load_tower(start: Path | None) -> Any:
    return transformers.CLIPVisionModel.from_pretrained(start, dtype=torch.float32)


def save_model(network: Any, words: Any, folder: Path) -> None:
    """Write half-precision weights with config and tokenizer or processor, in transformers format."""
    if "vision_config" in network.config.sub_configs:
        network.config.vision_config._name_or_path = (
            ""  # the folder of the model that it started from
        )
    network.to(torch.float16).save_pretrained(folder)
    words.save_pretrained(folder)


def render_card(
    name: str,
    architecture: str,
    parameters: int,
    seconds: float,
    scores: Mapping[str, Measure],
    seed: int,
) -> str:
    """Render a Markdown card: the model, its training (seconds of CPU time), and its scores on
    held-out scenes.
    """
    recipe = RECIPES[name]
    start = ""
    if name in STARTS:
        start = f"goes on from `{STARTS[name]}`; "
    lines = [
        f"# {name}",
        "",
        f"{architecture}, {parameters:,} parameters, half precision; stands for {recipe.role}.",
        "",
        f"- {start}trained on {recipe.scenes:,} drawn scenes of seed {recipe.seed}, {recipe.steps:,} steps;"
        f" {seconds / 60:.1f} minutes of one CPU core",
        "- trained by `python -m tools.train_scene_models`; license MIT",
        "- knows the world of the scenes, and nothing else",
        "",
        f"Held-out scenes (seed {seed}):",
        "",
        "| score | value | n | enough |",
        "|---|---|---|---|",
    ]
    for metric, measure in scores.items():
        enough = {True: "yes", False: "no", None: ""}[
            is_sufficient(name, metric, measure.value)
        ]
        lines.append(f"| {metric} | {measure.value:.3f} | {measure.n} | {enough} |")
    return "\n".join(lines) + "\n"
