"""The detector network: from a prepared image to its best regions."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from waltz.core.errors import UserError
from waltz.models.networks.detector.boxes import clip_boxes, decode_boxes, pool_boxes, suppress_overlaps
from waltz.models.networks.detector.settings import DetectorSettings, DetectorSizes, StageSizes


@dataclass(frozen=True, eq=False)
class Detections:
    """Regions of one image, best first.

    Attributes:
        boxes: Left, top, right and bottom in pixels of the prepared image: float32 of shape (regions, 4).
        features: float32 of shape (regions, width). Each belongs to the proposal, the box is the decoded one.
        classes: int64 of shape (regions,).
        scores: Probability of the class, by which the regions are ordered.
        attributes: int64 of shape (regions,).
        attribute_scores: Probability of the attribute among all except "none".
    """

    boxes: torch.Tensor
    features: torch.Tensor
    classes: torch.Tensor
    scores: torch.Tensor
    attributes: torch.Tensor
    attribute_scores: torch.Tensor


class Detector(nn.Module):
    """A Faster R-CNN on the map of `res4`; the names of its weights are those of the released file.

    Attributes:
        name: Name of the detector, stored with its regions.
        sizes: Its sizes.
        settings: Settings of the selection of regions.
    """

    def __init__(self, name: str, sizes: DetectorSizes, settings: DetectorSettings) -> None:
        """Create a detector without weights.

        Args:
            name: Name of the detector, stored with its regions.
            sizes: Its sizes.
            settings: Settings of the selection of regions.
        """
        super().__init__()
        self.name, self.sizes, self.settings = name, sizes, settings
        backbone_stages = {name: stage for name, stage in sizes.stages.items() if name != "res5"}
        inputs = sizes.stages["res4"].outputs
        self.backbone = Backbone(sizes.stem, backbone_stages)
        self.proposal_generator = ProposalGenerator(inputs, sizes.hidden, sizes.anchors, settings)
        self.roi_heads = RegionHeads(sizes)

    @torch.inference_mode()
    def forward(self, image: torch.Tensor) -> Detections:
        """Return the regions of one image.

        Images are not batched: the released code pads smaller images with zeros, which changes their features.

        Args:
            image: A prepared image, float32 of shape (3, height, width); see `images.prepare_image`.
        Raises:
            UserError: Too few regions are left, or there are numbers that are not finite.
        """
        with torch.backends.cudnn.flags(
            enabled=True, allow_tf32=False
        ):  # boxes change a lot where a score changes a little
            return self._detect(image)

    def _detect(self, image: torch.Tensor) -> Detections:
        height, width = image.shape[-2:]
        states = self.backbone(image[None])
        proposals = self.proposal_generator(states, height, width)
        if len(proposals) < self.settings.fewest:
            raise self._build_error(height, width, len(proposals))
        pooled = pool_boxes(states[0], proposals, self.settings.resolution, 1 / STRIDE)
        features = self.roi_heads.features(pooled)
        heads = self.roi_heads.box_predictor
        logits = heads.classes(features)
        scores, classes = logits.softmax(dim=-1)[:, :-1].max(dim=-1)
        boxes = decode_boxes(heads.deltas(features, classes), proposals, self.settings.box_weights)
        if not (boxes.isfinite().all() and features.isfinite().all() and scores.isfinite().all()):
            raise UserError(f"{self.name} gives numbers that are not finite; fetch its weights again")
        boxes = clip_boxes(boxes, height, width)
        selected = self._select_best(boxes, scores, height, width).to(boxes.device)
        attribute_scores, attributes = heads.attributes(features[selected], logits[selected]).max(dim=-1)
        return Detections(
            boxes[selected], features[selected], classes[selected], scores[selected], attributes, attribute_scores
        )

    def _select_best(self, boxes: torch.Tensor, scores: torch.Tensor, height: int, width: int) -> torch.Tensor:
        """Return the indices of the regions selected with the first limit that leaves enough of them."""
        most_found = 0
        for limit in self.settings.overlaps:
            selected = suppress_overlaps(boxes, scores, limit, self.settings.most)
            if len(selected) >= self.settings.fewest:
                return selected
            most_found = max(most_found, len(selected))
        raise self._build_error(height, width, most_found)

    def _build_error(self, height: int, width: int, count: int) -> UserError:
        return UserError(
            f"{self.name} finds {count} regions in the image, prepared to {height} x {width} pixels, and at least"
            f" {self.settings.fewest} are needed; skip the image, or lower min_detections in the detector's config"
        )


EPSILON = 1e-5
"""Added to the variance in each batch norm."""


class FrozenBatchNorm(nn.Module):
    """Batch norm with stored mean and variance."""

    def __init__(self, channels: int) -> None:
        """Create a batch norm that does not change its input until weights are loaded."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return normalised states, of the same shape (batch, channels, height, width)."""
        mean, variance = self.get_buffer("running_mean"), self.get_buffer("running_var")
        return functional.batch_norm(states, mean, variance, self.weight, self.bias, False, 0.0, EPSILON)


