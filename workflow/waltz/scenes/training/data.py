"""Data for training and measuring the models: scenes of a seed and split with their sentences."""

from collections.abc import Iterable
from random import Random

import numpy as np
import torch
from PIL import Image

from waltz.scenes.drawing.draw import render_scene
from waltz.scenes.language.captions import (
    add_article,
    draw_captions,
    draw_contextual_descriptions,
    draw_plain_descriptions,
)
from waltz.scenes.language.foils import (
    draw_foils,
    draw_number_pair,
    exchange_preposition,
    exchange_quantifier,
    swap_actants,
)
from waltz.scenes.language.questions import draw_dialogue, draw_questions, render_statement
from waltz.scenes.oracle.entailment import build_worlds, compute_label, draw_nli_pairs
from waltz.scenes.oracle.truth import is_in_grammar
from waltz.scenes.training.examples import SIDE, Example, corrupt_text, draw_instructions
from waltz.scenes.world.graph import Graph
from waltz.scenes.world.lexicon import read_kinds
from waltz.scenes.world.sampling import draw_scenes

PRESENCE = ("Are there any {1}?", "Is there {0}?", "Do you see any {1}?")


def draw_graphs(count: int, seed: int, split: str) -> list[Graph]:
    """Draw the first scenes of a seed and split (`training` or `held-out`)."""
    return draw_scenes(count, seed, split)


def render_pixels(graphs: Iterable[Graph]) -> torch.Tensor:
    """Render scenes as model input: uint8 of shape (scenes, 3, SIDE, SIDE)."""
    images = [
        np.asarray(render_scene(graph).convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC))
        for graph in graphs
    ]
    return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).contiguous()


def draw_sentences(graph: Graph, rng: Random) -> list[str]:
    """Draw true captions, descriptions, statements and short dialogues of a scene."""
    sentences = [
        *draw_captions(graph, rng),
        *draw_contextual_descriptions(graph, rng),
        *draw_plain_descriptions(graph, rng),
    ]
    sentences += [statement for question in draw_questions(graph, rng) if (statement := render_statement(question))]
    caption = rng.choice(draw_captions(graph, rng))
    dialogue = draw_dialogue(graph, caption, rng)
    if dialogue:
        question, answer = rng.choice(dialogue)
        sentences.append(f"{caption.rstrip('.')}. {question} {answer}.")
    return [*sentences, *(foil.caption for foil in draw_foils(graph, rng)), *_draw_number_pair(graph, rng)]


def draw_judged_sentences(graph: Graph, rng: Random) -> list[tuple[str, bool]]:
    """Draw acceptable sentences, true or false, and corrupted versions of them."""
    good = [
        *rng.sample(draw_captions(graph, rng), 2),
        *(foil.foil for foil in draw_foils(graph, rng)),
        *_draw_number_pair(graph, rng),
    ]
    good += swap_actants(graph) or ()
    exchanged = exchange_preposition(rng.choice(draw_captions(graph, rng)), rng)
    if exchanged and is_in_grammar(exchanged):
        good.append(exchanged)
    bad = [corrupted for text in good if (corrupted := corrupt_text(text, rng))]
    return [(text, True) for text in good] + [(text, False) for text in bad]


def _draw_number_pair(graph: Graph, rng: Random) -> tuple[str, ...]:
    """Draw a caption with a quantifier, and the same with another number, where the draw allows."""
    return draw_number_pair(graph, rng) or ()


def draw_inferences(graph: Graph, rng: Random) -> list[tuple[str, str, str]]:
    """Draw premises, hypotheses and labels, decided by the oracle over the worlds in which the premise is true.

    Half of the pairs have other quantifiers. Hypotheses include captions with an exchanged number, preposition or
    actants, and true captions that resemble their premise.
    """
    pairs = [(pair.premise, pair.hypothesis) for pair in draw_nli_pairs(graph, rng)]
    pairs = [(_exchange_quantifiers(graph, *pair, rng) if rng.random() < 0.5 else pair) for pair in pairs]
    renumbered = draw_number_pair(graph, rng)
    if renumbered:
        pairs += [renumbered, (renumbered[0], rng.choice(draw_captions(graph, rng)))]
    swapped = swap_actants(graph)
    if swapped:
        pairs.append(swapped)
    caption_pairs = [(rng.choice(draw_captions(graph, rng)), rng.choice(draw_captions(graph, rng))) for _ in range(2)]
    pairs += [
        (rng.choice((first, second)), exchanged)
        for first, second in caption_pairs
        if (exchanged := exchange_preposition(first, rng))
    ]
    labels = [compute_label(premise, hypothesis, build_worlds(graph, hypothesis)) for premise, hypothesis in pairs]
    return [(*pair, label) for pair, label in zip(pairs, labels, strict=True) if label]


def _exchange_quantifiers(graph: Graph, premise: str, hypothesis: str, rng: Random) -> tuple[str, str]:
    """Return a pair with other quantifiers in one or both of its sentences, where they allow it."""
    premise = exchange_quantifier(premise, rng.choice(graph.objects), rng) or premise
    return premise, exchange_quantifier(hypothesis, rng.choice(graph.objects), rng) or hypothesis


def draw_example(graph: Graph, rng: Random) -> Example:
    """Draw true captions, and pairs of caption and foil that differ in one place."""
    pairs = [(foil.caption, foil.foil) for _ in range(3) for foil in draw_foils(graph, rng)]
    return Example(tuple(draw_captions(graph, rng)), tuple(dict.fromkeys(pairs)))


def draw_turns(graph: Graph, rng: Random) -> list[tuple[str, str]]:
    """Draw prompts about the image with their answers."""
    return [turn for _ in range(3) for turn in draw_instructions(graph, rng)]


def draw_presence_turns(graph: Graph, rng: Random) -> list[tuple[str, str]]:
    """Draw existence questions with their answers, half of them about kinds that the scene lacks."""
    present = [entry.kind for entry in graph.objects]
    absent = rng.sample([name for name in read_kinds() if name not in present], len(present))
    kinds = [(name, "yes") for name in present] + [(name, "no") for name in absent]
    return [
        (rng.choice(PRESENCE).format(add_article(name), read_kinds()[name].plural), answer)
        for name, answer in kinds * 2
    ]


def create_generator(purpose: str, seed: int, graph: Graph) -> Random:
    """Return the scene's own generator for one purpose."""
    return Random(f"{purpose}:{seed}:{graph.id}")
