"""Training examples drawn from scenes: sentences, pairs, questions, pixels and labels of their patches."""

import re
from collections.abc import Iterable, Sequence
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
    Foil,
    draw_foils,
    draw_number_pair,
    exchange_preposition,
    exchange_quantifier,
    swap_actants,
)
from waltz.scenes.language.questions import draw_dialogue, draw_questions, render_statement
from waltz.scenes.lexicon import read_kinds, read_places, read_verbs
from waltz.scenes.oracle import is_in_grammar

SIDE, PATCH = 128, 16
"""Pixels of the models' image, and of a patch."""
GRID = SIDE // PATCH
"""Patches along a side of the image."""


def create_generator(purpose: str, seed: int, graph: Graph) -> Random:
    """Return the scene's own generator for one purpose."""
    return Random(f"{purpose}:{seed}:{graph.id}")


def draw_sentences(graph: Graph, rng: Random) -> list[str]:
    """Draw true captions, descriptions, statements and short dialogues of a scene."""
    sentences = [
        *draw_captions(graph, rng),
        *draw_contextual_descriptions(graph, rng),
        *draw_plain_descriptions(graph, rng),
    ]
    sentences += [statement for question in draw_questions(graph, rng) if (statement := render_statement(question))]
    caption = rng.choice(draw_captions(graph, rng))
    question, answer = rng.choice(draw_dialogue(graph, caption, rng))
    sentences.append(f"{caption.rstrip('.')}. {question} {answer}.")
    return [*sentences, *(foil.caption for foil in draw_foils(graph, rng)), *(draw_number_pair(graph, rng) or ())]


def draw_judged_sentences(graph: Graph, rng: Random) -> list[tuple[str, bool]]:
    """Draw acceptable sentences, true or false, and corrupted versions of them."""
    good = [
        *rng.sample(draw_captions(graph, rng), 2),
        *(foil.foil for foil in draw_foils(graph, rng)),
        *(draw_number_pair(graph, rng) or ()),
        *(swap_actants(graph) or ()),
    ]
    exchanged = exchange_preposition(rng.choice(draw_captions(graph, rng)), rng)
    if exchanged and is_in_grammar(exchanged):
        good.append(exchanged)
    bad = [corrupted for text in good if (corrupted := corrupt_text(text, rng))]
    return [(text, True) for text in good] + [(text, False) for text in bad]


NOUN_CORRUPTION_SHARE = 0.4
"""Share of the attempts that insert a word that does not fit its noun."""
PREPOSITIONAL_PHRASE = re.compile(r"\b(?P<before>at|in|on)(?: the| an?)? (?P<noun>[a-z]+)\b")
"""A place or a time: a preposition with a noun."""
AGREEMENT = {"is": "are", "are": "is", "a": "three", "an": "two", "two": "a", "three": "a"}


def corrupt_text(text: str, rng: Random) -> str | None:
    """Return a sentence corrupted in word order or agreement, by a missing word, or by a word that does not fit.

    None if the sentence allows no corruption.
    """
    for _ in range(6):
        corrupt = _corrupt_prepositional_phrase if rng.random() < NOUN_CORRUPTION_SHARE else _corrupt_words
        result = corrupt(text, rng)
        result = result[0].upper() + result[1:].rstrip(".") + ("." if text.endswith(".") else "")
        if result != text and not is_in_grammar(result):
            return result
    return None


def _corrupt_prepositional_phrase(text: str, rng: Random) -> str:
    """Return a text with another preposition, or with a quantifier before a definite noun ("in some rooms")."""
    if rng.random() < 0.5:
        return exchange_preposition(text, rng) or text
    matches = list(PREPOSITIONAL_PHRASE.finditer(text))
    if not matches:
        return text
    match = rng.choice(matches)
    noun = match["noun"]
    plural = noun + ("es" if noun.endswith(("ch", "s", "sh", "x")) else "s")
    phrases = [f"{words} {plural}" for words in PLURAL_QUANTIFIERS]
    phrases += [f"{words} {noun}" for words in SINGULAR_QUANTIFIERS]
    return f"{text[: match.start()]}{match['before']} {rng.choice(phrases)}{text[match.end() :]}"


def _corrupt_words(text: str, rng: Random) -> str:
    """Return a text with a word left out, moved, repeated or in the wrong number, without a full stop."""
    words = text.rstrip(".").split()
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
    return " ".join(words)


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


def draw_turns(graph: Graph, rng: Random) -> list[tuple[str, str]]:
    """Draw prompts about the image with their answers."""
    return [turn for _ in range(3) for turn in draw_instructions(graph, rng)]


