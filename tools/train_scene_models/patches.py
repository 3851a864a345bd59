"""Pixels of scenes as model input, labels of their patches, and the auxiliary heads that predict
the labels.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from PIL import Image

from waltz.scenes.drawing import render_scene
from waltz.scenes.graph import PREPOSITIONS, SIZE, Graph, SpriteCell
from waltz.scenes.lexicon import read_kinds, read_places, read_scene_verbs

SIDE, PATCH = 128, 16
"""Pixels of the models' image, and of a patch."""
GRID = SIDE // PATCH
"""Patches along a side of the image."""


def render_pixels(graphs: Iterable[Graph]) -> torch.Tensor:
    """Render scenes as model input: uint8 of shape (scenes, 3, SIDE, SIDE)."""
    images = [
        render_scene(graph).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        for graph in graphs
    ]
    return (
        torch.from_numpy(np.stack([np.asarray(image) for image in images]))
        .permute(0, 3, 1, 2)
        .contiguous()
    )


MAX_COUNT = 9
"""Highest number of individuals of a kind."""
PAINT_COLORS = ("red", "green", "blue", "yellow", "purple", "orange")
COLOR_WEIGHT = 8.0
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
        colors: Color of what it shows, same shape.
        centers: Individuals whose middle it holds, 2 for more, same shape.
        counts: Individuals of each kind, int64 of shape (scenes, kinds).
        places: Place, from 0, int64 of shape (scenes).
        relations: Preposition of the relation that was meant, int64 of shape (scenes).
    """

    kinds: torch.Tensor
    verbs: torch.Tensor
    colors: torch.Tensor
    centers: torch.Tensor
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
                values = torch.where(
                    mirror_mask[:, None, None], values.flip(-1), values
                )
            selected[field.name] = values
        return PatchLabels(**selected)

    def find_plurals(self) -> torch.Tensor:
        """Return for each patch of each scene whether it shows one of several of a kind, bool of
        one dimension.
        """
        return (
            torch.nn.functional.pad(self.counts > 1, (1, 0))
            .gather(1, self.kinds.flatten(1))
            .flatten()
        )


def label_patches(graphs: Sequence[Graph]) -> PatchLabels:
    """Label the patches of scenes."""
    patches = np.zeros((4, len(graphs), GRID, GRID), dtype=np.int64)
    counts = np.zeros((len(graphs), len(read_kinds())), dtype=np.int64)
    kinds, verbs, places = (
        list(read_kinds()),
        list(read_scene_verbs()),
        list(read_places()),
    )
    for index, graph in enumerate(graphs):
        coverage = np.full((GRID, GRID), MIN_COVERED)
        for entry in graph.objects:
            kind = kinds.index(entry.kind)
            counts[index, kind] = min(entry.count, MAX_COUNT)
            verb = 0
            if graph.event and entry == graph.event.agent:
                verb = 1 + verbs.index(graph.event.verb.name)
            color = 1 + PAINT_COLORS.index(entry.color) if entry.color else 0
            for cell in entry.cells:
                row, column = (
                    int((start + cell.size / 2) * GRID / SIZE)
                    for start in (cell.top, cell.left)
                )
                patches[3, index, row, column] = min(
                    2, patches[3, index, row, column] + 1
                )
                shares = _compute_covered_shares(cell)
                is_shown = shares >= coverage
                coverage[is_shown] = shares[is_shown]
                patches[:3, index, is_shown] = np.array([[1 + kind], [verb], [color]])
    by_patch = torch.from_numpy(patches)
    relations = [
        1 + PREPOSITIONS.index(graph.relations[0].preposition) if graph.relations else 0
        for graph in graphs
    ]
    return PatchLabels(
        kinds=by_patch[0],
        verbs=by_patch[1],
        colors=by_patch[2],
        centers=by_patch[3],
        counts=torch.from_numpy(counts),
        places=torch.tensor([places.index(graph.place) for graph in graphs]),
        relations=torch.tensor(relations),
    )


def _compute_covered_shares(cell: SpriteCell) -> np.ndarray:
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
        self.patch_sizes = (
            1 + len(read_kinds()),
            1 + len(read_scene_verbs()),
            1 + len(PAINT_COLORS),
            3,
        )
        self.image_sizes = (
            len(read_places()),
            1 + len(PREPOSITIONS),
            len(read_kinds()) * (1 + MAX_COUNT),
        )
        self.patch_head = torch.nn.Linear(hidden, sum(self.patch_sizes))
        self.image_head = torch.nn.Linear(hidden, sum(self.image_sizes))
        for weights in self.parameters():
            torch.nn.init.zeros_(weights)
        with torch.no_grad():
            self.image_head.bias[-self.image_sizes[-1] :: 1 + MAX_COUNT] = (
                ABSENT_WEIGHT / COLOR_WEIGHT
            )

    def forward(
        self, patches: torch.Tensor, pooled: torch.Tensor, labels: PatchLabels
    ) -> torch.Tensor:
        """Compute the loss of the labels predicted from the states.

        Args:
            patches: States of the patches, row by row, of shape (scenes, GRID², hidden).
            pooled: State of the image, of shape (scenes, hidden).
            labels: Patch labels of the scenes.
        """
        cross = torch.nn.functional.cross_entropy
        predictions = (
            (COLOR_WEIGHT * self.patch_head(patches))
            .flatten(0, 1)
            .split(self.patch_sizes, dim=-1)
        )
        targets = (labels.kinds, labels.verbs, labels.colors, labels.centers)
        loss = sum(
            cross(part, values.flatten())
            for part, values in zip(predictions, targets, strict=True)
        )
        place, relation, counts = (COLOR_WEIGHT * self.image_head(pooled)).split(
            self.image_sizes, dim=-1
        )
        loss = loss + cross(place, labels.places) + cross(relation, labels.relations)
        counted = cross(
            counts.reshape(-1, 1 + MAX_COUNT), labels.counts.flatten(), reduction="sum"
        ) / len(pooled)
        total: torch.Tensor = loss + counted / 3
        return total
