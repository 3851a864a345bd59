"""The Faster R-CNN of Visual Genome that LXMERT and VisualBERT take their regions from, in plain
PyTorch.

Boxes are left, top, right, bottom, continuous; everything is computed in float32, as in the
released code.

Source:
    Anderson et al., Bottom-up and top-down attention (CVPR 2018); Ren et al., Faster R-CNN (NeurIPS
    2015). What is computed follows the released weights `unc-nlp/frcnn-vg-finetuned`:
    ResNet-101-C4, 1,600 classes, 400 attributes.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import nn
from torch.nn import functional

from waltz.core.errors import UserError, get_first_line
from waltz.core.files.open_image import open_image
from waltz.models.networks.detector_operators import (
    AnchorGenerator,
    BoxCoder,
    clip_boxes_to_image,
    nms,
    roi_pool,
)

EPSILON = 1e-5
"""Added to the variance in each batch norm of this detector."""
STRIDE = 16
"""Pixels of the image between two cells of the map."""
BOXES_PER_BATCH = 60
"""Proposals that pass the last stage at once; a full patch of 14 x 14 needs 3 MB there."""


@dataclass(frozen=True)
class DetectorSettings:
    """Settings that the released code reads from its configuration; the released weights have the
    default values.

    Names and order of the attributes are part of the digest that names a detector in stored
    regions.

    Attributes:
        shortest: Shorter side in pixels that an image is resized to.
        longest: Maximum of the longer side in pixels.
        mean: Mean of blue, green and red, in levels of 0 to 255; it is subtracted.
        deviation: Divisor after the mean is subtracted.
        anchor_offset: Position in a cell that its anchors are centered at, as a share of the
            stride.
        candidates: Number of anchors with the highest scores to consider.
        proposals: Maximum number of proposals.
        proposal_overlap: Intersection over union above which the worse of two candidates is
            removed.
        proposal_weights: Divisors of the proposals' deltas dx, dy, dw, dh.
        smallest: Length of a side in pixels; candidates with a side of at most this length are
            removed.
        resolution: Cells in each direction that a proposal is pooled to.
        box_weights: Divisors of the regions' deltas.
        overlaps: Such limits for regions; the next one is tried if too few regions are left.
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
    """Sizes of a stage.

    Attributes:
        blocks: Number of bottlenecks.
        width: Channels inside a bottleneck.
        outputs: Channels of a bottleneck's output.
        groups: Groups of the 3x3 convolution of a bottleneck.
    """

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
        anchors: Anchors of a cell.
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
    """Return an image file in RGB: gray in three channels, no alpha, and rotated by its EXIF data
    if `is_upright`.

    OpenCV, which the released code reads images with, rotates them. `sources.images` makes alpha
    white instead.

    Raises:
        UserError: The file holds no image that can be read, or too large an image.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with open_image(file) as opened:
                image: Image.Image = opened
                if is_upright:
                    image = ImageOps.exif_transpose(opened)
                return convert_to_rgb(image)
    except UnidentifiedImageError:
        raise UserError(
            f"{file}: is not an image of a known format; name an image"
        ) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise UserError(
            f"{file}: has more than {Image.MAX_IMAGE_PIXELS} pixels; make it smaller"
        ) from None
    except Exception as error:  # image decoders can raise anything
        raise UserError(
            f"{file}: cannot be read: {get_first_line(error)}; get the image again"
        ) from None


def compute_resized_size(
    height: int, width: int, shortest: int, longest: int
) -> tuple[int, int]:
    """Return height and width of an image whose shorter side is resized to `shortest`, or its
    longer to `longest`.
    """
    # Both sides are multiplied by one number, so that the aspect ratio stays.
    scale = shortest / min(height, width)
    # The shorter side is set, not multiplied: a product may be rounded to another number.
    new_height: float = shortest
    new_width: float = shortest
    if height < width:
        new_width = scale * width
    else:
        new_height = scale * height
    new_longest = max(new_height, new_width)
    if new_longest > longest:
        reduction = longest / new_longest
        new_height, new_width = new_height * reduction, new_width * reduction
    return int(new_height + 0.5), int(new_width + 0.5)


def prepare_image(image: Image.Image, settings: DetectorSettings) -> torch.Tensor:
    """Return an upright image prepared for the detector: float32 of shape (3, height, width).

    The channels are blue, green and red; they are resized as floats without antialiasing.
    """
    size = compute_resized_size(
        image.height, image.width, settings.shortest, settings.longest
    )
    # Without antialiasing, as in the released code.
    resized = functional.interpolate(
        read_levels(image)[None], size, mode="bilinear", align_corners=False
    )[0]
    mean = torch.tensor(settings.mean)[:, None, None]
    deviation = torch.tensor(settings.deviation)[:, None, None]
    return (resized - mean) / deviation


def read_levels(image: Image.Image) -> torch.Tensor:
    """Return the levels of blue, green and red, 0 to 255: float32 of shape (3, height, width)."""
    levels = np.asarray(convert_to_rgb(image), dtype=np.float32)  # (height, width, RGB)
    return torch.from_numpy(levels[..., ::-1].transpose(2, 0, 1).copy())


def convert_to_rgb(image: Image.Image) -> Image.Image:
    """Return an image in three channels of 8 bits.

    Raises:
        ValueError: Its levels have no fixed range.
    """
    if image.mode.startswith("I;16"):  # Pillow cuts such levels off at 255
        high_bytes = np.asarray(image).astype(np.uint16) >> 8
        return Image.fromarray(high_bytes.astype(np.uint8)).convert("RGB")
    if image.mode in ("I", "F"):
        raise ValueError(f"pixels of mode {image.mode} have no fixed range")
    return image.convert("RGB")


def are_finite(*tensors: torch.Tensor) -> bool:
    """Return whether all numbers of some tensors are finite."""
    return all(bool(tensor.isfinite().all()) for tensor in tensors)


@dataclass(frozen=True, eq=False)
class Detections:
    """Regions of one image, best first.

    Attributes:
        boxes: Left, top, right and bottom in pixels of the prepared image: float32 of shape
            (regions, 4).
        features: Features of the proposals, from which the boxes are decoded: float32 of shape
            (regions, width).
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
    """A Faster R-CNN on the map of `res4`, with the released names of weights; `name` is stored
    with its regions.
    """

    def __init__(
        self, name: str, sizes: DetectorSizes, settings: DetectorSettings
    ) -> None:
        """Create a detector without weights."""
        super().__init__()
        self.name, self.sizes, self.settings = name, sizes, settings
        self.backbone = Backbone(sizes)
        inputs = sizes.stages["res4"].outputs
        self.proposal_generator = ProposalGenerator(
            inputs, sizes.hidden, sizes.anchors, settings
        )
        self.roi_heads = RegionHeads(sizes)

    def prepare_image(self, image: Image.Image) -> torch.Tensor:
        """Return an upright image as `forward` takes it: float32 of shape (3, height, width)."""
        return prepare_image(image, self.settings)

    @torch.inference_mode()
    def forward(self, image: torch.Tensor) -> Detections:
        """Return the regions of one image from `prepare_image`.

        Images are not batched: the released code pads smaller images with zeros, which changes
        their features.

        Raises:
            UserError: Too few regions are left, or there are numbers that are not finite.
        """
        # TF32 off: boxes change a lot if a score changes a little.
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            return self._detect(image)

    def _detect(self, image: torch.Tensor) -> Detections:
        height, width = image.shape[-2:]
        states = self.backbone(image[None])
        proposals = self.proposal_generator(states, height, width)
        if len(proposals) < self.settings.fewest:
            raise self._build_error(height, width, len(proposals))

        # Features, classes and boxes of the proposals.
        pooled = roi_pool(states, [proposals], self.settings.resolution, 1 / STRIDE)
        features = self.roi_heads.compute_features(pooled)
        predictor = self.roi_heads.box_predictor
        # (proposals, classes + 1), background last
        logits = predictor.cls_score(features)
        # The class of a proposal is its most probable one; the background is not a class.
        scores, classes = logits.softmax(dim=-1)[:, :-1].max(dim=-1)
        deltas = predictor.compute_deltas(features, classes)
        boxes = BoxCoder(self.settings.box_weights).decode_single(deltas, proposals)
        if not are_finite(boxes, features, scores):
            raise UserError(
                f"{self.name} gives numbers that are not finite; fetch its weights again"
            )

        # The regions: the best boxes, with their attributes.
        boxes = clip_boxes_to_image(boxes, (height, width))
        selected = self._select_best(boxes, scores, height, width)
        probabilities = predictor.compute_attribute_probabilities(
            features[selected], logits[selected]
        )
        attribute_scores, attributes = probabilities.max(dim=-1)
        return Detections(
            boxes[selected],
            features[selected],
            classes[selected],
            scores[selected],
            attributes,
            attribute_scores,
        )

    def _select_best(
        self, boxes: torch.Tensor, scores: torch.Tensor, height: int, width: int
    ) -> torch.Tensor:
        """Return the indices of the regions selected with the first limit that leaves enough of
        them.
        """
        max_selected = 0
        for limit in self.settings.overlaps:
            selected = nms(boxes, scores, limit, self.settings.most)
            if len(selected) >= self.settings.fewest:
                return selected
            max_selected = max(max_selected, len(selected))
        raise self._build_error(height, width, max_selected)

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
        """Return normalized states, of the same shape (batch, channels, height, width)."""
        mean, variance = self.get_buffer("running_mean"), self.get_buffer("running_var")
        return functional.batch_norm(
            states, mean, variance, self.weight, self.bias, False, 0.0, self.epsilon
        )


