"""The Faster R-CNN that ViLBERT takes its regions from, in plain PyTorch: a ResNeXt with a feature pyramid.

A box is left, top, right and bottom, and its last column and row belong to it: it is right - left + 1 pixels wide.
Functions of `networks.detector`, whose boxes are continuous, read it as left, top, right + 1 and bottom + 1.

Source:
    Lu et al., 12-in-1 (CVPR 2020); Lin et al., Feature pyramid networks (CVPR 2017); Xie et al., Aggregated residual
    transformations (CVPR 2017). What is computed follows `script/extract_features.py` of
    facebookresearch/vilbert-multi-task and the inference of vqa-maskrcnn-benchmark: ResNeXt-152 32x8d, 1,600 classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional

from waltz.core.errors import UserError
from waltz.models.networks.detector import (
    AnchorGenerator,
    FrozenBatchNorm,
    StageSizes,
    clip_boxes,
    decode_boxes,
    do_boxes_overlap,
    read_levels,
    score_anchors,
    suppress_overlaps,
)

DETECTOR_NAME = "vqa-maskrcnn-benchmark"
"""Name of the detector in stored regions."""
STAGES = ("layer1", "layer2", "layer3", "layer4")
"""Names of the stages of the backbone, whose maps are the inputs of the pyramid."""
STRIDES = (4, 8, 16, 32, 64)
"""Pixels of the image between two cells of each map of the pyramid."""
SIDE_MULTIPLE = 32
"""Sides of an image are padded to multiples of this."""
CANONICAL_SIDE, CANONICAL_MAP = 224, 2
"""Boxes of this side are pooled from the map of this number; those of half or twice the side from the next one."""
DELTA_WEIGHTS = (1.0, 1.0, 1.0, 1.0)
"""Divisors of the proposals' deltas."""
BOXES_PER_BATCH = 100
"""Proposals that are pooled at once; one of 7 x 7 cells of 512 channels needs 100 kB."""


@dataclass(frozen=True)
class PyramidSettings:
    """Settings of the released script and of its configuration.

    Attributes:
        shortest: Shorter side in pixels that an image is resized to.
        longest: Maximum of the longer side in pixels.
        mean: Of blue, green and red, in levels of 0 to 255; subtracted.
        candidates: Number of anchors with the highest scores to consider on each map.
        map_proposals: Maximum number of proposals of each map.
        proposals: Maximum number of proposals of an image.
        proposal_overlap: Intersection over union above which the worse of two candidates is removed.
        smallest: Candidates with a shorter side are removed.
        samples: Points a side of each cell that RoIAlign averages.
        class_overlap: Intersection over union above which the worse of two proposals is removed for a class.
        most: Maximum number of regions of an image.
    """

    shortest: int = 800
    longest: int = 1333
    mean: tuple[float, ...] = (102.9801, 115.9465, 122.7717)
    candidates: int = 1000
    map_proposals: int = 1000
    proposals: int = 1000
    proposal_overlap: float = 0.7
    smallest: float = 0.0
    samples: int = 2
    class_overlap: float = 0.5
    most: int = 100


@dataclass(frozen=True)
class PyramidSizes:
    """Sizes of a detector with a pyramid.

    Attributes:
        stem: Channels of the stem.
        stages: Sizes of the stages `STAGES`.
        channels: Channels of each map of the pyramid.
        anchors: Anchors of a cell.
        resolution: Cells a side that a proposal is pooled to.
        width: Number of features of a region.
        hidden: Width of the second layer on a pooled proposal.
        classes: Number of classes, without background.
    """

    stem: int
    stages: Mapping[str, StageSizes]
    channels: int
    anchors: int
    resolution: int
    width: int
    hidden: int
    classes: int


@dataclass(frozen=True, eq=False)
class PaddedImage:
    """An image as the detector reads it.

    Attributes:
        pixels: Blue, green and red without the mean, resized and padded: float32 of shape (3, height, width).
        scale: Pixels of the resized image in a pixel of the image.
    """

    pixels: torch.Tensor
    scale: float


@dataclass(frozen=True, eq=False)
class PyramidDetections:
    """Regions of one image, best first.

    Attributes:
        boxes: Proposals in pixels of the image: float32 of shape (regions, 4). They may reach into its padding.
        features: float32 of shape (regions, width).
        class_probabilities: float32 of shape (regions, 1 + classes); the first is that of the background.
        scores: Highest probability among the classes for which no better proposal overlaps; 0 if there is none.
    """

    boxes: torch.Tensor
    features: torch.Tensor
    class_probabilities: torch.Tensor
    scores: torch.Tensor


