"""Training examples drawn from scenes: sentences, pairs, questions, pixels and labels of their patches."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from random import Random

import numpy as np
import torch
from PIL import Image

from waltz.scenes.drawing import render_scene
from waltz.scenes.graph import PREPOSITIONS, SIZE, Cell, Graph
from waltz.scenes.language.captions import (
    add_article,
    draw_captions,
    draw_contextual_descriptions,
    draw_plain_descriptions,
)
from waltz.scenes.language.entailment import build_worlds, compute_label, draw_nli_pairs
from waltz.scenes.language.foils import (
    PLURAL_QUANTIFIERS,
    SINGULAR_QUANTIFIERS,
    draw_foils,
    draw_number_pair,
    exchange_preposition,
    exchange_quantifier,
    swap_actants,
)
from waltz.scenes.language.questions import draw_dialogue, draw_questions, render_statement
from waltz.scenes.lexicon import read_kinds, read_places, read_verbs
from waltz.scenes.oracle import is_in_grammar
from waltz.scenes.sampling import draw_scene, draw_scenes

NOUN_CORRUPTION_SHARE = 0.4
"""Share of the attempts that insert a word that does not fit its noun."""
PREPOSITIONAL_PHRASE = re.compile(r"\b(?P<before>at|in|on)(?: the| an?)? (?P<noun>[a-z]+)\b")
"""A place or a time: a preposition with a noun."""
AGREEMENT = {"is": "are", "are": "is", "a": "three", "an": "two", "two": "a", "three": "a"}


SIDE, PATCH = 128, 16
"""Pixels of the models' image, and of a patch."""


@dataclass(frozen=True)
class Example:
    """A training scene.

    Attributes:
        captions: True sentences about it.
        foils: (caption, foil) that differ in one place; the foil is false.
    """

    captions: tuple[str, ...]
    foils: tuple[tuple[str, str], ...]


def draw_training_scenes(seed: int, start: int = 0, split: str = "training") -> Iterator[Graph]:
    """Yield the scenes of a split without end, from number `start`."""
    index = start
    while True:
        yield draw_scene(index, seed, split)
        index += 1


def draw_caption_stream(seed: int, start: int = 0, split: str = "training") -> Iterator[tuple[Graph, list[str]]]:
    """Yield scenes with their five captions, without end."""
    for graph in draw_training_scenes(seed, start, split):
        yield graph, draw_captions(graph, Random(f"captions:{seed}:{graph.id}"))


def corrupt_text(text: str, rng: Random) -> str | None:
    """Return a sentence corrupted in word order or agreement, by a missing word, or by a word that does not fit.

    None if the sentence allows no corruption.
    """
    words = text.rstrip(".").split()
    for _ in range(6):
        result = (
            _corrupt_prepositional_phrase(text, rng)
            if rng.random() < NOUN_CORRUPTION_SHARE
            else " ".join(_corrupt_words(list(words), rng))
        )
        result = result[0].upper() + result[1:].rstrip(".") + ("." if text.endswith(".") else "")
        if result != text and not is_in_grammar(result):
            return result
    return None


def _corrupt_prepositional_phrase(text: str, rng: Random) -> str:
    """Return a text with another preposition, or with a quantifier before a definite noun ("in some rooms")."""
    if rng.random() < 0.5:
        return exchange_preposition(text, rng) or text
    places = list(PREPOSITIONAL_PHRASE.finditer(text))
    if not places:
        return text
    place = rng.choice(places)
    noun = place.group("noun")
    plural = noun + ("es" if noun.endswith(("ch", "s", "sh", "x")) else "s")
    new = rng.choice(
        [*(f"{words} {plural}" for words in PLURAL_QUANTIFIERS), *(f"{words} {noun}" for words in SINGULAR_QUANTIFIERS)]
    )
    return f"{text[: place.start()]}{place.group('before')} {new}{text[place.end() :]}"