def draw_instructions(graph: Graph, rng: Random) -> list[tuple[str, str]]:
    """Draw questions, a description, judged and paired sentences about the image, with their answers."""
    turns = [(question.text, question.answer) for question in draw_questions(graph, rng)]
    turns.append(("Describe the image.", rng.choice(draw_captions(graph, rng))))
    for foil in draw_foils(graph, rng):
        sentence, answer = (foil.caption, "yes") if rng.random() < 0.5 else (foil.foil, "no")
        turns.append((f'Does this sentence describe the image? "{sentence}" Answer yes or no.', answer))
        turns.append(draw_choice(foil, rng))
    return turns


def draw_choice(foil: Foil, rng: Random) -> tuple[str, str]:
    """Draw the order in which a prompt shows a caption and its foil, and return the prompt and its answer."""
    first, second, answer = (foil.caption, foil.foil, "A") if rng.random() < 0.5 else (foil.foil, foil.caption, "B")
    return f"Which sentence describes the image? A: {first} B: {second} Answer A or B.", answer


def draw_presence_turns(graph: Graph, rng: Random) -> list[tuple[str, str]]:
    """Draw existence questions with their answers, half of them about kinds that the scene lacks."""
    present = [entry.kind for entry in graph.objects]
    absent = rng.sample(graph.list_absent_kinds(), len(present))
    kinds = [(name, "yes") for name in present] + [(name, "no") for name in absent]
    return [
        (rng.choice(PRESENCE).format(add_article(name), read_kinds()[name].plural), answer)
        for name, answer in kinds * 2
    ]


PRESENCE = ("Are there any {1}?", "Is there {0}?", "Do you see any {1}?")


@dataclass(frozen=True)
class Example:
    """A training scene.

    Attributes:
        captions: True sentences about it.
        foils: (caption, foil) that differ in one place; the foil is false.
    """

    captions: tuple[str, ...]
    foils: tuple[tuple[str, str], ...]


def draw_example(graph: Graph, rng: Random) -> Example:
    """Draw true captions, and pairs of caption and foil that differ in one place."""
    pairs = [(foil.caption, foil.foil) for _ in range(3) for foil in draw_foils(graph, rng)]
    return Example(tuple(draw_captions(graph, rng)), tuple(dict.fromkeys(pairs)))


def render_pixels(graphs: Iterable[Graph]) -> torch.Tensor:
    """Render scenes as model input: uint8 of shape (scenes, 3, SIDE, SIDE)."""
    images = [render_scene(graph).resize((SIDE, SIDE), Image.Resampling.BICUBIC) for graph in graphs]
    return torch.from_numpy(np.stack([np.asarray(image) for image in images])).permute(0, 3, 1, 2).contiguous()


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

    def find_plurals(self) -> torch.Tensor:
        """Return for each patch of each scene whether it shows one of several of a kind, bool of one dimension."""
        return torch.nn.functional.pad(self.counts > 1, (1, 0)).gather(1, self.kinds.flatten(1)).flatten()


def label_patches(graphs: Sequence[Graph]) -> PatchLabels:
    """Label the patches of scenes."""
    patches = np.zeros((4, len(graphs), GRID, GRID), dtype=np.int64)
    counts = np.zeros((len(graphs), len(read_kinds())), dtype=np.int64)
    kinds, verbs, places = list(read_kinds()), list(read_verbs()), list(read_places())
    for index, graph in enumerate(graphs):
        coverage = np.full((GRID, GRID), MIN_COVERED)
        for entry in graph.objects:
            kind = kinds.index(entry.kind)
            counts[index, kind] = min(entry.count, MAX_COUNT)
            verb = 1 + verbs.index(graph.verb.name) if graph.verb and entry == graph.agent else 0
            colour = 1 + PAINT_COLOURS.index(entry.colour) if entry.colour else 0
            for cell in entry.cells:
                row, column = (int((start + cell.size / 2) * GRID / SIZE) for start in (cell.top, cell.left))
                patches[3, index, row, column] = min(2, patches[3, index, row, column] + 1)
                shares = _compute_covered_shares(cell)
                is_shown = shares >= coverage
                coverage[is_shown] = shares[is_shown]
                patches[:3, index, is_shown] = np.array([[1 + kind], [verb], [colour]])
    by_patch = torch.from_numpy(patches)
    relations = [1 + PREPOSITIONS.index(graph.relations[0].preposition) if graph.relations else 0 for graph in graphs]
    return PatchLabels(
        kinds=by_patch[0],
        verbs=by_patch[1],
        colours=by_patch[2],
        centres=by_patch[3],
        counts=torch.from_numpy(counts),
        places=torch.tensor([places.index(graph.place) for graph in graphs]),
        relations=torch.tensor(relations),
    )


def _compute_covered_shares(cell: Cell) -> np.ndarray:
    """Compute the share of each patch that a square covers, of shape (GRID, GRID)."""
    side = SIZE / GRID
    starts = np.arange(GRID) * side
    down, across = (
        np.clip(np.minimum(end, starts + side) - np.maximum(start, starts), 0, None)
        for start, end in ((cell.top, cell.bottom), (cell.left, cell.right))
    )
    return np.outer(down, across) / side**2


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