def compute_scale(height: int, width: int, shortest: int, longest: int) -> float:
    """Return the factor of both sides of an image; the shorter becomes `shortest` unless the longer exceeds its limit.

    Like in the released code, the longer side is compared after rounding, half to even.
    """
    scale = shortest / min(height, width)
    return longest / max(height, width) if round(scale * max(height, width)) > longest else scale


def subtract_mean(image: Image.Image, settings: PyramidSettings) -> torch.Tensor:
    """Return blue, green and red without the mean, at the image's own size, which determines the factor of its sides.

    Returns:
        float32 of shape (3, height, width).
    """
    return read_levels(image) - torch.tensor(settings.mean)[:, None, None]


def resize_image(pixels: torch.Tensor, settings: PyramidSettings) -> PaddedImage:
    """Return an image from `subtract_mean`, resized and padded.

    It is resized as OpenCV does with a factor: sides are rounded half to even, pixel j of the result is read at
    (j + 0.5) / factor - 0.5 whatever the rounded side, and nothing is antialiased. Zeros on the right and below pad the
    sides to multiples of 32.
    """
    height, width = pixels.shape[-2:]
    scale = compute_scale(height, width, settings.shortest, settings.longest)
    size = [max(1, round(side * scale)) for side in (height, width)]
    resized = torch.ops.aten.upsample_bilinear2d(pixels[None], size, False, scale, scale)[0]
    bottom, right = (-side % SIDE_MULTIPLE for side in size)
    return PaddedImage(functional.pad(resized, (0, right, 0, bottom)), scale)


class PyramidDetector(nn.Module):
    """A Faster R-CNN on a feature pyramid, with the released names of weights; `name` identifies its file."""

    def __init__(self, name: str, sizes: PyramidSizes, settings: PyramidSettings) -> None:
        """Create a detector without weights."""
        super().__init__()
        self.name, self.sizes, self.settings = name, sizes, settings
        self.backbone = PyramidBackbone(sizes)
        self.rpn = PyramidProposalGenerator(sizes, settings)
        self.roi_heads = nn.ModuleDict({"box": BoxHead(sizes)})

    def prepare_image(self, image: Image.Image) -> torch.Tensor:
        """Return an image as `forward` takes it; see `subtract_mean`."""
        return subtract_mean(image, self.settings)

    @torch.inference_mode()
    def forward(self, image: torch.Tensor) -> PyramidDetections:
        """Return the regions of one image from `subtract_mean`, on the detector's device.

        Images are not batched: the released code pads them to the largest of a batch, which moves the limit that boxes
        are clipped to.

        Raises:
            UserError: There are numbers that are not finite.
        """
        # boxes change a lot where a score changes a little
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            return self._detect(resize_image(image, self.settings))

    def _detect(self, image: PaddedImage) -> PyramidDetections:
        maps = self.backbone(image.pixels[None])
        proposals = self.rpn(maps, *image.pixels.shape[-2:])
        features, probabilities = self.roi_heads["box"](maps, proposals, self.settings.samples)
        if not (proposals.isfinite().all() and features.isfinite().all() and probabilities.isfinite().all()):
            raise UserError(f"{self.name} gives numbers that are not finite; fetch its weights again")
        boxes = proposals / image.scale
        selected, scores = select_by_class(
            extend_boxes(boxes), probabilities[:, 1:], self.settings.class_overlap, self.settings.most
        )
        selected = selected.to(boxes.device)
        return PyramidDetections(boxes[selected], features[selected], probabilities[selected], scores)


class NormedConvolution(nn.Sequential):
    """A convolution without bias and its batch norm without epsilon, as in a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        """Create a convolution of one cell with a stride."""
        super().__init__(nn.Conv2d(inputs, outputs, 1, stride, bias=False), FrozenBatchNorm(outputs, epsilon=0.0))


class PyramidBottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions; the 3x3 is grouped and has the stride."""

    def __init__(self, inputs: int, sizes: StageSizes, stride: int, is_first: bool) -> None:
        """Create a bottleneck of a stage, the first of which has a convolution as its shortcut."""
        super().__init__()
        self.downsample = NormedConvolution(inputs, sizes.outputs, stride) if is_first else None
        self.conv1 = nn.Conv2d(inputs, sizes.width, 1, bias=False)
        self.bn1 = FrozenBatchNorm(sizes.width, epsilon=0.0)
        self.conv2 = nn.Conv2d(sizes.width, sizes.width, 3, stride, padding=1, groups=sizes.groups, bias=False)
        self.bn2 = FrozenBatchNorm(sizes.width, epsilon=0.0)
        self.conv3 = nn.Conv2d(sizes.width, sizes.outputs, 1, bias=False)
        self.bn3 = FrozenBatchNorm(sizes.outputs, epsilon=0.0)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return states of shape (batch, outputs, height / stride, width / stride), rounded up."""
        inner = functional.relu_(self.bn1(self.conv1(states)))
        inner = functional.relu_(self.bn2(self.conv2(inner)))
        residual = states if self.downsample is None else self.downsample(states)
        return functional.relu_(self.bn3(self.conv3(inner)) + residual)


class PyramidStem(nn.Module):
    """The first convolution and a padded pool."""

    def __init__(self, outputs: int) -> None:
        """Create a stem."""
        super().__init__()
        self.conv1 = nn.Conv2d(3, outputs, 7, stride=2, padding=3, bias=False)
        self.bn1 = FrozenBatchNorm(outputs, epsilon=0.0)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return states at a quarter of the size."""
        return functional.max_pool2d(functional.relu_(self.bn1(self.conv1(pixels))), 3, stride=2, padding=1)