def _corrupt_words(words: list[str], rng: Random) -> list[str]:
    words[0] = words[0].lower()
    place = rng.randrange(len(words) - 1)
    operation = rng.randrange(5)
    if operation == 0:
        del words[place]
    elif operation == 1:
        words[place], words[place + 1] = words[place + 1], words[place]
    elif operation == 2:
        words.insert(rng.randrange(len(words)), words.pop(place))
    elif operation == 3:
        indices = [index for index, word in enumerate(words) if word in AGREEMENT]
        if indices:
            index = rng.choice(indices)
            words[index] = AGREEMENT[words[index]]
    else:
        words.insert(place, words[rng.randrange(len(words))])
    return words


def draw_instructions(graph: Graph, rng: Random) -> Iterator[tuple[str, str]]:
    """Yield prompts about the image with their answers: questions, a description, judged and paired sentences."""
    for question in draw_questions(graph, rng):
        yield question.text, question.answer
    yield "Describe the image.", rng.choice(draw_captions(graph, rng))
    for foil in draw_foils(graph, rng):
        right = rng.random() < 0.5
        sentence = foil.caption if right else foil.foil
        yield f'Does this sentence describe the image? "{sentence}" Answer yes or no.', "yes" if right else "no"
        first = rng.random() < 0.5
        pair = (foil.caption, foil.foil) if first else (foil.foil, foil.caption)
        yield f"Which sentence describes the image? A: {pair[0]} B: {pair[1]} Answer A or B.", "A" if first else "B"


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


GRID = 8
"""Patches along a side of the image."""
MAX_COUNT = 9
"""Highest number of individuals of a kind."""
PAINT_COLOURS = ("red", "green", "blue", "yellow", "purple", "orange")
COLOUR_WEIGHT = 8.0
"""Factor of the heads' outputs, equivalent to a higher learning rate than the tower's."""
ABSENT_WEIGHT = 5.0
"""Initial logit of the absence of a kind."""
MIN_COVERED = 0.3
"""Share of a patch that the square of an individual covers where the patch shows it."""


@dataclass(frozen=True)
class PatchLabels:
    """Content of the patches of scenes; 0 stands for nothing, the first entry of a list is 1.

    Attributes:
        kinds: Kind that each patch shows, int64 of shape (scenes, GRID, GRID).
        verbs: Verb of the agent that it shows, same shape.
        colours: Colour of what it shows, same shape.
        centres: Individuals whose middle it holds, 2 for more, same shape.
        counts: Individuals of each kind, int64 of shape (scenes, kinds).
        places: Place, from 0, int64 of shape (scenes).
        relations: Preposition of the relation that was meant, int64 of shape (scenes).
    """

    kinds: torch.Tensor
    verbs: torch.Tensor
    colours: torch.Tensor
    centres: torch.Tensor
    counts: torch.Tensor
    places: torch.Tensor
    relations: torch.Tensor

    def select(self, indices: Sequence[int], mirrored: Sequence[bool]) -> "PatchLabels":
        """Return the labels of some scenes, with the patches of mirrored ones from right to left."""
        rows, mirror_mask = torch.tensor(indices), torch.tensor(mirrored)
        selected = {}
        for field in fields(self):
            values = getattr(self, field.name)[rows]
            if values.dim() == 3:
                values = torch.where(mirror_mask[:, None, None], values.flip(-1), values)
            selected[field.name] = values
        return PatchLabels(**selected)


