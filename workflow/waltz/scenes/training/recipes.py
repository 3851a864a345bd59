"""Recipe, scores and model card of each scene model."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
import transformers
from scipy.stats import rankdata

from waltz.core.files.atomic import write_text
from waltz.core.intervals import Measure, Resampling, compute_mean
from waltz.scenes.drawing import render_scene
from waltz.scenes.graph import Graph
from waltz.scenes.language.captions import draw_captions
from waltz.scenes.language.entailment import LABELS
from waltz.scenes.language.foils import PIECES, Foil, draw_foils
from waltz.scenes.language.questions import draw_questions
from waltz.scenes.lexicon import read_verbs
from waltz.scenes.sampling import draw_scenes
from waltz.scenes.training import STARTS, decoder, examples, text, vision
from waltz.scenes.training.examples import create_generator
from waltz.scenes.training.loop import ReportLoss, TrainedModel, Training


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

TEXT_TRAINERS: dict[str, tuple[Callable[..., Any], Callable[..., TrainedModel]]] = {
    "masked-lm": (examples.draw_sentences, text.train_masked_lm),
    "acceptability": (examples.draw_judged_sentences, text.train_acceptability),
    "nli": (examples.draw_inferences, text.train_nli),
    "causal-lm": (examples.draw_sentences, text.train_causal_lm),
}


def build_model(name: str, start: Path | None, folder: Path, seed: int, held_out: int, report: ReportLoss) -> None:
    """Train a model from scratch, measure it on held-out scenes, and write it with its card.

    Args:
        name: One of `RECIPES`.
        start: Folder of the trained model that `STARTS` names, where it names one.
        folder: Folder to write, in transformers format.
        seed: Seed of the held-out scenes.
        held_out: Number of the held-out scenes.
        report: Called with step and loss.
    """

    def report_loss(step: int, loss: float) -> None:
        report(step, loss)
        if step % 100 == 0:
            logging.info("step %d: loss %.3f", step, loss)

    begun = time.process_time()
    network, words = train_model(name, start, report_loss)
    seconds = time.process_time() - begun
    save_model(network, words, folder)
    parameters = sum(weights.numel() for weights in network.parameters())
    scores = measure_model(name, folder, seed, held_out)
    write_text(folder / "README.md", render_card(name, type(network).__name__, parameters, seconds, scores, seed))


def train_model(name: str, start: Path | None, report: ReportLoss) -> TrainedModel:
    """Train a network with its tokenizer or processor; arguments as of `build_model`."""
    recipe = RECIPES[name]
    training = Training(recipe.seed, recipe.steps, report)
    graphs = draw_scenes(recipe.scenes, recipe.seed, "training")
    scenes = [(graph, create_generator(name, recipe.seed, graph)) for graph in graphs]
    if name in TEXT_TRAINERS:
        draw_examples, train = TEXT_TRAINERS[name]
        return train([example for graph, rng in scenes for example in draw_examples(graph, rng)], training)
    pixels, labels = examples.render_pixels(graphs), examples.label_patches(graphs)
    if name == "llava":
        turns = [examples.draw_turns(graph, rng) + examples.draw_presence_turns(graph, rng) for graph, rng in scenes]
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
        network.config.vision_config._name_or_path = ""  # the folder of the model that it started from
    network.to(torch.float16).save_pretrained(folder)
    words.save_pretrained(folder)


RESAMPLES, CONFIDENCE = 1000, 0.95
MASKED_PREPOSITIONS = frozenset(["on", "under", "in", "behind", "front", "next", "over", "at"])
CANDIDATES = 20
"""Number of captions in a retrieval trial."""
SCORED_BATCH = 50

Hits = dict[str, list[tuple[float, str]]]
"""Value and scene of each trial, by metric."""


def measure_model(name: str, folder: str | Path, seed: int, count: int) -> dict[str, Measure]:
    """Measure the scores of one model on held-out scenes.

    Returns:
        By metric; shares and AUROC between 0 and 1, perplexity per token.
    """
    graphs = draw_scenes(count, seed, "held-out")
    with torch.inference_mode():
        return SCORES[name](Path(folder), graphs, seed)


def measure_models(folders: Mapping[str, Path], seed: int, count: int) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of each model's scores (`SCENE_SCORES`); arguments as of `measure_model`, folders by name."""
    for name, folder in folders.items():
        yield [
            {"model": name, "metric": metric, **asdict(score), "enough": is_sufficient(name, metric, score.value)}
            for metric, score in measure_model(name, folder, seed, count).items()
        ]


