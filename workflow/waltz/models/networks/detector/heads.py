"""What is made of each proposal: its feature, its class, a box for each class, and its attribute."""

import torch
from torch import nn
from torch.nn import functional

from waltz.models.networks.detector.backbone import stage
from waltz.models.networks.detector.sizes import Sizes

BOXES = 60
"""Proposals that pass the last stage at once; a full patch of 14 x 14 needs 3 MB there."""


class Predictor(nn.Module):
    """Linear heads on the features."""

    def __init__(self, sizes: Sizes) -> None:
        """Heads of a detector's sizes."""
        super().__init__()
        self.cls_score = nn.Linear(sizes.width, sizes.classes + 1)
        self.bbox_pred = nn.Linear(sizes.width, 4 * sizes.classes)
        self.cls_embedding = nn.Embedding(sizes.classes + 1, sizes.embedding)
        self.fc_attr = nn.Linear(sizes.width + sizes.embedding, sizes.mixed)
        self.attr_score = nn.Linear(sizes.mixed, sizes.attributes + 1)

    def classes(self, features: torch.Tensor) -> torch.Tensor:
        """Logits of the classes, background last: shape (regions, classes + 1)."""
        logits: torch.Tensor = self.cls_score(features)
        return logits

    def deltas(self, features: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        """Deltas of the box for one class of each region: shape (regions, 4)."""
        of_classes = self.bbox_pred(features).view(len(features), -1, 4)
        deltas: torch.Tensor = of_classes[torch.arange(len(features), device=features.device), classes]
        return deltas

    def attributes(self, features: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """Shares of the attributes: shape (regions, attributes).

        Args:
            features: Features of regions.
            logits: Logits of their classes; the highest tells the embedding, background included.
        """
        both = torch.cat([features, self.cls_embedding(logits.argmax(dim=-1))], dim=-1)
        scores = self.attr_score(functional.relu_(self.fc_attr(both)))
        shares: torch.Tensor = scores[:, :-1].softmax(dim=-1)
        return shares


class RegionHeads(nn.Module):
    """The last stage of the network on the pooled map, without stride and with dilation, and the heads."""

    def __init__(self, sizes: Sizes) -> None:
        """Heads of a detector's sizes."""
        super().__init__()
        inputs = sizes.stages["res4"].outputs
        self.res5 = stage(inputs, sizes.stages["res5"], 1, dilation=2)
        self.box_predictor = Predictor(sizes)

    def features(self, pooled: torch.Tensor) -> torch.Tensor:
        """The feature of each proposal.

        Args:
            pooled: The map under each, of shape (proposals, channels, side, side).
        Returns:
            float32 of shape (proposals, width).
        """
        parts = (pooled[first : first + BOXES] for first in range(0, len(pooled), BOXES))
        return torch.cat([self.res5(part).mean(dim=(2, 3)) for part in parts])
