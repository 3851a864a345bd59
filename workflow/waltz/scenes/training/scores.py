"""Scores of the scene models on held-out scenes, and their model cards."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
import transformers
from scipy.stats import rankdata

from waltz.core.intervals import Measure, Resampling, compute_mean
from waltz.scenes.drawing.draw import render_scene
from waltz.scenes.language.captions import draw_captions
from waltz.scenes.language.foils import PIECES, draw_foils
from waltz.scenes.language.questions import draw_questions
from waltz.scenes.training import STARTS, decoder, text
from waltz.scenes.training.data import create_generator, draw_inferences, draw_judged_sentences
from waltz.scenes.training.recipes import RECIPES
from waltz.scenes.world.graph import Graph
from waltz.scenes.world.lexicon import read_verbs
from waltz.scenes.world.sampling import draw_scenes

RESAMPLES, CONFIDENCE = 1000, 0.95
PREPOSITIONS = frozenset(["on", "under", "in", "behind", "front", "next", "over", "at"])
CANDIDATES = 20
"""Number of captions in a retrieval trial."""
BATCH = 50

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
    words = forms | PREPOSITIONS
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
    for first in range(0, len(texts), BATCH):
        batch = text.encode(tokenizer, texts[first : first + BATCH])
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
    return torch.cat([compute(trials[first : first + BATCH]) for first in range(0, len(trials), BATCH)])


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