def _load(model_class: Any, folder: Path) -> Any:
    return model_class.from_pretrained(folder, dtype=torch.float32).eval()


def _measure_masked_lm(folder: Path, graphs: Sequence[Graph], seed: int) -> dict[str, Measure]:
    network = _load(transformers.AutoModelForMaskedLM, folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    verb_forms = {form for verb in read_verbs().values() for form in (verb.name, verb.third, verb.base)}
    words = verb_forms | MASKED_PREPOSITIONS
    target_ids = {tokenizer.convert_tokens_to_ids(word) for word in words} - {tokenizer.unk_token_id}
    trials = []
    for graph in graphs:
        captions = draw_captions(graph, create_generator("mask", seed, graph))
        ids = tokenizer(create_generator("mask", seed, graph).choice(captions))["input_ids"]
        positions = [position for position, token in enumerate(ids) if token in target_ids]
        if positions:
            rows = torch.tensor([ids] * len(positions))
            answers = rows[0, positions]
            rows[torch.arange(len(positions)), positions] = tokenizer.mask_token_id
            logits = network(input_ids=rows).logits[torch.arange(len(positions)), positions]
            is_hit = (logits.topk(5).indices == answers[:, None]).any(dim=1)
            trials += [(float(hit), graph.id) for hit in is_hit]
    return _compute_means({"top-5 recall of a preposition or verb": trials}, seed)


def _measure_acceptability(folder: Path, graphs: Sequence[Graph], seed: int) -> dict[str, Measure]:
    pairs = [
        pair
        for graph in graphs
        for pair in examples.draw_judged_sentences(graph, create_generator("judged", seed, graph))
    ]
    logits = _compute_class_logits(folder, [sentence for sentence, _ in pairs])[:, 1]
    good = np.array([acceptable for _, acceptable in pairs])
    positives, negatives = int(good.sum()), int((~good).sum())
    auroc = (rankdata(logits.numpy())[good].sum() - positives * (positives + 1) / 2) / (positives * negatives)
    return {"AUROC against corrupted sentences": Measure(float(auroc), len(pairs))}


def _measure_nli(folder: Path, graphs: Sequence[Graph], seed: int) -> dict[str, Measure]:
    trials = [
        (*pair, graph.id)
        for graph in graphs
        for pair in examples.draw_inferences(graph, create_generator("nli", seed, graph))
    ]
    premises, hypotheses, labels, names = zip(*trials, strict=True)
    predictions = _compute_class_logits(folder, premises, hypotheses).argmax(dim=1).tolist()
    hits = [float(LABELS[index] == label) for index, label in zip(predictions, labels, strict=True)]
    return _compute_means({"accuracy": list(zip(hits, names, strict=True))}, seed)


def _compute_class_logits(folder: Path, *texts: Sequence[str]) -> torch.Tensor:
    """Compute a classifier's logits of texts, or of pairs of texts, of shape (texts, classes)."""
    network = _load(transformers.AutoModelForSequenceClassification, folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    logits = []
    for first in range(0, len(texts[0]), SCORED_BATCH):
        batch = text.encode(tokenizer, *(list(part[first : first + SCORED_BATCH]) for part in texts))
        logits.append(network(**batch).logits)
    return torch.cat(logits)


def _measure_causal_lm(folder: Path, graphs: Sequence[Graph], seed: int) -> dict[str, Measure]:
    network = _load(transformers.AutoModelForCausalLM, folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    generators = [create_generator("causal", seed, graph) for graph in graphs]
    texts = [caption for graph, rng in zip(graphs, generators, strict=True) for caption in draw_captions(graph, rng)]
    total, tokens = 0.0, 0
    for first in range(0, len(texts), SCORED_BATCH):
        batch = text.encode(tokenizer, texts[first : first + SCORED_BATCH])
        logp = torch.log_softmax(network(**batch).logits[:, :-1].double(), dim=-1)
        token_logp = logp.gather(2, batch["input_ids"][:, 1:, None])[..., 0]
        mask = batch["attention_mask"][:, 1:].bool()
        total, tokens = total - float(token_logp[mask].sum()), tokens + int(mask.sum())
    return {"perplexity": Measure(float(np.exp(total / tokens)), tokens)}


def _draw_foils_of(graphs: Sequence[Graph], seed: int) -> Iterator[tuple[Graph, Foil]]:
    for graph in graphs:
        yield from ((graph, foil) for foil in draw_foils(graph, create_generator("foils", seed, graph)))


def _measure_clip(folder: Path, graphs: Sequence[Graph], seed: int) -> dict[str, Measure]:
    network = _load(transformers.CLIPModel, folder)
    processor = transformers.AutoProcessor.from_pretrained(folder)

    def compute_logits(graph: Graph, texts: list[str]) -> torch.Tensor:
        batch = processor(images=render_scene(graph), text=texts, padding=True, truncation=True, return_tensors="pt")
        return network(**batch).logits_per_image[0]  # type: ignore[no-any-return]

    hits: Hits = {"retrieval among 20": []}
    captions = [
        create_generator("retrieval", seed, graph).choice(draw_captions(graph, Random(seed))) for graph in graphs
    ]
    for index, graph in enumerate(graphs):
        others = [caption for caption in captions[:index] + captions[index + 1 :] if caption != captions[index]]
        texts = [captions[index], *Random(f"{seed}:{graph.id}").sample(others, CANDIDATES - 1)]
        hits["retrieval among 20"].append((float(compute_logits(graph, texts).argmax() == 0), graph.id))
    for graph, foil in _draw_foils_of(graphs, seed):
        caption_logit, foil_logit = compute_logits(graph, [foil.caption, foil.foil]).tolist()
        hits.setdefault(f"acc_r {foil.piece}", []).append((float(caption_logit > foil_logit), graph.id))
    return _compute_means(hits, seed)


def _measure_matcher(folder: Path, graphs: Sequence[Graph], seed: int) -> dict[str, Measure]:
    network = _load(transformers.BlipForImageTextRetrieval, folder)
    processor = transformers.AutoProcessor.from_pretrained(folder)
    hits: Hits = {}
    for graph, foil in _draw_foils_of(graphs, seed):
        images, texts = [render_scene(graph)] * 2, [foil.caption, foil.foil]
        batch = processor(images=images, text=texts, padding=True, return_tensors="pt")
        match = torch.softmax(network(**batch, use_itm_head=True).itm_score, dim=1)[:, 1]
        accuracy = (float(match[0] >= 0.5) + float(match[1] < 0.5)) / 2
        hits.setdefault(f"acc {foil.piece}", []).append((accuracy, graph.id))
    return _compute_means(hits, seed)


def _measure_llava(folder: Path, graphs: Sequence[Graph], seed: int) -> dict[str, Measure]:
    network = _load(transformers.LlavaForConditionalGeneration, folder)
    processor = transformers.AutoProcessor.from_pretrained(folder)
    letters = processor.tokenizer.convert_tokens_to_ids(["A", "B"])
    hits: Hits = {}
    for graph in graphs:
        image, rng = render_scene(graph), create_generator("foils", seed, graph)
        for foil in draw_foils(graph, rng):
            prompt, answer = examples.draw_choice(foil, rng)
            batch = processor(images=image, text=decoder.render_prompt(prompt), return_tensors="pt")
            a, b = network(**batch).logits[0, -1, letters].tolist()
            hits.setdefault(f"pairwise {foil.piece}", []).append((float((a > b) == (answer == "A")), graph.id))
        for question in draw_questions(graph, rng, count=2):
            batch = processor(images=image, text=decoder.render_prompt(question.text), return_tensors="pt")
            ids = network.generate(**batch, max_new_tokens=8, do_sample=False)[0, batch["input_ids"].shape[1] :]
            answer = processor.tokenizer.decode(ids, skip_special_tokens=True).strip().rstrip(".").lower()
            hits.setdefault("simple questions", []).append((float(answer == question.answer.lower()), graph.id))
    measures = _compute_means(hits, seed)
    pairwise = [measures[f"pairwise {piece}"] for piece in PIECES]
    values = [entry.value for entry in pairwise if entry.value is not None]
    measures["pairwise average"] = Measure(float(np.mean(values)), sum(entry.n for entry in pairwise))
    return measures


SCORES: dict[str, Callable[[Path, Sequence[Graph], int], dict[str, Measure]]] = {
    "masked-lm": _measure_masked_lm,
    "acceptability": _measure_acceptability,
    "nli": _measure_nli,
    "causal-lm": _measure_causal_lm,
    "clip": _measure_clip,
    "matcher": _measure_matcher,
    "llava": _measure_llava,
}
"""Function that measures each model."""

MINIMUM_SCORES = {
    ("masked-lm", "top-5 recall of a preposition or verb"): 0.9,
    ("acceptability", "AUROC against corrupted sentences"): 0.95,
    ("nli", "accuracy"): 0.9,
    ("clip", "retrieval among 20"): 0.9,
    ("clip", "acc_r existence"): 0.9,
    ("clip", "acc_r object"): 0.9,
    ("clip", "acc_r count"): 0.75,
    ("matcher", "acc existence"): 0.8,
    ("llava", "pairwise existence"): 0.8,
    ("llava", "pairwise average"): 0.65,
}
"""Minimum scores of a model for the workflow."""
MAXIMUM_SCORES = {("causal-lm", "perplexity"): 6.0}
"""Maximum scores of a model for the workflow."""


def is_sufficient(name: str, metric: str, value: float | None) -> bool | None:
    """Decide whether a score meets its bound; None where it has no bound, or no value."""
    if value is None:
        return None
    if (name, metric) in MINIMUM_SCORES:
        return value >= MINIMUM_SCORES[name, metric]
    return value <= MAXIMUM_SCORES[name, metric] if (name, metric) in MAXIMUM_SCORES else None


def _compute_means(hits: Hits, seed: int) -> dict[str, Measure]:
    measures = {}
    for metric, trials in hits.items():
        values, names = [value for value, _ in trials], [name for _, name in trials]
        measures[metric] = compute_mean(values, names, metric, Resampling(RESAMPLES, CONFIDENCE, seed), (0.0, 1.0))
    return measures


def render_card(
    name: str, architecture: str, parameters: int, seconds: float, scores: Mapping[str, Measure], seed: int
) -> str:
    """Render a Markdown card: the model, its training (seconds of CPU time), and its scores on held-out scenes."""
    recipe = RECIPES[name]
    start = f"goes on from `{STARTS[name]}`; " if name in STARTS else ""
    lines = [
        f"# {name}",
        "",
        f"{architecture}, {parameters:,} parameters, half precision; stands for {recipe.role}.",
        "",
        f"- {start}trained on {recipe.scenes:,} drawn scenes of seed {recipe.seed}, {recipe.steps:,} steps;"
        f" {seconds / 60:.1f} minutes of one CPU core",
        "- made by `snakemake scene_models --cores 2 --config study=scenes`; licence MIT",
        "- knows the world of the scenes, and nothing else",
        "",
        f"Held-out scenes (seed {seed}):",
        "",
        "| score | value | n | enough |",
        "|---|---|---|---|",
    ]
    for metric, measure in scores.items():
        enough = {True: "yes", False: "no", None: ""}[is_sufficient(name, metric, measure.value)]
        lines.append(f"| {metric} | {measure.value:.3f} | {measure.n} | {enough} |")
    return "\n".join(lines) + "\n"
