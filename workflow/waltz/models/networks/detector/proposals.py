"""Where objects may be: anchors of every cell, moved and scored, the best of each place."""

import torch
from torch import nn
from torch.nn import functional

from waltz.models.networks.detector.boxes import clip, decode, nms
from waltz.models.networks.detector.settings import Settings

STRIDE = 16
"""Pixels of the image between two cells of the map."""


class Anchors(nn.Module):
    """The anchors of a cell, which are part of a checkpoint."""

    def __init__(self, count: int) -> None:
        """Some anchors of no size, until weights are loaded."""
        super().__init__()
        self.cell_anchors = nn.ParameterList([nn.Parameter(torch.zeros(count, 4))])

    def forward(self, height: int, width: int, offset: float) -> torch.Tensor:
        """The anchors of a map of some height and width: (height x width x anchors, 4), row by row, cell by cell."""
        own = self.cell_anchors[0]
        down, right = (
            ((torch.arange(cells, device=own.device) + offset) * STRIDE).to(own.dtype) for cells in (height, width)
        )
        rows, columns = torch.meshgrid(down, right, indexing="ij")
        shifts = torch.stack([columns, rows, columns, rows], dim=-1)
        placed: torch.Tensor = (shifts[:, :, None] + own).reshape(-1, 4)
        return placed


class ProposalHead(nn.Module):
    """Scores and deltas of the anchors of each cell."""

    def __init__(self, inputs: int, hidden: int, anchors: int) -> None:
        """A head on a map.

        Args:
            inputs: Channels of the map.
            hidden: Channels of the 3x3 convolution.
            anchors: Anchors of a cell.
        """
        super().__init__()
        self.conv = nn.Conv2d(inputs, hidden, 3, padding=1)
        self.objectness_logits = nn.Conv2d(hidden, anchors, 1)
        self.anchor_deltas = nn.Conv2d(hidden, 4 * anchors, 1)

    def forward(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Scores of shape (candidates,) and deltas of shape (candidates, 4), in the order of `Anchors`."""
        inner = functional.relu_(self.conv(states))
        scores = self.objectness_logits(inner).permute(0, 2, 3, 1).flatten()
        deltas = self.anchor_deltas(inner).permute(0, 2, 3, 1).reshape(-1, 4)
        return scores, deltas


class Proposals(nn.Module):
    """What proposes boxes."""

    def __init__(self, inputs: int, hidden: int, anchors: int, settings: Settings) -> None:
        """What proposes boxes on a map.

        Args:
            inputs: Channels of the map.
            hidden: Channels inside of the head.
            anchors: Anchors of a cell.
            settings: How candidates are chosen.
        """
        super().__init__()
        self.anchor_generator = Anchors(anchors)
        self.rpn_head = ProposalHead(inputs, hidden, anchors)
        self.settings = settings

    def forward(self, states: torch.Tensor, height: int, width: int) -> torch.Tensor:
        """Boxes of an image that something may be in, best first.

        Args:
            states: The map, of shape (1, channels, rows, columns).
            height: Height of the image in pixels.
            width: Its width.
        Returns:
            float32 of shape (boxes, 4), in pixels of the image.
        """
        settings = self.settings
        scores, deltas = self.rpn_head(states)
        anchors = self.anchor_generator(*states.shape[-2:], settings.anchor_offset)
        best = scores.sort(descending=True, stable=True).indices[: settings.candidates]
        boxes = clip(decode(deltas[best], anchors[best], settings.proposal_weights), height, width)
        extended = ((boxes[:, 2:] - boxes[:, :2]) > settings.smallest).all(dim=1)
        boxes, scores = boxes[extended], scores[best][extended]
        kept = nms(boxes, scores, settings.proposal_overlap, settings.proposals)
        return boxes[kept.to(boxes.device)]
