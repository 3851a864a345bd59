"""Recipe, scores and model card of each scene model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
import transformers
from scipy.stats import rankdata

from waltz.core.intervals import Measure, Resampling, compute_mean
from waltz.scenes.drawing import render_scene
from waltz.scenes.graph import Graph
from waltz.scenes.language.captions import draw_captions
from waltz.scenes.language.foils import PIECES, draw_foils
from waltz.scenes.language.questions import draw_questions
from waltz.scenes.lexicon import read_verbs
from waltz.scenes.sampling import draw_scenes
from waltz.scenes.training import STARTS, decoder, examples, text, vision
from waltz.scenes.training.examples import create_generator, draw_inferences, draw_judged_sentences, label_patches
from waltz.scenes.training.loop import ReportLoss, TrainedModel


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
    graphs = examples.draw_graphs(recipe.scenes, recipe.seed, "training")
    rngs = [examples.create_generator(name, recipe.seed, graph) for graph in graphs]
    options: dict[str, Any] = {"seed": recipe.seed, "steps": recipe.steps, "report": report}
    if name in TEXT_TRAINERS:
        prepare, train = TEXT_TRAINERS[name]
        entries = [entry for graph, rng in zip(graphs, rngs, strict=True) for entry in prepare(graph, rng)]
        return train(entries, **options)
    pixels, labels = examples.render_pixels(graphs), label_patches(graphs)
    if name == "llava":
        turns = [
            examples.draw_turns(graph, rng) + examples.draw_presence_turns(graph, rng)
            for graph, rng in zip(graphs, rngs, strict=True)
        ]
        return decoder.train_llava(_load_tower(start), pixels, turns, labels, **options)
    pairs = [examples.draw_example(graph, rng) for graph, rng in zip(graphs, rngs, strict=True)]
    if name == "clip":
        return vision.train_clip(pixels, pairs, labels, **options)
    return vision.train_matcher(_load_tower(start), pixels, pairs, labels, **options)


def _load_tower(start: Path | None) -> Any:
    return transformers.CLIPVisionModel.from_pretrained(start, dtype=torch.float32)


TEXT_TRAINERS: dict[str, tuple[Callable[..., Any], Callable[..., TrainedModel]]] = {
    "masked-lm": (examples.draw_sentences, text.train_masked_lm),
    "acceptability": (examples.draw_judged_sentences, text.train_acceptability),
    "nli": (examples.draw_inferences, text.train_nli),
    "causal-lm": (examples.draw_sentences, text.train_causal_lm),
}


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

    Args:
        name: One of `SCORES`.
        folder: The model in transformers format.
        seed: Seed of the held-out scenes.
        count: How many.
    Returns:
        By metric; shares and AUROC between 0 and 1, perplexity per token.
    """
    graphs = draw_scenes(count, seed, "held-out")
    with torch.inference_mode():
        return SCORES[name](Path(folder), graphs, seed)


def _measure_masked_lm(folder: Path, graphs: Sequence[Graph], seed: int) -> dict[str, Measure]:
    network = transformers.AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    forms = {form for verb in read_verbs().values() for form in (verb.name, verb.third, verb.base)}
    words = forms | MASKED_PREPOSITIONS
    target_ids = {tokenizer.convert_tokens_to_ids(word) for word in words} - {tokenizer.unk_token_id}
    hits: Hits = {"top-5 recall of a preposition or verb": []}
    for graph in graphs:
        ids = tokenizer(
            Random(f"mask:{seed}:{graph.id}").choice(draw_captions(graph, create_generator("mask", seed, graph)))
        )
        positions = [position for position, token in enumerate(ids["input_ids"]) if token in target_ids]
        if not positions:
            continue
        rows = torch.tensor([ids["input_ids"]] * len(positions))
        answers = rows[0, positions]
        rows[torch.arange(len(positions)), positions] = tokenizer.mask_token_id
        logits = network(input_ids=rows).logits[torch.arange(len(positions)), positions]
        hits_at_5 = (logits.topk(5).indices == answers[:, None]).any(dim=1)
        hits["top-5 recall of a preposition or verb"] += [(float(hit), graph.id) for hit in hits_at_5]
    return _compute_means(hits, seed)


