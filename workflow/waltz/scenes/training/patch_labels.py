"""Auxiliary labels of the image models: content of each patch and counts."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch

from waltz.scenes.world.graph import PREPOSITIONS, SIZE, Cell, Graph
from waltz.scenes.world.lexicon import read_kinds, read_places, read_verbs

GRID = 8
"""Patches along a side of the image."""
MAX_COUNT = 9
"""Highest number of individuals of a kind."""
COLOURS = ("red", "green", "blue", "yellow", "purple", "orange")
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
            label = (1 + kinds.index(entry.kind), verb, 1 + COLOURS.index(entry.colour) if entry.colour else 0)
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
        self.patch_sizes = (1 + len(read_kinds()), 1 + len(read_verbs()), 1 + len(COLOURS), 3)
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