def label_patches(graphs: Sequence[Graph]) -> PatchLabels:
    """Label the patches of scenes."""
    patches = np.zeros((4, len(graphs), GRID, GRID), dtype=np.int64)
    counts = np.zeros((len(graphs), len(read_kinds())), dtype=np.int64)
    kinds, verbs, places = list(read_kinds()), list(read_verbs()), list(read_places())
    for index, graph in enumerate(graphs):
        coverage = [[MIN_COVERED] * GRID for _ in range(GRID)]
        for number, entry in enumerate(graph.objects):
            counts[index, kinds.index(entry.kind)] = min(entry.count, MAX_COUNT)
            verb = 0
            if graph.action is not None and graph.action.agent == number:
                verb = 1 + verbs.index(graph.action.verb)
            label = (1 + kinds.index(entry.kind), verb, 1 + PAINT_COLOURS.index(entry.colour) if entry.colour else 0)
            for cell in entry.cells:
                middle = _find_patch(cell.top + cell.size / 2), _find_patch(cell.left + cell.size / 2)
                patches[3, index, *middle] = min(2, patches[3, index, *middle] + 1)
                for row, column, share in _find_covered_patches(cell):
                    if share >= coverage[row][column]:
                        coverage[row][column] = share
                        patches[:3, index, row, column] = label
    relations = [1 + PREPOSITIONS.index(graph.relations[0].preposition) if graph.relations else 0 for graph in graphs]
    by_patch = torch.from_numpy(patches)
    return PatchLabels(
        kinds=by_patch[0],
        verbs=by_patch[1],
        colours=by_patch[2],
        centres=by_patch[3],
        counts=torch.from_numpy(counts),
        places=torch.tensor([places.index(graph.place) for graph in graphs]),
        relations=torch.tensor(relations),
    )


def _find_patch(middle: float) -> int:
    return min(GRID - 1, max(0, int(middle * GRID / SIZE)))


def _find_covered_patches(cell: Cell) -> list[tuple[int, int, float]]:
    """Return row, column and covered share of the patches that a square touches."""
    side = SIZE / GRID
    patches = []
    for row in range(_find_patch(cell.top), _find_patch(cell.bottom - 1) + 1):
        down = min(cell.bottom, (row + 1) * side) - max(cell.top, row * side)
        for column in range(_find_patch(cell.left), _find_patch(cell.right - 1) + 1):
            across = min(cell.right, (column + 1) * side) - max(cell.left, column * side)
            patches.append((row, column, max(0.0, down) * max(0.0, across) / side**2))
    return patches


class PatchClassifier(torch.nn.Module):
    """Auxiliary linear heads over a vision tower, used in training only."""

    def __init__(self, hidden: int) -> None:
        """Build heads over states of a size."""
        super().__init__()
        self.patch_sizes = (1 + len(read_kinds()), 1 + len(read_verbs()), 1 + len(PAINT_COLOURS), 3)
        self.image_sizes = (len(read_places()), 1 + len(PREPOSITIONS), len(read_kinds()) * (1 + MAX_COUNT))
        self.patch_head = torch.nn.Linear(hidden, sum(self.patch_sizes))
        self.image_head = torch.nn.Linear(hidden, sum(self.image_sizes))
        for weights in self.parameters():
            torch.nn.init.zeros_(weights)
        with torch.no_grad():
            self.image_head.bias[-self.image_sizes[-1] :: 1 + MAX_COUNT] = ABSENT_WEIGHT / COLOUR_WEIGHT

    def forward(self, patches: torch.Tensor, pooled: torch.Tensor, labels: PatchLabels) -> torch.Tensor:
        """Compute the loss of the labels predicted from the states.

        Args:
            patches: States of the patches, row by row, of shape (scenes, GRID², hidden).
            pooled: State of the image, of shape (scenes, hidden).
            labels: Patch labels of the scenes.
        """
        cross = torch.nn.functional.cross_entropy
        predictions = (COLOUR_WEIGHT * self.patch_head(patches)).flatten(0, 1).split(self.patch_sizes, dim=-1)
        targets = (labels.kinds, labels.verbs, labels.colours, labels.centres)
        loss = sum(cross(part, values.flatten()) for part, values in zip(predictions, targets, strict=True))
        place, relation, counts = (COLOUR_WEIGHT * self.image_head(pooled)).split(self.image_sizes, dim=-1)
        loss = loss + cross(place, labels.places) + cross(relation, labels.relations)
        counted = cross(counts.reshape(-1, 1 + MAX_COUNT), labels.counts.flatten(), reduction="sum") / len(pooled)
        total: torch.Tensor = loss + counted / 3
        return total
