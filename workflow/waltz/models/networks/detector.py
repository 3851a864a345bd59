"""The Faster R-CNN of Visual Genome that LXMERT and VisualBERT take their regions from, in plain PyTorch.

Boxes are left, top, right, bottom, continuous; everything is computed in float32, as in the released code.

Source:
    Anderson et al., Bottom-up and top-down attention (CVPR 2018); Ren et al., Faster R-CNN (NeurIPS 2015). What is
    computed follows the released weights `unc-nlp/frcnn-vg-finetuned`: ResNet-101-C4, 1,600 classes, 400 attributes.
"""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import nn
from torch.nn import functional

from waltz.core.errors import UserError, get_first_line
from waltz.core.files.open_image import open_image

MAX_SIZE_DELTA = math.log(1000 / 16)
"""Maximum delta of a width or height."""
EPSILON = 1e-5
"""Added to the variance in each batch norm of this detector."""
STRIDE = 16
"""Pixels of the image between two cells of the map."""
BOXES_PER_BATCH = 60
"""Proposals that pass the last stage at once; a full patch of 14 x 14 needs 3 MB there."""


@dataclass(frozen=True)
class DetectorSettings:
    """Settings that the released code reads from its configuration; defaults are those of the released weights.

    Attributes:
        shortest: Shorter side in pixels that an image is resized to.
        longest: Maximum of the longer side in pixels.
        mean: Of blue, green and red, in levels of 0 to 255; subtracted.
        deviation: Divisor after the mean is subtracted.
        anchor_offset: Where in a cell its anchors are centred, as a share of the stride.
        candidates: Number of anchors with the highest scores to consider.
        proposals: Maximum number of proposals.
        proposal_overlap: Intersection over union above which the worse of two candidates is removed.
        proposal_weights: Divisors of the proposals' deltas dx, dy, dw, dh.
        smallest: Candidates with a side of at most this length are removed.
        resolution: Cells a side that a proposal is pooled to.
        box_weights: Divisors of the regions' deltas.
        overlaps: The same limits for regions; the next one is tried if too few are left.
        fewest: Minimum number of regions of an image.
        most: Maximum number of regions of an image.
    """

    shortest: int = 800
    longest: int = 1333
    mean: tuple[float, ...] = (102.9801, 115.9465, 122.7717)
    deviation: tuple[float, ...] = (1.0, 1.0, 1.0)
    anchor_offset: float = 0.0
    candidates: int = 6000
    proposals: int = 300
    proposal_overlap: float = 0.7
    proposal_weights: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)
    smallest: float = 0.0
    resolution: int = 14
    box_weights: tuple[float, ...] = (10.0, 10.0, 5.0, 5.0)
    overlaps: tuple[float, ...] = (0.5, 0.6, 0.7)
    fewest: int = 36
    most: int = 36


@dataclass(frozen=True)
class StageSizes:
    """Number of bottlenecks of a stage, channels inside and out of each, and groups of its 3x3 convolution."""

    blocks: int
    width: int
    outputs: int
    groups: int


@dataclass(frozen=True)
class DetectorSizes:
    """Sizes of a detector.

    Attributes:
        stem: Channels of the stem.
        stages: Sizes of the stages `res2` to `res5`.
        hidden: Channels inside the proposal head.
        classes: Number of classes, without background.
        attributes: Number of attributes, without "none".
        embedding: Width of a class's embedding.
        mixed: Width inside the attribute head.
    """

    stem: int
    stages: Mapping[str, StageSizes]
    anchors: int
    hidden: int
    classes: int
    attributes: int
    embedding: int
    mixed: int

    @property
    def width(self) -> int:
        """Number of features of a region."""
        return self.stages["res5"].outputs