class Convolution(nn.Conv2d):
    """A convolution without bias, then batch norm."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel_size: int,
        *,
        stride: int = 1,
        dilation: int = 1,
        groups: int = 1,
    ) -> None:
        """Create a convolution that keeps the size except for its stride."""
        padding = dilation * (kernel_size // 2)
        super().__init__(
            inputs, outputs, kernel_size, stride, padding, dilation, groups, bias=False
        )
        self.norm = FrozenBatchNorm(outputs)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return states of shape (batch, outputs, height, width)."""
        normed: torch.Tensor = self.norm(super().forward(states))
        return normed


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions with a shortcut, which is a convolution if the number of
    channels changes.

    As in the released weights, the first 1x1 convolution has the stride.

    Source:
        He et al., Deep residual learning (CVPR 2016), section 4.1.
    """

    def __init__(
        self, inputs: int, sizes: StageSizes, stride: int, dilation: int
    ) -> None:
        """Create a bottleneck of a stage."""
        super().__init__()
        self.shortcut: Convolution | None = None
        if inputs != sizes.outputs:
            self.shortcut = Convolution(inputs, sizes.outputs, 1, stride=stride)
        self.conv1 = Convolution(inputs, sizes.width, 1, stride=stride)
        self.conv2 = Convolution(
            sizes.width, sizes.width, 3, dilation=dilation, groups=sizes.groups
        )
        self.conv3 = Convolution(sizes.width, sizes.outputs, 1)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return states of shape (batch, outputs, height / stride, width / stride)."""
        # He et al., equation 1: y = F(x) + x; batch norm is part of each convolution.
        inner = functional.relu_(self.conv1(states))
        inner = functional.relu_(self.conv2(inner))
        residual = states
        if self.shortcut is not None:
            residual = self.shortcut(states)
        return functional.relu_(self.conv3(inner) + residual)


