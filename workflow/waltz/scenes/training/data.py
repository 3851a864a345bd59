"""What the models learn from and are measured on: scenes of a seed and split with their sentences."""

from collections.abc import Iterable
from random import Random

import numpy as np
import torch
from PIL import Image

from waltz.scenes.drawing.draw import draw
from waltz.scenes.language.captions import article, captions, contextual_descriptions, plain_descriptions
from waltz.scenes.language.foils import actant_swap
from waltz.scenes.language.prepositions import exchanged_preposition
from waltz.scenes.language.quantifiers import number_pair, quantified
from waltz.scenes.language.questions import dialogue, questions, statement
from waltz.scenes.oracle.entailment import label, nli_pairs, worlds
from waltz.scenes.oracle.truth import in_grammar
from waltz.scenes.training.examples import corrupted, foils, instructions
from waltz.scenes.training.vision import SIDE, Example
from waltz.scenes.world.graph import Graph
from waltz.scenes.world.lexicon import kinds
from waltz.scenes.world.sampling import scenes

PRESENCE = ("Are there any {1}?", "Is there {0}?", "Do you see any {1}?")


def graphs(count: int, seed: int, split: str) -> list[Graph]:
    """The first scenes of a seed and split (`training` or `held-out`)."""
    return scenes(count, seed, split)


def pixels(graphs: Iterable[Graph]) -> torch.Tensor:
    """Drawn scenes as the models see them: uint8 of shape (scenes, 3, SIDE, SIDE)."""
    images = [np.asarray(draw(graph).convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC)) for graph in graphs]
    return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).contiguous()


def sentences(graph: Graph, rng: Random) -> list[str]:
    """True captions, descriptions, statements and short dialogues of a scene."""
    found = [*captions(graph, rng), *contextual_descriptions(graph, rng), *plain_descriptions(graph, rng)]
    found += [said for question in questions(graph, rng) if (said := statement(question))]
    caption = rng.choice(captions(graph, rng))
    asked = dialogue(graph, caption, rng)
    if asked:
        question, answer = rng.choice(asked)
        found.append(f"{caption.rstrip('.')}. {question} {answer}.")
    return [*found, *(foil.caption for foil in foils(graph, rng)), *_renumbered(graph, rng)]


def judged(graph: Graph, rng: Random) -> list[tuple[str, bool]]:
    """Acceptable sentences, true and false ones, and as many corrupted ones."""
    good = [*rng.sample(captions(graph, rng), 2), *(foil.foil for foil in foils(graph, rng)), *_renumbered(graph, rng)]
    good += actant_swap(graph) or ()
    exchanged = exchanged_preposition(rng.choice(captions(graph, rng)), rng)
    if exchanged and in_grammar(exchanged):
        good.append(exchanged)
    bad = [spoilt for text in good if (spoilt := corrupted(text, rng))]
    return [(text, True) for text in good] + [(text, False) for text in bad]


def _renumbered(graph: Graph, rng: Random) -> tuple[str, ...]:
    """A caption with a quantifier, and the same with another number, where the draw allows."""
    return number_pair(graph, rng) or ()


def inferences(graph: Graph, rng: Random) -> list[tuple[str, str, str]]:
    """Premise, hypothesis and label, as truth decides it over the worlds that the premise leaves open.

    Half of the pairs have other quantifiers; captions whose number, actants or one preposition are exchanged are among
    the hypotheses, and as many true ones as like their premise.
    """
    pairs = [(pair.premise, pair.hypothesis) for pair in nli_pairs(graph, rng)]
    pairs = [(_requantified(graph, *pair, rng) if rng.random() < 0.5 else pair) for pair in pairs]
    renumbered = number_pair(graph, rng)
    if renumbered:
        pairs += [renumbered, (renumbered[0], rng.choice(captions(graph, rng)))]
    swapped = actant_swap(graph)
    if swapped:
        pairs.append(swapped)
    described = [(rng.choice(captions(graph, rng)), rng.choice(captions(graph, rng))) for _ in range(2)]
    pairs += [
        (rng.choice((text, other)), exchanged)
        for text, other in described
        if (exchanged := exchanged_preposition(text, rng))
    ]
    labels = [label(premise, hypothesis, worlds(graph, hypothesis)) for premise, hypothesis in pairs]
    return [(*pair, found) for pair, found in zip(pairs, labels, strict=True) if found]


def _requantified(graph: Graph, premise: str, hypothesis: str, rng: Random) -> tuple[str, str]:
    """A pair with other quantifiers in one or both of its sentences, where they allow it."""
    premise = quantified(premise, rng.choice(graph.objects), rng) or premise
    return premise, quantified(hypothesis, rng.choice(graph.objects), rng) or hypothesis


def example(graph: Graph, rng: Random) -> Example:
    """True captions, and pairs that differ in one place."""
    pairs = [(foil.caption, foil.foil) for _ in range(3) for foil in foils(graph, rng)]
    return Example(tuple(captions(graph, rng)), tuple(dict.fromkeys(pairs)))


def turns(graph: Graph, rng: Random) -> list[tuple[str, str]]:
    """Prompts about the image with the answers to give."""
    return [turn for _ in range(3) for turn in instructions(graph, rng)]


def presence(graph: Graph, rng: Random) -> list[tuple[str, str]]:
    """Questions whether there are things of a kind, with their answers, as many of kinds that the scene lacks."""
    present = [entry.kind for entry in graph.objects]
    absent = rng.sample([name for name in kinds() if name not in present], len(present))
    asked = [(name, "yes") for name in present] + [(name, "no") for name in absent]
    return [(rng.choice(PRESENCE).format(article(name), kinds()[name].plural), answer) for name, answer in asked * 2]


def generator(purpose: str, seed: int, graph: Graph) -> Random:
    """The scene's own generator for one purpose."""
    return Random(f"{purpose}:{seed}:{graph.id}")