def read_image(file: Path, is_upright: bool) -> Image.Image:
    """Return an image file in RGB: grey in three channels, no alpha, and rotated by its EXIF data if `is_upright`.

    OpenCV rotates it. `sources.images` differs where there is alpha, which becomes white there.

    Raises:
        UserError: It is no image that can be read, or too large a one.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with open_image(file) as opened:
                return convert_to_rgb(ImageOps.exif_transpose(opened) if is_upright else opened)
    except UnidentifiedImageError:
        raise UserError(f"{file}: is no image of a known format; name an image") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise UserError(f"{file}: has more than {Image.MAX_IMAGE_PIXELS} pixels; make it smaller") from None
    except Exception as error:  # image decoders can raise anything
        raise UserError(f"{file}: cannot be read: {get_first_line(error)}; get the image again") from None


def compute_resized_size(height: int, width: int, shortest: int, longest: int) -> tuple[int, int]:
    """Return height and width of an image whose shorter side is resized to `shortest`, or its longer to `longest`."""
    scale = shortest / min(height, width)
    down, right = (shortest, scale * width) if height < width else (scale * height, shortest)
    if max(down, right) > longest:
        reduction = longest / max(down, right)
        down, right = down * reduction, right * reduction
    return int(down + 0.5), int(right + 0.5)


def prepare_image(image: Image.Image, settings: DetectorSettings) -> torch.Tensor:
    """Return an upright image prepared for the detector: blue, green, red, resized as floats without antialiasing."""
    size = compute_resized_size(image.height, image.width, settings.shortest, settings.longest)
    resized = functional.interpolate(read_levels(image)[None], size, mode="bilinear", align_corners=False)[0]
    mean, deviation = (torch.tensor(values)[:, None, None] for values in (settings.mean, settings.deviation))
    return (resized - mean) / deviation


def read_levels(image: Image.Image) -> torch.Tensor:
    """Return the levels of blue, green and red, 0 to 255: float32 of shape (3, height, width)."""
    levels = np.asarray(convert_to_rgb(image), dtype=np.float32)
    return torch.from_numpy(levels[..., ::-1].transpose(2, 0, 1).copy())


def convert_to_rgb(image: Image.Image) -> Image.Image:
    """Return an image in three channels of 8 bits.

    Raises:
        ValueError: Its levels have no fixed range.
    """
    if image.mode.startswith("I;16"):  # Pillow cuts such levels off at 255
        return Image.fromarray((np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8)).convert("RGB")
    if image.mode in ("I", "F"):
        raise ValueError(f"pixels of mode {image.mode} have no fixed range")
    return image.convert("RGB")


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
    """A Faster R-CNN on the map of `res4`, with the released names of weights; `name` is stored with its regions."""

    def __init__(self, name: str, sizes: DetectorSizes, settings: DetectorSettings) -> None:
        """Create a detector without weights."""
        super().__init__()
        self.name, self.sizes, self.settings = name, sizes, settings
        self.backbone = Backbone(sizes)
        inputs = sizes.stages["res4"].outputs
        self.proposal_generator = ProposalGenerator(inputs, sizes.hidden, sizes.anchors, settings)
        self.roi_heads = RegionHeads(sizes)

    def prepare_image(self, image: Image.Image) -> torch.Tensor:
        """Return an upright image as `forward` takes it: float32 of shape (3, height, width)."""
        return prepare_image(image, self.settings)

    @torch.inference_mode()
    def forward(self, image: torch.Tensor) -> Detections:
        """Return the regions of one image from `prepare_image`.

        Images are not batched: the released code pads smaller images with zeros, which changes their features.

        Raises:
            UserError: Too few regions are left, or there are numbers that are not finite.
        """
        # boxes change a lot where a score changes a little
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
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
        logits = heads.cls_score(features)  # background last
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


class FrozenBatchNorm(nn.Module):
    """Batch norm with stored mean and variance."""

    def __init__(self, channels: int, epsilon: float = EPSILON) -> None:
        """Create a batch norm with unit weights, which adds `epsilon` to the variance."""
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return normalised states, of the same shape (batch, channels, height, width)."""
        mean, variance = self.get_buffer("running_mean"), self.get_buffer("running_var")
        return functional.batch_norm(states, mean, variance, self.weight, self.bias, False, 0.0, self.epsilon)