class Convolution(nn.Conv2d):
    """A convolution without bias, then batch norm."""

    def __init__(
        self, inputs: int, outputs: int, side: int, *, stride: int = 1, dilation: int = 1, groups: int = 1
    ) -> None:
        """Create a convolution that keeps the size except for its stride.

        Args:
            inputs: Channels that go in.
            outputs: Channels that come out.
            side: Side of the kernel, an odd number.
            stride: Stride.
            dilation: Distance between the kernel's cells.
            groups: Groups of channels.
        """
        padding = dilation * (side // 2)
        super().__init__(inputs, outputs, side, stride, padding, dilation, groups, bias=False)
        self.norm = FrozenBatchNorm(outputs)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return states of shape (batch, outputs, height, width)."""
        normed: torch.Tensor = self.norm(super().forward(states))
        return normed


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions with a shortcut, which is a convolution if the number of channels changes."""

    def __init__(self, inputs: int, sizes: StageSizes, stride: int, dilation: int) -> None:
        """Create a bottleneck of a stage.

        Args:
            inputs: Channels that go in.
            sizes: Sizes of the stage.
            stride: Stride of the first convolution and the shortcut.
            dilation: Of the second convolution.
        """
        super().__init__()
        different = inputs != sizes.outputs
        self.shortcut = Convolution(inputs, sizes.outputs, 1, stride=stride) if different else None
        self.conv1 = Convolution(inputs, sizes.width, 1, stride=stride)
        self.conv2 = Convolution(sizes.width, sizes.width, 3, dilation=dilation, groups=sizes.groups)
        self.conv3 = Convolution(sizes.width, sizes.outputs, 1)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return states of shape (batch, outputs, height / stride, width / stride)."""
        inner = functional.relu_(self.conv2(functional.relu_(self.conv1(states))))
        residual = states if self.shortcut is None else self.shortcut(states)
        return functional.relu_(self.conv3(inner) + residual)


def build_stage(inputs: int, sizes: StageSizes, stride: int, dilation: int = 1) -> nn.Sequential:
    """Return a stage of bottlenecks, of which the first has the stride.

    Args:
        inputs: Channels that go in.
        sizes: Sizes of the stage.
        stride: Stride of the stage.
        dilation: Of the 3x3 convolutions.
    """
    return nn.Sequential(
        *(
            Bottleneck(sizes.outputs, sizes, 1, dilation) if block else Bottleneck(inputs, sizes, stride, dilation)
            for block in range(sizes.blocks)
        )
    )


class Stem(nn.Module):
    """The first convolution, and a pool without padding that includes a last incomplete window."""

    def __init__(self, outputs: int) -> None:
        """Create a stem."""
        super().__init__()
        self.conv1 = Convolution(3, outputs, 7, stride=2)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return states at about a quarter of the size."""
        return functional.max_pool2d(functional.relu_(self.conv1(pixels)), 3, stride=2, padding=0, ceil_mode=True)


class Backbone(nn.Module):
    """The stem and the stages `res2`, `res3` and `res4`."""

    def __init__(self, stem: int, stages: Mapping[str, StageSizes]) -> None:
        """Create a backbone.

        Args:
            stem: Channels of the stem.
            stages: Sizes of each stage, by name and in order.
        """
        super().__init__()
        self.stem = Stem(stem)
        inputs = stem
        for name, sizes in stages.items():
            self.add_module(name, build_stage(inputs, sizes, 1 if name == "res2" else 2))
            inputs = sizes.outputs

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the map of an image.

        Args:
            pixels: float32 of shape (1, 3, height, width).
        Returns:
            float32 of shape (1, channels, height, width), a sixteenth of the size; ceil mode of the stem's pool makes
            11 of 168.
        """
        states = pixels
        for module in self.children():
            states = module(states)
        return states


BOXES_PER_BATCH = 60
"""Proposals that pass the last stage at once; a full patch of 14 x 14 needs 3 MB there."""


class Predictor(nn.Module):
    """Linear heads on the features."""

    def __init__(self, sizes: DetectorSizes) -> None:
        """Create the heads."""
        super().__init__()
        self.cls_score = nn.Linear(sizes.width, sizes.classes + 1)
        self.bbox_pred = nn.Linear(sizes.width, 4 * sizes.classes)
        self.cls_embedding = nn.Embedding(sizes.classes + 1, sizes.embedding)
        self.fc_attr = nn.Linear(sizes.width + sizes.embedding, sizes.mixed)
        self.attr_score = nn.Linear(sizes.mixed, sizes.attributes + 1)

    def classes(self, features: torch.Tensor) -> torch.Tensor:
        """Return logits of the classes, background last: shape (regions, classes + 1)."""
        logits: torch.Tensor = self.cls_score(features)
        return logits

    def deltas(self, features: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        """Return deltas of the box for one class of each region: shape (regions, 4)."""
        of_classes = self.bbox_pred(features).view(len(features), -1, 4)
        deltas: torch.Tensor = of_classes[torch.arange(len(features), device=features.device), classes]
        return deltas

    def attributes(self, features: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """Return probabilities of the attributes: shape (regions, attributes).

        Args:
            features: Features of regions.
            logits: Logits of their classes; the highest tells the embedding, background included.
        """
        inputs = torch.cat([features, self.cls_embedding(logits.argmax(dim=-1))], dim=-1)
        scores = self.attr_score(functional.relu_(self.fc_attr(inputs)))
        probabilities: torch.Tensor = scores[:, :-1].softmax(dim=-1)
        return probabilities


class RegionHeads(nn.Module):
    """The last stage of the network on the pooled map, without stride and with dilation, and the heads."""

    def __init__(self, sizes: DetectorSizes) -> None:
        """Create the last stage and the heads."""
        super().__init__()
        inputs = sizes.stages["res4"].outputs
        self.res5 = build_stage(inputs, sizes.stages["res5"], 1, dilation=2)
        self.box_predictor = Predictor(sizes)

    def features(self, pooled: torch.Tensor) -> torch.Tensor:
        """Return the feature of each proposal.

        Args:
            pooled: The map under each, of shape (proposals, channels, side, side).
        Returns:
            float32 of shape (proposals, width).
        """
        parts = (pooled[first : first + BOXES_PER_BATCH] for first in range(0, len(pooled), BOXES_PER_BATCH))
        return torch.cat([self.res5(part).mean(dim=(2, 3)) for part in parts])


STRIDE = 16
"""Pixels of the image between two cells of the map."""


class AnchorGenerator(nn.Module):
    """The anchors of a cell, which are part of the checkpoint."""

    def __init__(self, count: int) -> None:
        """Create anchors of size 0, until weights are loaded."""
        super().__init__()
        self.cell_anchors = nn.ParameterList([nn.Parameter(torch.zeros(count, 4))])

    def forward(self, height: int, width: int, offset: float) -> torch.Tensor:
        """Return the anchors of a map: (height x width x anchors, 4), row by row, cell by cell."""
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
        """Create a head on a map.

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
        """Return scores of shape (candidates,) and deltas of shape (candidates, 4), in the order of anchors."""
        inner = functional.relu_(self.conv(states))
        scores = self.objectness_logits(inner).permute(0, 2, 3, 1).flatten()
        deltas = self.anchor_deltas(inner).permute(0, 2, 3, 1).reshape(-1, 4)
        return scores, deltas


class ProposalGenerator(nn.Module):
    """Generator of box proposals."""

    def __init__(self, inputs: int, hidden: int, anchors: int, settings: DetectorSettings) -> None:
        """Create a proposal generator on a map.

        Args:
            inputs: Channels of the map.
            hidden: Channels inside of the head.
            anchors: Anchors of a cell.
            settings: Settings of the selection of candidates.
        """
        super().__init__()
        self.anchor_generator = AnchorGenerator(anchors)
        self.rpn_head = ProposalHead(inputs, hidden, anchors)
        self.settings = settings

    def forward(self, states: torch.Tensor, height: int, width: int) -> torch.Tensor:
        """Return proposed boxes of an image, best first.

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
        boxes = clip_boxes(decode_boxes(deltas[best], anchors[best], settings.proposal_weights), height, width)
        is_large_enough = ((boxes[:, 2:] - boxes[:, :2]) > settings.smallest).all(dim=1)
        boxes, scores = boxes[is_large_enough], scores[best][is_large_enough]
        selected = suppress_overlaps(boxes, scores, settings.proposal_overlap, settings.proposals)
        return boxes[selected.to(boxes.device)]
