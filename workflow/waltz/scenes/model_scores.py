"""Measure the scene models on held-out scenes, and compare the scores with their bounds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
import transformers
from scipy.stats import rankdata

from waltz.core.intervals import Resampling, compute_mean
from waltz.core.measure import Measure
from waltz.core.schema import SceneScoreRecord
from waltz.scenes.drawing import render_scene
from waltz.scenes.graph import Graph
from waltz.scenes.language.acceptability import draw_judged_sentences
from waltz.scenes.language.captions import draw_captions
from waltz.scenes.language.entailment import LABELS, draw_inferences
from waltz.scenes.language.foils import PIECES, Foil, draw_choice, draw_foils
from waltz.scenes.language.questions import draw_scene_questions
from waltz.scenes.lexicon import exclude, read_scene_verbs
from waltz.scenes.sampling import create_generator, draw_scenes

RESAMPLES, CONFIDENCE = 1000, 0.95
MASKED_PREPOSITIONS = frozenset(
    ["on", "under", "in", "behind", "front", "next", "over", "at"]
)
TOP_TOKENS = 5
"""Number of likeliest tokens among which a masked word counts as recalled."""
CANDIDATES = 20
"""Number of captions in a retrieval trial."""
MATCH_THRESHOLD = 0.5
"""Probability of a match at and above which the matcher calls an image and a text matching."""
BATCH_SIZE = 50
"""Texts that are scored together."""
MAX_TEXT_TOKENS = 96
MAX_ANSWER_TOKENS = 8
IMAGE_TOKEN = "<image>"

Measures = dict[str, Measure]
"""Score by metric."""
Trials = dict[str, list[tuple[float, str]]]
"""Value and scene of each trial, by metric."""


def measure_models(
    folders: Mapping[str, Path], seed: int, count: int
) -> Iterator[list[SceneScoreRecord]]:
    """Yield the scores of each model; `folders` are by name of the model, the other arguments as in
    `measure_model`.
    """
    for name, folder in folders.items():
        records = []
        for metric, score in measure_model(name, folder, seed, count).items():
            is_enough = is_sufficient(name, metric, score.value)
            records.append(
                SceneScoreRecord(
                    model=name, metric=metric, measure=score, enough=is_enough
                )
            )
        yield records


def measure_model(name: str, folder: str | Path, seed: int, count: int) -> Measures:
    """Return the scores of one model on held-out scenes.

    Args:
        name: One of `SCORES`.
        folder: Folder of the model, in transformers format.
        seed: Seed of the held-out scenes.
        count: Number of the held-out scenes.
    Returns:
        By metric; shares and AUROC between 0 and 1, perplexity per token.
    """
    graphs = draw_scenes(count, seed, "held-out")
    with torch.inference_mode():
        return SCORES[name](Path(folder), graphs, seed)


def encode_texts(tokenizer: Any, *texts: list[str]) -> dict[str, torch.Tensor]:
    """Return texts, or pairs of texts, as a padded batch."""
    encoded = tokenizer(
        *texts,
        padding=True,
        truncation=True,
        max_length=MAX_TEXT_TOKENS,
        return_tensors="pt",
    )
    return {name: encoded[name] for name in tokenizer.model_input_names}


def render_llava_prompt(question: str) -> str:
    """Render the prompt of a question about an image, which LLaVA reads."""
    return f"USER: {IMAGE_TOKEN}\n{question} ASSISTANT:"


def _load(model_class: Any, folder: Path) -> Any:
    return model_class.from_pretrained(folder, dtype=torch.float32).eval()


def _measure_masked_lm(folder: Path, graphs: Sequence[Graph], seed: int) -> Measures:
    """Measure how often a masked verb or preposition of a caption is among the likeliest tokens."""
    network = _load(transformers.AutoModelForMaskedLM, folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    words = set(MASKED_PREPOSITIONS)
    for verb in read_scene_verbs().values():
        words |= {verb.name, verb.third, verb.base}
    target_ids = {tokenizer.convert_tokens_to_ids(word) for word in words} - {
        tokenizer.unk_token_id
    }

    trials = []
    for graph in graphs:
        captions = draw_captions(graph, create_generator("mask", seed, graph))
        ids = tokenizer(create_generator("mask", seed, graph).choice(captions))[
            "input_ids"
        ]
        positions = [
            position for position, token in enumerate(ids) if token in target_ids
        ]
        if not positions:
            continue
        # Row i is the caption with its i-th target masked: int64 of shape (targets, tokens).
        rows = torch.tensor([ids] * len(positions))
        row_indices = torch.arange(len(positions))
        answers = rows[0, positions]
        rows[row_indices, positions] = tokenizer.mask_token_id
        # (targets, vocabulary)
        logits = network(input_ids=rows).logits[row_indices, positions]
        is_hit = (logits.topk(TOP_TOKENS).indices == answers[:, None]).any(dim=1)
        trials += [(float(hit), graph.id) for hit in is_hit]
    return _compute_means({"top-5 recall of a preposition or verb": trials}, seed)


def _measure_acceptability(
    folder: Path, graphs: Sequence[Graph], seed: int
) -> Measures:
    """Measure the AUROC of the acceptability logit of acceptable against corrupted sentences."""
    sentences: list[str] = []
    judgments: list[bool] = []
    for graph in graphs:
        for sentence, acceptable in draw_judged_sentences(
            graph, create_generator("judged", seed, graph)
        ):
            sentences.append(sentence)
            judgments.append(acceptable)
    logits = _compute_class_logits(folder, sentences)[:, 1]
    is_acceptable = np.array(judgments)

    # AUROC is Mann-Whitney's U over the number of pairs; U is the rank sum less its smallest
    # possible value.
    positives, negatives = int(is_acceptable.sum()), int((~is_acceptable).sum())
    rank_sum = rankdata(logits.numpy())[is_acceptable].sum()
    auroc = (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)
    return {"AUROC against corrupted sentences": Measure(float(auroc), len(sentences))}


def _measure_nli(folder: Path, graphs: Sequence[Graph], seed: int) -> Measures:
    """Measure how often the classifier gives the label that the oracle gives."""
    premises, hypotheses, labels, scene_ids = [], [], [], []
    for graph in graphs:
        for premise, hypothesis, label in draw_inferences(
            graph, create_generator("nli", seed, graph)
        ):
            premises.append(premise)
            hypotheses.append(hypothesis)
            labels.append(label)
            scene_ids.append(graph.id)
    predictions = (
        _compute_class_logits(folder, premises, hypotheses).argmax(dim=1).tolist()
    )
    trials = []
    for prediction, label, scene_id in zip(predictions, labels, scene_ids, strict=True):
        is_right = LABELS[prediction] == label
        trials.append((float(is_right), scene_id))
    return _compute_means({"accuracy": trials}, seed)


def _compute_class_logits(folder: Path, *texts: Sequence[str]) -> torch.Tensor:
    """Compute a classifier's logits of texts, or of pairs of texts, of shape (texts, classes)."""
    network = _load(transformers.AutoModelForSequenceClassification, folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    logits = []
    for first in range(0, len(texts[0]), BATCH_SIZE):
        # One column of texts, or premises and hypotheses.
        columns = [list(column[first : first + BATCH_SIZE]) for column in texts]
        logits.append(network(**encode_texts(tokenizer, *columns)).logits)
    return torch.cat(logits)


def _measure_causal_lm(folder: Path, graphs: Sequence[Graph], seed: int) -> Measures:
    """Measure the perplexity of true captions: exp of the mean negative log-probability of a token."""
    network = _load(transformers.AutoModelForCausalLM, folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = []
    for graph in graphs:
        texts += draw_captions(graph, create_generator("causal", seed, graph))

    negative_logp, tokens = 0.0, 0
    for first in range(0, len(texts), BATCH_SIZE):
        batch = encode_texts(tokenizer, texts[first : first + BATCH_SIZE])
        # The logits at position t predict token t + 1: (texts, tokens - 1, vocabulary).
        logp = torch.log_softmax(network(**batch).logits[:, :-1].double(), dim=-1)
        token_logp = logp.gather(2, batch["input_ids"][:, 1:, None])[..., 0]
        is_token = batch["attention_mask"][:, 1:].bool()
        negative_logp -= float(token_logp[is_token].sum())
        tokens += int(is_token.sum())
    return {"perplexity": Measure(float(np.exp(negative_logp / tokens)), tokens)}


def _draw_foils_of(graphs: Sequence[Graph], seed: int) -> Iterator[tuple[Graph, Foil]]:
    """Yield each scene with each of its foils."""
    for graph in graphs:
        for foil in draw_foils(graph, create_generator("foils", seed, graph)):
            yield graph, foil


def _measure_clip(folder: Path, graphs: Sequence[Graph], seed: int) -> Measures:
    """Measure retrieval of the scene's caption among captions of other scenes, and acc_r of each
    piece.
    """
    network = _load(transformers.CLIPModel, folder)
    processor = transformers.AutoProcessor.from_pretrained(folder)

    def compute_logits(graph: Graph, texts: list[str]) -> torch.Tensor:
        batch = processor(
            images=render_scene(graph),
            text=texts,
            padding=True,
            truncation=True,
            return_tensors="pt",
        )
        return network(**batch).logits_per_image[0]  # type: ignore[no-any-return]

    trials: Trials = {"retrieval among 20": []}
    captions = []
    for graph in graphs:
        rng = create_generator("retrieval", seed, graph)
        captions.append(rng.choice(draw_captions(graph, Random(seed))))
    for graph, caption in zip(graphs, captions, strict=True):
        distractors = exclude(captions, caption)
        texts = [
            caption,
            *Random(f"{seed}:{graph.id}").sample(distractors, CANDIDATES - 1),
        ]
        # The scene's caption stands first; it is retrieved if its logit is the highest.
        is_first = compute_logits(graph, texts).argmax() == 0
        trials["retrieval among 20"].append((float(is_first), graph.id))
    for graph, foil in _draw_foils_of(graphs, seed):
        caption_logit, foil_logit = compute_logits(
            graph, [foil.caption, foil.foil]
        ).tolist()
        trials.setdefault(f"acc_r {foil.piece}", []).append(
            (float(caption_logit > foil_logit), graph.id)
        )
    return _compute_means(trials, seed)


def _measure_matcher(folder: Path, graphs: Sequence[Graph], seed: int) -> Measures:
    """Measure acc of each piece: the mean over captions called matching and foils called not
    matching.
    """
    network = _load(transformers.BlipForImageTextRetrieval, folder)
    processor = transformers.AutoProcessor.from_pretrained(folder)
    trials: Trials = {}
    for graph, foil in _draw_foils_of(graphs, seed):
        images, texts = [render_scene(graph)] * 2, [foil.caption, foil.foil]
        batch = processor(images=images, text=texts, padding=True, return_tensors="pt")
        # Column 1 is the probability that image and text match, shape (2,): of caption and foil.
        match = torch.softmax(network(**batch, use_itm_head=True).itm_score, dim=1)[
            :, 1
        ]
        accuracy = (
            float(match[0] >= MATCH_THRESHOLD) + float(match[1] < MATCH_THRESHOLD)
        ) / 2
        trials.setdefault(f"acc {foil.piece}", []).append((accuracy, graph.id))
    return _compute_means(trials, seed)


def _measure_llava(folder: Path, graphs: Sequence[Graph], seed: int) -> Measures:
    """Measure the choice between caption and foil of each piece, and generated answers to simple
    questions.
    """
    network = _load(transformers.LlavaForConditionalGeneration, folder)
    processor = transformers.AutoProcessor.from_pretrained(folder)
    letters = processor.tokenizer.convert_tokens_to_ids(["A", "B"])
    trials: Trials = {}
    for graph in graphs:
        image, rng = render_scene(graph), create_generator("foils", seed, graph)
        for foil in draw_foils(graph, rng):
            prompt, answer = draw_choice(foil, rng)
            batch = processor(
                images=image, text=render_llava_prompt(prompt), return_tensors="pt"
            )
            logit_a, logit_b = network(**batch).logits[0, -1, letters].tolist()
            is_right = (logit_a > logit_b) == (answer == "A")
            trials.setdefault(f"pairwise {foil.piece}", []).append(
                (float(is_right), graph.id)
            )
        for question in draw_scene_questions(graph, rng, count=2):
            batch = processor(
                images=image,
                text=render_llava_prompt(question.text),
                return_tensors="pt",
            )
            # Greedy decoding; the output repeats the prompt before the answer.
            output_ids = network.generate(
                **batch, max_new_tokens=MAX_ANSWER_TOKENS, do_sample=False
            )
            answer_ids = output_ids[0, batch["input_ids"].shape[1] :]
            answer = (
                processor.tokenizer.decode(answer_ids, skip_special_tokens=True)
                .strip()
                .rstrip(".")
                .lower()
            )
            is_right = answer == question.answer.lower()
            trials.setdefault("simple questions", []).append(
                (float(is_right), graph.id)
            )

    # The average weighs all pieces alike, whatever number of foils each one has.
    measures = _compute_means(trials, seed)
    pairwise = [measures[f"pairwise {piece}"] for piece in PIECES]
    values = [measure.value for measure in pairwise if measure.value is not None]
    measures["pairwise average"] = Measure(
        float(np.mean(values)), sum(measure.n for measure in pairwise)
    )
    return measures


def _compute_means(trials: Trials, seed: int) -> Measures:
    """Compute the mean of each metric's trials, with an interval that resamples scenes."""
    resampling = Resampling(RESAMPLES, CONFIDENCE, seed)
    measures = {}
    for metric, metric_trials in trials.items():
        values = [value for value, _ in metric_trials]
        scene_ids = [scene_id for _, scene_id in metric_trials]
        measures[metric] = compute_mean(
            values, scene_ids, metric, resampling, (0.0, 1.0)
        )
    return measures


SCORES: dict[str, Callable[[Path, Sequence[Graph], int], Measures]] = {
    "masked-lm": _measure_masked_lm,
    "acceptability": _measure_acceptability,
    "nli": _measure_nli,
    "causal-lm": _measure_causal_lm,
    "clip": _measure_clip,
    "matcher": _measure_matcher,
    "llava": _measure_llava,
}
"""Function that measures each model: of its folder, the held-out scenes and their seed."""

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
    """Return whether a score meets its bound; None if it has no bound or no value."""
    if value is None:
        return None
    if (name, metric) in MINIMUM_SCORES:
        return value >= MINIMUM_SCORES[name, metric]
    if (name, metric) in MAXIMUM_SCORES:
        return value <= MAXIMUM_SCORES[name, metric]
    return None