class Convolution(nn.Conv2d):
    """A convolution without bias, then batch norm."""

    def __init__(
        self, inputs: int, outputs: int, side: int, *, stride: int = 1, dilation: int = 1, groups: int = 1
    ) -> None:
        """Create a convolution that keeps the size except for its stride."""
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
        """Create a bottleneck of a stage."""
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
    """Return a stage of bottlenecks, of which the first has the stride."""
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

    def __init__(self, sizes: DetectorSizes) -> None:
        """Create a backbone."""
        super().__init__()
        stages = sizes.stages
        self.stem = Stem(sizes.stem)
        self.res2 = build_stage(sizes.stem, stages["res2"], stride=1)
        self.res3 = build_stage(stages["res2"].outputs, stages["res3"], stride=2)
        self.res4 = build_stage(stages["res3"].outputs, stages["res4"], stride=2)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the map of an image, a sixteenth of its size; ceil mode of the stem's pool makes 11 of 168."""
        states: torch.Tensor = self.res4(self.res3(self.res2(self.stem(pixels))))
        return states


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

    def deltas(self, features: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        """Return deltas of the box for one class of each region: shape (regions, 4)."""
        of_classes = self.bbox_pred(features).view(len(features), -1, 4)
        deltas: torch.Tensor = of_classes[torch.arange(len(features), device=features.device), classes]
        return deltas

    def attributes(self, features: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """Return probabilities of the attributes of regions, given logits of their classes, background included."""
        inputs = torch.cat([features, self.cls_embedding(logits.argmax(dim=-1))], dim=-1)
        scores = self.attr_score(functional.relu_(self.fc_attr(inputs)))
        probabilities: torch.Tensor = scores[:, :-1].softmax(dim=-1)
        return probabilities


class RegionHeads(nn.Module):
    """The last stage of the network on the pooled map, without stride and with dilation, and the heads."""

    def __init__(self, sizes: DetectorSizes) -> None:
        """Create the last stage and the heads."""
        super().__init__()
        self.res5 = build_stage(sizes.stages["res4"].outputs, sizes.stages["res5"], stride=1, dilation=2)
        self.box_predictor = Predictor(sizes)

    def features(self, pooled: torch.Tensor) -> torch.Tensor:
        """Return the features of proposals, given the map under each: from (n, channels, side, side) to (n, width)."""
        parts = (pooled[first : first + BOXES_PER_BATCH] for first in range(0, len(pooled), BOXES_PER_BATCH))
        return torch.cat([self.res5(part).mean(dim=(2, 3)) for part in parts])


class AnchorGenerator(nn.Module):
    """The anchors of a cell of each map, which are part of the checkpoint."""

    def __init__(self, count: int, strides: tuple[int, ...] = (STRIDE,)) -> None:
        """Create anchors of size 0, until weights are loaded, on maps with these strides."""
        super().__init__()
        self.strides = strides
        self.cell_anchors = nn.ParameterList([nn.Parameter(torch.zeros(count, 4)) for _ in strides])

    def forward(self, height: int, width: int, offset: float, number: int = 0) -> torch.Tensor:
        """Return the anchors of the map of a number: (height x width x anchors, 4), row by row, cell by cell."""
        own = self.cell_anchors[number]
        down, right = (
            ((torch.arange(cells, device=own.device) + offset) * self.strides[number]).to(own.dtype)
            for cells in (height, width)
        )
        rows, columns = torch.meshgrid(down, right, indexing="ij")
        shifts = torch.stack([columns, rows, columns, rows], dim=-1)
        placed: torch.Tensor = (shifts[:, :, None] + own).reshape(-1, 4)
        return placed


class ProposalHead(nn.Module):
    """Scores and deltas of the anchors of each cell."""

    def __init__(self, inputs: int, hidden: int, anchors: int) -> None:
        """Create a head on a map."""
        super().__init__()
        self.conv = nn.Conv2d(inputs, hidden, 3, padding=1)
        self.objectness_logits = nn.Conv2d(hidden, anchors, 1)
        self.anchor_deltas = nn.Conv2d(hidden, 4 * anchors, 1)

    def forward(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return scores of shape (candidates,) and deltas of shape (candidates, 4), in the order of anchors."""
        return score_anchors(states, self.conv, self.objectness_logits, self.anchor_deltas)


def score_anchors(
    states: torch.Tensor, convolution: nn.Conv2d, score_layer: nn.Conv2d, delta_layer: nn.Conv2d
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return scores of shape (candidates,) and deltas of shape (candidates, 4) of a map, in the order of anchors."""
    inner = functional.relu_(convolution(states))
    scores, deltas = (layer(inner).permute(0, 2, 3, 1) for layer in (score_layer, delta_layer))
    return scores.flatten(), deltas.reshape(-1, 4)


class ProposalGenerator(nn.Module):
    """Generator of box proposals."""

    def __init__(self, inputs: int, hidden: int, anchors: int, settings: DetectorSettings) -> None:
        """Create a proposal generator on a map."""
        super().__init__()
        self.anchor_generator = AnchorGenerator(anchors)
        self.rpn_head = ProposalHead(inputs, hidden, anchors)
        self.settings = settings

    def forward(self, states: torch.Tensor, height: int, width: int) -> torch.Tensor:
        """Return proposed boxes on the map of an image of this height and width, best first: shape (boxes, 4)."""
        settings = self.settings
        scores, deltas = self.rpn_head(states)
        anchors = self.anchor_generator(*states.shape[-2:], settings.anchor_offset)
        best = scores.sort(descending=True, stable=True).indices[: settings.candidates]
        boxes = clip_boxes(decode_boxes(deltas[best], anchors[best], settings.proposal_weights), height, width)
        is_large_enough = ((boxes[:, 2:] - boxes[:, :2]) > settings.smallest).all(dim=1)
        boxes, scores = boxes[is_large_enough], scores[best][is_large_enough]
        selected = suppress_overlaps(boxes, scores, settings.proposal_overlap, settings.proposals)
        return boxes[selected.to(boxes.device)]


def decode_boxes(deltas: torch.Tensor, boxes: torch.Tensor, weights: tuple[float, ...]) -> torch.Tensor:
    """Return boxes of shape (boxes, 4), moved and resized by deltas of this shape.

    Args:
        deltas: dx, dy as shares of the box's width and height, and logarithms dw, dh of what they are multiplied by,
            all times `weights`.
        boxes: The boxes.
        weights: Divisors of the four deltas.
    """
    sizes = boxes[:, 2:] - boxes[:, :2]
    centres = boxes[:, :2] + 0.5 * sizes
    moves = deltas / deltas.new_tensor(weights)
    moved = moves[:, :2] * sizes + centres
    halves = 0.5 * (moves[:, 2:].clamp(max=MAX_SIZE_DELTA).exp() * sizes)
    return torch.cat([moved - halves, moved + halves], dim=1)


def clip_boxes(boxes: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Return boxes clipped to an image; those outside have no width or height."""
    edges = boxes.new_tensor([width, height, width, height])
    return boxes.clamp(min=0).minimum(edges)


def suppress_overlaps(boxes: torch.Tensor, scores: torch.Tensor, limit: float, max_boxes: int) -> torch.Tensor:
    """Return the best boxes of which no two overlap much (non-maximum suppression).

    A box is removed if a better selected one has an intersection over union with it strictly above the limit. The ratio
    is float32, the limit float64, as in torchvision's operator on a CPU; of equal scores the first is better.

    Args:
        boxes: Shape (boxes, 4).
        scores: Shape (boxes,).
        limit: Highest intersection over union that two boxes may have.
        max_boxes: Maximum number of boxes.
    Returns:
        Indices of the selected boxes on the CPU, best first.
    """
    order = scores.cpu().sort(descending=True, stable=True).indices
    candidates = boxes.cpu()[order]
    areas = (candidates[:, 2] - candidates[:, 0]) * (candidates[:, 3] - candidates[:, 1])
    selected: list[torch.Tensor] = []
    while len(candidates) and len(selected) < max_boxes:
        selected.append(order[0])
        best, area = candidates[0], areas[0]
        candidates, areas, order = candidates[1:], areas[1:], order[1:]
        is_separate = ~do_boxes_overlap(best, area, candidates, areas, limit)
        candidates, areas, order = candidates[is_separate], areas[is_separate], order[is_separate]
    return torch.stack(selected) if selected else torch.zeros(0, dtype=torch.int64)


def do_boxes_overlap(
    boxes: torch.Tensor, areas: torch.Tensor, others: torch.Tensor, other_areas: torch.Tensor, limit: float
) -> torch.Tensor:
    """Return whether boxes have an intersection over union above a limit with others; shapes are broadcast.

    The ratio 0 / 0 of two empty boxes is not above any limit.
    """
    overlap = torch.minimum(others[..., 2:], boxes[..., 2:]) - torch.maximum(others[..., :2], boxes[..., :2])
    both = overlap.clamp(min=0).prod(dim=-1)
    return (both / (areas + other_areas - both)).double() > limit


def pool_boxes(states: torch.Tensor, boxes: torch.Tensor, side: int, scale: float) -> torch.Tensor:
    """Return the map under each box, pooled to a grid (RoIPool).

    A box's corners are rounded to cells of the map, half away from zero, and both belong to it. Cell j of the grid
    spans floor(j w / side) to ceil((j + 1) w / side) of its w columns; what lies beyond the map is cut off, and a cell
    with nothing left is 0. As in torchvision's operator, j (w / side) is computed in float32, which for a side of 14 is
    off by one column at w = 57 and 62.

    However many boxes there are, a cell costs two look-ups: spans of rows that occur are pooled once, and so are their
    windows of 1, 2, 4, ... columns, two of which cover any span of columns.

    Args:
        states: The map, of shape (channels, rows, columns).
        boxes: In pixels of the image: float32 of shape (boxes, 4), at least one.
        side: Cells a side of the grid.
        scale: Cells of the map in a pixel.
    Returns:
        Shape (boxes, channels, side, side), the channels lying next to each other in memory.
    """
    corners = _round_half_away(boxes * scale)
    rows = _compute_spans(corners[:, 1], corners[:, 3], side, states.shape[1])
    columns = _compute_spans(corners[:, 0], corners[:, 2], side, states.shape[2])
    spans: Any = rows.flatten(0, 1)
    distinct, span_indices = spans.unique(dim=0, return_inverse=True)
    windows, row_windows = _pool_windows(states.permute(1, 2, 0), 0, distinct)
    pooled = torch.maximum(windows[row_windows[0]], windows[row_windows[1]])
    windows, column_windows = _pool_windows(pooled, 1, columns)
    row_offsets = span_indices.view(len(boxes), side, 1) * windows.shape[1]
    flat = windows.flatten(0, 1)
    first, second = ((row_offsets + window[:, None, :]).flatten() for window in column_windows)
    cells = flat[first]
    torch.maximum(cells, flat[second], out=cells)
    empty = (rows[..., 1] <= rows[..., 0])[:, :, None] | (columns[..., 1] <= columns[..., 0])[:, None, :]
    cells[empty.flatten()] = 0
    return cells.view(len(boxes), side, side, -1).permute(0, 3, 1, 2)


def _round_half_away(values: torch.Tensor) -> torch.Tensor:
    """Return whole numbers, half away from zero: `torch.round` rounds to even."""
    truncated = values.abs().trunc()
    up = (values.abs() - truncated >= 0.5).to(values.dtype)
    return ((truncated + up) * values.sign()).long()


def _compute_spans(first: torch.Tensor, last: torch.Tensor, side: int, extent: int) -> torch.Tensor:
    """Return start and end of each of `side` cells between the first and last row (or column) of boxes on the map.

    The result is of shape (boxes, side, 2); no end above its start means that nothing is left.
    """
    step = (last - first + 1).clamp(min=1).float()[:, None] / side
    cells = torch.arange(side, device=first.device, dtype=torch.float32)
    edges = torch.stack([(cells * step).floor(), ((cells + 1) * step).ceil()], dim=-1)
    return (edges.long() + first[:, None, None]).clamp(0, extent)


def _pool_windows(states: torch.Tensor, axis: int, spans: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Return maxima of the windows of 1, 2, 4, ... states along an axis, and for each span two that cover it.

    Spans are start and end, of shape (..., 2). The windows replace the axis, those of 1 first; the positions of the two
    are of shape (...), for an empty span those of some other.
    """
    lengths = (spans[..., 1] - spans[..., 0]).clamp(min=1)
    longest = int(lengths.max())
    levels = [states]
    for doubled in range(longest.bit_length() - 1):
        shorter = levels[-1]
        rest = shorter.shape[axis] - 2**doubled
        levels.append(torch.maximum(shorter.narrow(axis, 0, rest), shorter.narrow(axis, 2**doubled, rest)))
    starts = [sum(part.shape[axis] for part in levels[:number]) for number in range(len(levels))]
    level_by_length = [max(length, 1).bit_length() - 1 for length in range(longest + 1)]
    level_of, start_of = (torch.tensor(values, device=spans.device) for values in (level_by_length, starts))
    level = level_of[lengths]
    first = spans[..., 0].clamp(max=states.shape[axis] - 1)
    last = first + lengths - 2**level
    return torch.cat(levels, dim=axis), [start_of[level] + first, start_of[level] + last]