def build_stage(
    inputs: int, sizes: StageSizes, stride: int, dilation: int = 1
) -> nn.Sequential:
    """Return a stage of bottlenecks, of which the first has the stride."""
    blocks = [Bottleneck(inputs, sizes, stride, dilation)]
    for _ in range(sizes.blocks - 1):
        blocks.append(Bottleneck(sizes.outputs, sizes, 1, dilation))
    return nn.Sequential(*blocks)


class Stem(nn.Module):
    """The first convolution, and a pool without padding that includes a last incomplete window."""

    def __init__(self, outputs: int) -> None:
        """Create a stem."""
        super().__init__()
        self.conv1 = Convolution(3, outputs, 7, stride=2)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return states at about a quarter of the size."""
        return functional.max_pool2d(
            functional.relu_(self.conv1(pixels)), 3, stride=2, padding=0, ceil_mode=True
        )


class Backbone(nn.Module):
    """The stem and the stages `res2`, `res3` and `res4`."""

    def __init__(self, sizes: DetectorSizes) -> None:
        """Create a backbone."""
        super().__init__()
        stages = sizes.stages
        # The stages halve the size of the map, except the first, which follows the pool of the
        # stem.
        self.stem = Stem(sizes.stem)
        self.res2 = build_stage(sizes.stem, stages["res2"], stride=1)
        self.res3 = build_stage(stages["res2"].outputs, stages["res3"], stride=2)
        self.res4 = build_stage(stages["res3"].outputs, stages["res4"], stride=2)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the map of an image, of shape (batch, channels, height / 16, width / 16).

        The ceil mode of the stem's pool may add a cell: 168 pixels become 11 cells.
        """
        states: torch.Tensor = self.res4(self.res3(self.res2(self.stem(pixels))))
        return states


class Predictor(nn.Module):
    """Linear heads on the features."""

    def __init__(self, sizes: DetectorSizes) -> None:
        """Create the heads."""
        super().__init__()
        # Names of the attributes are keys of the checkpoint; one output more stands for the
        # background, or for "none".
        self.cls_score = nn.Linear(sizes.width, sizes.classes + 1)
        self.bbox_pred = nn.Linear(sizes.width, 4 * sizes.classes)
        self.cls_embedding = nn.Embedding(sizes.classes + 1, sizes.embedding)
        self.fc_attr = nn.Linear(sizes.width + sizes.embedding, sizes.mixed)
        self.attr_score = nn.Linear(sizes.mixed, sizes.attributes + 1)

    def compute_deltas(
        self, features: torch.Tensor, classes: torch.Tensor
    ) -> torch.Tensor:
        """Return deltas of the box for one class of each region: shape (regions, 4)."""
        # (regions, classes, 4)
        deltas_by_class = self.bbox_pred(features).view(len(features), -1, 4)
        deltas: torch.Tensor = deltas_by_class[
            torch.arange(len(features), device=features.device), classes
        ]
        return deltas

    def compute_attribute_probabilities(
        self, features: torch.Tensor, logits: torch.Tensor
    ) -> torch.Tensor:
        """Return probabilities of the attributes except "none" of regions: shape (regions,
        attributes).

        Args:
            features: Features of the regions, of shape (regions, width).
            logits: Logits of their classes and of the background, of shape (regions, classes + 1).
                The embedding of the best one is read with the features.
        """
        # Anderson et al., section 3.1: the feature and an embedding of the class, then a hidden
        # layer.
        inputs = torch.cat(
            [features, self.cls_embedding(logits.argmax(dim=-1))], dim=-1
        )
        scores = self.attr_score(functional.relu_(self.fc_attr(inputs)))
        probabilities: torch.Tensor = scores[:, :-1].softmax(dim=-1)
        return probabilities