def _measure_acceptability(folder: Path, graphs: Sequence[Graph], seed: int) -> dict[str, Measure]:
    network = transformers.AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    pairs = [pair for graph in graphs for pair in draw_judged_sentences(graph, create_generator("judged", seed, graph))]
    logits = _compute_in_batches(
        pairs, lambda part: network(**text.encode(tokenizer, [sentence for sentence, _ in part])).logits[:, 1]
    )
    good = np.array([acceptable for _, acceptable in pairs])
    ranks = rankdata(logits.numpy())
    positives, negatives = int(good.sum()), int((~good).sum())
    auroc = (ranks[good].sum() - positives * (positives + 1) / 2) / (positives * negatives)
    return {"AUROC against corrupted sentences": Measure(float(auroc), len(pairs))}


def _measure_nli(folder: Path, graphs: Sequence[Graph], seed: int) -> dict[str, Measure]:
    network = transformers.AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    label = network.config.label2id
    trials = [
        (*pair, graph.id) for graph in graphs for pair in draw_inferences(graph, create_generator("nli", seed, graph))
    ]
    predictions = _compute_in_batches(
        trials,
        lambda part: (
            network(**text.encode(tokenizer, [entry[0] for entry in part], [entry[1] for entry in part])).logits
        ),
    ).argmax(dim=1)
    hits = [
        (float(prediction == label[entry[2]]), entry[3])
        for prediction, entry in zip(predictions.tolist(), trials, strict=True)
    ]
    return _compute_means({"accuracy": hits}, seed)


def _measure_causal_lm(folder: Path, graphs: Sequence[Graph], seed: int) -> dict[str, Measure]:
    network = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = [caption for graph in graphs for caption in draw_captions(graph, create_generator("causal", seed, graph))]
    total, tokens = 0.0, 0
    for first in range(0, len(texts), SCORED_BATCH):
        batch = text.encode(tokenizer, texts[first : first + SCORED_BATCH])
        logp = torch.log_softmax(network(**batch).logits[:, :-1].double(), dim=-1)
        token_logp = logp.gather(2, batch["input_ids"][:, 1:, None])[..., 0]
        mask = batch["attention_mask"][:, 1:].bool()
        total, tokens = total - float(token_logp[mask].sum()), tokens + int(mask.sum())
    return {"perplexity": Measure(float(np.exp(total / tokens)), tokens)}


def _measure_clip(folder: Path, graphs: Sequence[Graph], seed: int) -> dict[str, Measure]:
    network = transformers.CLIPModel.from_pretrained(folder, dtype=torch.float32).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)

    def logits(graph: Graph, texts: list[str]) -> torch.Tensor:
        batch = processor(images=render_scene(graph), text=texts, padding=True, truncation=True, return_tensors="pt")
        values: torch.Tensor = network(**batch).logits_per_image[0]
        return values

    hits: Hits = {"retrieval among 20": []}
    captions = [
        create_generator("retrieval", seed, graph).choice(draw_captions(graph, Random(seed))) for graph in graphs
    ]
    for index, graph in enumerate(graphs):
        others = [caption for caption in captions[:index] + captions[index + 1 :] if caption != captions[index]]
        texts = [captions[index], *Random(f"{seed}:{graph.id}").sample(others, CANDIDATES - 1)]
        hits["retrieval among 20"].append((float(logits(graph, texts).argmax() == 0), graph.id))
        for foil in draw_foils(graph, create_generator("foils", seed, graph)):
            caption_logit, foil_logit = logits(graph, [foil.caption, foil.foil]).tolist()
            hits.setdefault(f"acc_r {foil.piece}", []).append((float(caption_logit > foil_logit), graph.id))
    return _compute_means(hits, seed)


def _measure_matcher(folder: Path, graphs: Sequence[Graph], seed: int) -> dict[str, Measure]:
    network = transformers.BlipForImageTextRetrieval.from_pretrained(folder, dtype=torch.float32).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)
    hits: Hits = {}
    for graph in graphs:
        for foil in draw_foils(graph, create_generator("foils", seed, graph)):
            batch = processor(
                images=[render_scene(graph)] * 2, text=[foil.caption, foil.foil], padding=True, return_tensors="pt"
            )
            match = torch.softmax(network(**batch, use_itm_head=True).itm_score, dim=1)[:, 1]
            accuracy = (float(match[0] >= 0.5) + float(match[1] < 0.5)) / 2
            hits.setdefault(f"acc {foil.piece}", []).append((accuracy, graph.id))
    return _compute_means(hits, seed)