class Body(nn.Module):
    """The stem and the stages."""

    def __init__(self, sizes: PyramidSizes) -> None:
        """Create a ResNeXt without its last layers."""
        super().__init__()
        self.stem = PyramidStem(sizes.stem)
        inputs = sizes.stem
        for name in STAGES:
            stage, stride = sizes.stages[name], 1 if name == STAGES[0] else 2
            blocks = [PyramidBottleneck(inputs, stage, stride, is_first=True)]
            blocks += [PyramidBottleneck(stage.outputs, stage, 1, is_first=False) for _ in range(stage.blocks - 1)]
            setattr(self, name, nn.Sequential(*blocks))
            inputs = stage.outputs

    def forward(self, pixels: torch.Tensor) -> list[torch.Tensor]:
        """Return the map of each stage, at a quarter to a 32nd of the size."""
        states, maps = self.stem(pixels), []
        for name in STAGES:
            states = getattr(self, name)(states)
            maps.append(states)
        return maps


class Pyramid(nn.Module):
    """Maps of equal depth: each is that of its stage and the enlarged one above it."""

    def __init__(self, sizes: PyramidSizes) -> None:
        """Create the convolutions of each map."""
        super().__init__()
        for number, name in enumerate(STAGES, start=1):
            setattr(self, f"fpn_inner{number}", nn.Conv2d(sizes.stages[name].outputs, sizes.channels, 1))
            setattr(self, f"fpn_layer{number}", nn.Conv2d(sizes.channels, sizes.channels, 3, padding=1))

    def forward(self, stage_maps: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return five maps with strides `STRIDES`; the last is every second row and column of the one before."""
        maps: list[torch.Tensor] = []
        above: torch.Tensor | None = None
        for number in range(len(stage_maps), 0, -1):
            inner: torch.Tensor = getattr(self, f"fpn_inner{number}")(stage_maps[number - 1])
            if above is not None:
                inner = inner + functional.interpolate(above, scale_factor=2, mode="nearest")
            above = inner
            maps.insert(0, getattr(self, f"fpn_layer{number}")(inner))
        return [*maps, maps[-1][..., ::2, ::2]]


class PyramidBackbone(nn.Module):
    """A ResNeXt and the pyramid on its stages."""

    def __init__(self, sizes: PyramidSizes) -> None:
        """Create a backbone."""
        super().__init__()
        self.body = Body(sizes)
        self.fpn = Pyramid(sizes)

    def forward(self, pixels: torch.Tensor) -> list[torch.Tensor]:
        """Return five maps of shape (1, channels, rows, columns) of an image whose sides are multiples of 32."""
        maps: list[torch.Tensor] = self.fpn(self.body(pixels))
        return maps


class PyramidProposalHead(nn.Module):
    """Scores and deltas of the anchors of each cell; all maps share it."""

    def __init__(self, channels: int, anchors: int) -> None:
        """Create a head on a map."""
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.cls_logits = nn.Conv2d(channels, anchors, 1)
        self.bbox_pred = nn.Conv2d(channels, 4 * anchors, 1)

    def forward(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return probabilities of shape (candidates,) and deltas of shape (candidates, 4), in the order of anchors."""
        scores, deltas = score_anchors(states, self.conv, self.cls_logits, self.bbox_pred)
        return scores.sigmoid(), deltas


class PyramidProposalGenerator(nn.Module):
    """Generator of box proposals on all maps of a pyramid."""

    def __init__(self, sizes: PyramidSizes, settings: PyramidSettings) -> None:
        """Create a proposal generator."""
        super().__init__()
        self.anchor_generator = AnchorGenerator(sizes.anchors, STRIDES)
        self.head = PyramidProposalHead(sizes.channels, sizes.anchors)
        self.settings = settings

    def forward(self, maps: list[torch.Tensor], height: int, width: int) -> torch.Tensor:
        """Return proposed boxes on a padded image of this height and width, best first: shape (boxes, 4)."""
        proposals = [self._propose(states, number, height, width) for number, states in enumerate(maps)]
        boxes, scores = (torch.cat(parts) for parts in zip(*proposals, strict=True))
        return boxes[scores.sort(descending=True, stable=True).indices[: self.settings.proposals]]

    def _propose(self, states: torch.Tensor, number: int, height: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return boxes and scores of the proposals of one map."""
        settings = self.settings
        scores, deltas = self.head(states)
        anchors = self.anchor_generator(*states.shape[-2:], 0.0, number)
        best = scores.sort(descending=True, stable=True).indices[: settings.candidates]
        boxes = decode_boxes(deltas[best], extend_boxes(anchors[best]), DELTA_WEIGHTS)
        boxes = clip_boxes(shrink_boxes(boxes), height - 1, width - 1)
        scores = scores[best]
        extended = extend_boxes(boxes)
        is_large_enough = ((extended[:, 2:] - extended[:, :2]) >= settings.smallest).all(dim=1)
        boxes, scores, extended = boxes[is_large_enough], scores[is_large_enough], extended[is_large_enough]
        selected = suppress_overlaps(extended, scores, settings.proposal_overlap, settings.map_proposals)
        selected = selected.to(boxes.device)
        return boxes[selected], scores[selected]


class FeatureExtractor(nn.Module):
    """Two layers on pooled proposals."""

    def __init__(self, sizes: PyramidSizes) -> None:
        """Create the layers."""
        super().__init__()
        self.fc6 = nn.Linear(sizes.channels * sizes.resolution**2, sizes.width)
        self.fc7 = nn.Linear(sizes.width, sizes.hidden)


class ClassPredictor(nn.Module):
    """The layer that classifies proposals."""

    def __init__(self, sizes: PyramidSizes) -> None:
        """Create the layer."""
        super().__init__()
        self.cls_score = nn.Linear(sizes.hidden, 1 + sizes.classes)


class BoxHead(nn.Module):
    """Features and classes of proposals."""

    def __init__(self, sizes: PyramidSizes) -> None:
        """Create the head."""
        super().__init__()
        self.feature_extractor = FeatureExtractor(sizes)
        self.predictor = ClassPredictor(sizes)
        self.resolution = sizes.resolution

    def forward(self, maps: list[torch.Tensor], boxes: torch.Tensor, samples: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return features, the first layer after its ReLU, and probabilities of the classes, background first.

        Args:
            maps: The maps of the pyramid; the last one only proposes.
            boxes: Boxes on the padded image, of shape (boxes, 4).
            samples: Points a side of each cell that are averaged.
        Returns:
            float32 of shape (boxes, width) and (boxes, 1 + classes).
        """
        layers = self.feature_extractor
        features = boxes.new_zeros(len(boxes), layers.fc6.out_features)
        numbers = assign_maps(boxes)
        for number in range(len(STAGES)):
            rows = (numbers == number).nonzero()[:, 0]
            states = maps[number][0].permute(1, 2, 0).contiguous()
            for start in range(0, len(rows), BOXES_PER_BATCH):
                batch = rows[start : start + BOXES_PER_BATCH]
                pooled = align_boxes(states, boxes[batch], self.resolution, 1 / STRIDES[number], samples)
                features[batch] = functional.relu_(layers.fc6(pooled.flatten(1)))
        logits = self.predictor.cls_score(functional.relu_(layers.fc7(features)))
        return features, logits.softmax(dim=-1)


def extend_boxes(boxes: torch.Tensor) -> torch.Tensor:
    """Return continuous boxes, which end where the last column and row do."""
    return boxes + boxes.new_tensor([0, 0, 1, 1])


def shrink_boxes(boxes: torch.Tensor) -> torch.Tensor:
    """Return boxes given continuous ones."""
    return boxes - boxes.new_tensor([0, 0, 1, 1])


def assign_maps(boxes: torch.Tensor) -> torch.Tensor:
    """Return the number of the map that each box is pooled from, by its area; int64 of shape (boxes,).

    Source:
        Lin et al., Feature pyramid networks (CVPR 2017), equation 1.
    """
    sides = extend_boxes(boxes)
    areas = (sides[:, 2] - sides[:, 0]) * (sides[:, 3] - sides[:, 1])
    numbers = (CANONICAL_MAP + torch.log2(areas.sqrt() / CANONICAL_SIDE + 1e-6)).floor()
    return numbers.clamp(0, len(STAGES) - 1).long()


def align_boxes(states: torch.Tensor, boxes: torch.Tensor, side: int, scale: float, samples: int) -> torch.Tensor:
    """Return the map under each box, averaged in a grid (RoIAlign, `aligned=False` of torchvision).

    A box is its corners times `scale`, neither rounded nor moved, and at least a cell wide and high. Each cell of the
    grid is the mean of `samples` x `samples` points in it. A point is interpolated between the four states around it,
    which lie at whole coordinates; it is 0 if it is more than a cell outside the map, and else moved onto the map.

    Args:
        states: The map, of shape (rows, columns, channels).
        boxes: In pixels of the image: float32 of shape (boxes, 4).
        side: Cells a side of the grid.
        scale: Cells of the map in a pixel.
        samples: Points a side of each cell.
    Returns:
        Shape (boxes, channels, side, side).
    """
    corners = boxes * scale
    rows, row_weights = _sample_axis(corners[:, 1], corners[:, 3], side, samples, states.shape[0])
    columns, column_weights = _sample_axis(corners[:, 0], corners[:, 2], side, samples, states.shape[1])
    indices = rows[:, :, None, :, None] * states.shape[1] + columns[:, None, :, None, :]
    weights = row_weights[:, :, None, :, None] * column_weights[:, None, :, None, :]
    indices, weights = indices.flatten(3).flatten(0, 2), weights.flatten(3).flatten(0, 2)
    pooled = functional.embedding_bag(indices, states.flatten(0, 1), per_sample_weights=weights, mode="sum")
    return pooled.view(len(boxes), side, side, -1).permute(0, 3, 1, 2)


def _sample_axis(
    first: torch.Tensor, last: torch.Tensor, side: int, samples: int, extent: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows (or columns) of a map whose weighted sum is each cell between the first and last of boxes.

    Returns:
        int64 and float32 of shape (boxes, side, 2 x samples).
    """
    step = (last - first).clamp(min=1)[:, None, None] / side
    cells = torch.arange(side, device=first.device, dtype=first.dtype)[:, None]
    points = (torch.arange(samples, device=first.device, dtype=first.dtype) + 0.5) / samples
    places = first[:, None, None] + cells * step + points * step
    is_inside = (places >= -1) & (places <= extent)
    places = places.clamp(0, extent - 1)
    lower = places.floor()
    share = places - lower
    upper = (lower + 1).clamp(max=extent - 1)
    weights = torch.cat([1 - share, share], dim=-1) * torch.cat([is_inside, is_inside], dim=-1) / samples
    return torch.cat([lower, upper], dim=-1).long(), weights


def select_by_class(
    boxes: torch.Tensor, probabilities: torch.Tensor, limit: float, most: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the boxes with the highest probability of a class for which no better box overlaps.

    The result is that of a non-maximum suppression for each class. Pairs of a box and a class are visited by falling
    probability: a pair survives if no surviving one of its class overlaps it, and a box is selected at its first
    surviving pair. A few hundred pairs are visited instead of 1,600 suppressions. Of equal probabilities the first box
    is better.

    Args:
        boxes: Continuous boxes, of shape (boxes, 4).
        probabilities: Shape (boxes, classes).
        limit: Highest intersection over union that two surviving boxes of a class may have.
        most: Maximum number of boxes.
    Returns:
        Indices of the selected boxes, best first, and their probabilities, both on the CPU; a box that survives for no
        class has the probability 0.
    """
    boxes, probabilities = boxes.cpu(), probabilities.cpu()
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    do_overlap = do_boxes_overlap(boxes[:, None], areas[:, None], boxes, areas, limit).numpy()
    values, pairs = probabilities.flatten().sort(descending=True, stable=True)
    removed: dict[int, np.ndarray] = {}
    selected: dict[int, float] = {}
    for value, pair in zip(values.numpy(), pairs.numpy(), strict=True):
        if len(selected) == most or not value > 0:
            break
        box, class_number = divmod(int(pair), probabilities.shape[1])
        removed_of_class = removed.setdefault(class_number, np.zeros(len(boxes), dtype=bool))
        if not removed_of_class[box]:
            removed_of_class |= do_overlap[box]
            selected.setdefault(box, float(value))
    for box in range(len(boxes)):
        if len(selected) >= most:
            break
        selected.setdefault(box, 0.0)
    return torch.tensor(list(selected), dtype=torch.int64), torch.tensor(list(selected.values()))