class RegionHeads(nn.Module):
    """The last stage of the network on the pooled map, without stride and with dilation, and the
    heads.
    """

    def __init__(self, sizes: DetectorSizes) -> None:
        """Create the last stage and the heads."""
        super().__init__()
        self.res5 = build_stage(
            sizes.stages["res4"].outputs, sizes.stages["res5"], stride=1, dilation=2
        )
        self.box_predictor = Predictor(sizes)

    def compute_features(self, pooled: torch.Tensor) -> torch.Tensor:
        """Return the features of proposals, of shape (proposals, width).

        Args:
            pooled: The map under each proposal, of shape (proposals, channels, resolution,
                resolution).
        """
        features = []
        for first in range(0, len(pooled), BOXES_PER_BATCH):
            batch = pooled[first : first + BOXES_PER_BATCH]
            features.append(self.res5(batch).mean(dim=(2, 3)))
        return torch.cat(features)


class ProposalHead(nn.Module):
    """Scores and deltas of the anchors of each cell."""

    def __init__(self, inputs: int, hidden: int, anchors: int) -> None:
        """Create a head on a map."""
        super().__init__()
        self.conv = nn.Conv2d(inputs, hidden, 3, padding=1)
        self.objectness_logits = nn.Conv2d(hidden, anchors, 1)
        self.anchor_deltas = nn.Conv2d(hidden, 4 * anchors, 1)

    def forward(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return scores of shape (candidates,) and deltas of shape (candidates, 4), in the order of
        anchors.
        """
        return score_anchors(
            states, self.conv, self.objectness_logits, self.anchor_deltas
        )


def score_anchors(
    states: torch.Tensor,
    convolution: nn.Conv2d,
    score_layer: nn.Conv2d,
    delta_layer: nn.Conv2d,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return scores of shape (candidates,) and deltas of shape (candidates, 4) of a map, in the
    order of anchors.
    """
    inner = functional.relu_(convolution(states))
    # (1, anchors or 4 x anchors, rows, columns) -> (1, rows, columns, ...): cell by cell, as
    # anchors are.
    scores = score_layer(inner).permute(0, 2, 3, 1)
    deltas = delta_layer(inner).permute(0, 2, 3, 1)
    return scores.flatten(), deltas.reshape(-1, 4)


class ProposalGenerator(nn.Module):
    """Generator of box proposals (the region proposal network of Faster R-CNN)."""

    def __init__(
        self, inputs: int, hidden: int, anchors: int, settings: DetectorSettings
    ) -> None:
        """Create a proposal generator on a map."""
        super().__init__()
        # Names of the attributes are keys of the checkpoint.
        self.anchor_generator = AnchorGenerator(anchors)
        self.rpn_head = ProposalHead(inputs, hidden, anchors)
        self.settings = settings

    def forward(self, states: torch.Tensor, height: int, width: int) -> torch.Tensor:
        """Return proposed boxes on the map of an image of this height and width, best first: shape
        (boxes, 4).
        """
        settings = self.settings
        scores, deltas = self.rpn_head(states)
        rows, columns = states.shape[-2:]
        (anchors,) = self.anchor_generator.grid_anchors(
            [(rows, columns)], [STRIDE], settings.anchor_offset
        )

        # The candidates with the best scores, decoded and clipped.
        best = scores.sort(descending=True, stable=True).indices[: settings.candidates]
        scores = scores[best]
        boxes = BoxCoder(settings.proposal_weights).decode_single(
            deltas[best], anchors[best]
        )
        boxes = clip_boxes_to_image(boxes, (height, width))

        # Those that are large enough and do not overlap a better one.
        is_large_enough = ((boxes[:, 2:] - boxes[:, :2]) > settings.smallest).all(dim=1)
        boxes, scores = boxes[is_large_enough], scores[is_large_enough]
        return boxes[nms(boxes, scores, settings.proposal_overlap, settings.proposals)]