def _measure_llava(folder: Path, graphs: Sequence[Graph], seed: int) -> dict[str, Measure]:
    network = transformers.LlavaForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)
    letters = [processor.tokenizer.convert_tokens_to_ids(letter) for letter in "AB"]
    hits: Hits = {}
    for graph in graphs:
        image, rng = render_scene(graph), create_generator("foils", seed, graph)
        for foil in draw_foils(graph, rng):
            first = rng.random() < 0.5
            pair = (foil.caption, foil.foil) if first else (foil.foil, foil.caption)
            prompt = f"Which sentence describes the image? A: {pair[0]} B: {pair[1]} Answer A or B."
            batch = processor(images=image, text=decoder.render_prompt(prompt), return_tensors="pt")
            a, b = network(**batch).logits[0, -1, letters].tolist()
            hits.setdefault(f"pairwise {foil.piece}", []).append((float((a > b) == first), graph.id))
        for question in draw_questions(graph, rng, count=2):
            batch = processor(images=image, text=decoder.render_prompt(question.text), return_tensors="pt")
            ids = network.generate(**batch, max_new_tokens=8, do_sample=False)[0, batch["input_ids"].shape[1] :]
            answer = processor.tokenizer.decode(ids, skip_special_tokens=True).strip().rstrip(".").lower()
            correct = float(answer == question.answer.strip().rstrip(".").lower())
            hits.setdefault("simple questions", []).append((correct, graph.id))
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


def is_sufficient(name: str, metric: str, value: float) -> bool | None:
    """Decide whether a score meets its bound; None where it has no bound."""
    if (name, metric) in MINIMUM_SCORES:
        return value >= MINIMUM_SCORES[name, metric]
    return value <= MAXIMUM_SCORES[name, metric] if (name, metric) in MAXIMUM_SCORES else None


def _compute_means(hits: Hits, seed: int) -> dict[str, Measure]:
    measures = {}
    for metric, trials in hits.items():
        values, names = [value for value, _ in trials], [name for _, name in trials]
        measures[metric] = compute_mean(values, names, metric, Resampling(RESAMPLES, CONFIDENCE, seed), (0.0, 1.0))
    return measures


def _compute_in_batches(trials: Sequence[Any], compute: Callable[[Sequence[Any]], torch.Tensor]) -> torch.Tensor:
    return torch.cat([compute(trials[first : first + SCORED_BATCH]) for first in range(0, len(trials), SCORED_BATCH)])


def render_card(
    name: str, architecture: str, parameters: int, seconds: float, scores: Mapping[str, Measure], seed: int
) -> str:
    """Render a Markdown card: the model, its training, and its scores on held-out scenes.

    Args:
        name: One of the scene models.
        architecture: Its transformers class.
        parameters: Number of its parameters.
        seconds: CPU time of the training; 0 where it is not known.
        scores: Its scores on held-out scenes.
        seed: Seed of these scenes.
    """
    recipe = RECIPES[name]
    lines = [
        f"# {name}",
        "",
        f"{architecture}, {parameters:,} parameters, half precision; stands for {recipe.role}.",
        "",
        "- "
        + (f"goes on from `{STARTS[name]}`; " if name in STARTS else "")
        + f"trained on {recipe.scenes:,} drawn scenes of seed "
        f"{recipe.seed}, {recipe.steps:,} steps" + (f"; {seconds / 60:.1f} minutes of one CPU core" if seconds else ""),
        "- made by `snakemake scene_models --cores 2 --config study=scenes`; licence MIT",
        "- knows the world of the scenes, and nothing else",
        "",
        f"Held-out scenes (seed {seed}):",
        "",
        "| score | value | n | enough |",
        "|---|---|---|---|",
    ]
    for metric, measure in scores.items():
        assert measure.value is not None
        enough = {True: "yes", False: "no", None: ""}[is_sufficient(name, metric, measure.value)]
        lines.append(f"| {metric} | {measure.value:.3f} | {measure.n} | {enough} |")
    return "\n".join(lines) + "\n"
