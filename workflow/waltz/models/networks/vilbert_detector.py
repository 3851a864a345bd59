"""The Faster R-CNN that ViLBERT takes its regions from, in plain PyTorch: a ResNeXt with a feature
pyramid.

A box is left, top, right and bottom, and its last column and row belong to it: it is right - left +
1 pixels wide. Functions of `networks.detector_operators`, whose boxes are continuous, read it as
left, top, right + 1 and bottom + 1.

Source:
    Lu et al., 12-in-1 (CVPR 2020); Lin et al., Feature pyramid networks (CVPR 2017); Xie et al.,
    Aggregated residual transformations (CVPR 2017). What is computed follows
    `script/extract_features.py` of facebookresearch/vilbert-multi-task and the inference of
    vqa-maskrcnn-benchmark: ResNeXt-152 32x8d, 1,600 classes.
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
    FrozenBatchNorm,
    StageSizes,
    are_finite,
    read_levels,
    score_anchors,
)
from waltz.models.networks.detector_operators import (
    AnchorGenerator,
    BoxCoder,
    box_area,
    box_iou,
    clip_boxes_to_image,
    nms,
    roi_align,
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
"""Boxes of this side are pooled from the map of this number; those of half or twice the side from
the next one.
"""
DELTA_WEIGHTS = (1.0, 1.0, 1.0, 1.0)
"""Divisors of the proposals' deltas."""
BOXES_PER_BATCH = 100
"""Proposals that are pooled at once; one of 7 x 7 cells of 512 channels needs 100 kB."""


@dataclass(frozen=True)
class PyramidSettings:
    """Settings of the released script and of its configuration.

    Names and order of the attributes are part of the digest that names a detector's file in stored
    regions.

    Attributes:
        shortest: Shorter side in pixels that an image is resized to.
        longest: Maximum of the longer side in pixels.
        mean: Mean of blue, green and red, in levels of 0 to 255; it is subtracted.
        candidates: Number of anchors with the highest scores to consider on each map.
        map_proposals: Maximum number of proposals of each map.
        proposals: Maximum number of proposals of an image.
        proposal_overlap: Intersection over union above which the worse of two candidates is
            removed.
        smallest: Candidates with a shorter side are removed.
        samples: Points of each cell in each direction that RoIAlign averages.
        class_overlap: Intersection over union above which the worse of two proposals is removed for
            a class.
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
        resolution: Cells in each direction that a proposal is pooled to.
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
        pixels: Blue, green and red without the mean, resized and padded: float32 of shape (3,
            height, width).
        scale: Pixels of the resized image in a pixel of the image.
    """

    pixels: torch.Tensor
    scale: float


@dataclass(frozen=True, eq=False)
class PyramidDetections:
    """Regions of one image, best first.

    Attributes:
        boxes: Proposals in pixels of the image: float32 of shape (regions, 4). They may reach into
            its padding.
        features: float32 of shape (regions, width).
        class_probabilities: float32 of shape (regions, 1 + classes), the background first.
        scores: Highest probability among the classes for which no better proposal overlaps; 0 if
            there is none.
    """

    boxes: torch.Tensor
    features: torch.Tensor
    class_probabilities: torch.Tensor
    scores: torch.Tensor


def compute_scale(height: int, width: int, shortest: int, longest: int) -> float:
    """Return the factor of both sides of an image; the shorter becomes `shortest` unless the longer
    exceeds its limit.

    Like in the released code, the longer side is compared after rounding, half to even.
    """
    scale = shortest / min(height, width)
    if round(scale * max(height, width)) > longest:
        return longest / max(height, width)
    return scale


def subtract_mean(image: Image.Image, settings: PyramidSettings) -> torch.Tensor:
    """Return blue, green and red without the mean, at the size of the image, which determines the
    factor of its sides.

    Returns:
        float32 of shape (3, height, width).
    """
    return read_levels(image) - torch.tensor(settings.mean)[:, None, None]


def resize_image(pixels: torch.Tensor, settings: PyramidSettings) -> PaddedImage:
    """Return an image from `subtract_mean`, resized and padded.

    It is resized as OpenCV does with a factor: sides are rounded half to even, pixel j of the
    result is read at (j + 0.5) / factor - 0.5 whatever the rounded side, and nothing is
    antialiased. Zeros on the right and below pad the sides to multiples of 32.
    """
    height, width = pixels.shape[-2:]
    scale = compute_scale(height, width, settings.shortest, settings.longest)
    size = [max(1, round(height * scale)), max(1, round(width * scale))]
    # The operator behind `interpolate`, which would take the factor from the rounded sides.
    resized = torch.ops.aten.upsample_bilinear2d(
        pixels[None], size, False, scale, scale
    )[0]
    bottom, right = -size[0] % SIDE_MULTIPLE, -size[1] % SIDE_MULTIPLE
    padding = (0, right, 0, bottom)
    return PaddedImage(functional.pad(resized, padding), scale)


class PyramidDetector(nn.Module):
    """A Faster R-CNN on a feature pyramid, with the released names of weights; `name` identifies
    its file.
    """

    def __init__(
        self, name: str, sizes: PyramidSizes, settings: PyramidSettings
    ) -> None:
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

        Images are not batched: the released code pads them to the largest of a batch, which moves
        the limit that boxes are clipped to.

        Raises:
            UserError: A box, feature or probability is not finite.
        """
        # TF32 off: boxes change a lot if a score changes a little.
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            return self._detect(resize_image(image, self.settings))

    def _detect(self, image: PaddedImage) -> PyramidDetections:
        maps = self.backbone(image.pixels[None])
        proposals = self.rpn(maps, *image.pixels.shape[-2:])
        features, probabilities = self.roi_heads["box"](
            maps, proposals, self.settings.samples
        )
        if not are_finite(proposals, features, probabilities):
            raise UserError(
                f"{self.name} gives numbers that are not finite; fetch its weights again"
            )
        # From pixels of the resized image to pixels of the image; features were pooled before.
        boxes = proposals / image.scale
        classes = probabilities[:, 1:]  # without the background
        selected, scores = select_by_class(
            extend_boxes(boxes),
            classes,
            self.settings.class_overlap,
            self.settings.most,
        )
        selected = selected.to(boxes.device)
        return PyramidDetections(
            boxes[selected], features[selected], probabilities[selected], scores
        )


class NormedConvolution(nn.Sequential):
    """A convolution without bias and its batch norm without epsilon, as in a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        """Create a convolution of one cell with a stride."""
        super().__init__(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False),
            FrozenBatchNorm(outputs, epsilon=0.0),
        )


class PyramidBottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions; the 3x3 is grouped and has the stride.

    Source:
        Xie et al., Aggregated residual transformations (CVPR 2017), figure 3 (c).
    """

    def __init__(
        self, inputs: int, sizes: StageSizes, stride: int, is_first: bool
    ) -> None:
        """Create a bottleneck of a stage, the first of which has a convolution as its shortcut."""
        super().__init__()
        self.downsample: NormedConvolution | None = None
        if is_first:
            self.downsample = NormedConvolution(inputs, sizes.outputs, stride)
        # Names of the attributes are keys of the checkpoint; its batch norms add nothing to the
        # variance.
        self.conv1 = nn.Conv2d(inputs, sizes.width, 1, bias=False)
        self.bn1 = FrozenBatchNorm(sizes.width, epsilon=0.0)
        self.conv2 = nn.Conv2d(
            sizes.width,
            sizes.width,
            3,
            stride,
            padding=1,
            groups=sizes.groups,
            bias=False,
        )
        self.bn2 = FrozenBatchNorm(sizes.width, epsilon=0.0)
        self.conv3 = nn.Conv2d(sizes.width, sizes.outputs, 1, bias=False)
        self.bn3 = FrozenBatchNorm(sizes.outputs, epsilon=0.0)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return states of shape (batch, outputs, height / stride, width / stride), rounded up."""
        inner = functional.relu_(self.bn1(self.conv1(states)))
        inner = functional.relu_(self.bn2(self.conv2(inner)))
        residual = states
        if self.downsample is not None:
            residual = self.downsample(states)
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
        states = functional.relu_(self.bn1(self.conv1(pixels)))
        return functional.max_pool2d(states, 3, stride=2, padding=1)


class Body(nn.Module):
    """The stem and the stages."""

    def __init__(self, sizes: PyramidSizes) -> None:
        """Create a ResNeXt without its last layers."""
        super().__init__()
        self.stem = PyramidStem(sizes.stem)
        inputs = sizes.stem
        for name in STAGES:
            stage = sizes.stages[name]
            # The pool of the stem precedes the first stage.
            stride = 1 if name == STAGES[0] else 2
            blocks = [PyramidBottleneck(inputs, stage, stride, is_first=True)]
            for _ in range(stage.blocks - 1):
                blocks.append(
                    PyramidBottleneck(stage.outputs, stage, 1, is_first=False)
                )
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
    """Maps with equally many channels: each is the sum of its stage's map and the enlarged map
    above it.

    Source:
        Lin et al., Feature pyramid networks (CVPR 2017), figure 3.
    """

    def __init__(self, sizes: PyramidSizes) -> None:
        """Create the convolutions of each map."""
        super().__init__()
        for number, name in enumerate(STAGES, start=1):
            setattr(
                self,
                f"fpn_inner{number}",
                nn.Conv2d(sizes.stages[name].outputs, sizes.channels, 1),
            )
            setattr(
                self,
                f"fpn_layer{number}",
                nn.Conv2d(sizes.channels, sizes.channels, 3, padding=1),
            )

    def forward(self, stage_maps: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return five maps with strides `STRIDES`; the last is every second row and column of the
        map before it.
        """
        maps: list[torch.Tensor] = []
        above: torch.Tensor | None = None
        # From the coarsest stage to the finest. Lin et al., figure 3: a 1x1 convolution of the
        # stage plus the enlarged map above, then a 3x3 convolution.
        for number in range(len(stage_maps), 0, -1):
            inner: torch.Tensor = getattr(self, f"fpn_inner{number}")(
                stage_maps[number - 1]
            )
            if above is not None:
                inner = inner + functional.interpolate(
                    above, scale_factor=2, mode="nearest"
                )
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
        """Return five maps of shape (1, channels, rows, columns) of an image whose sides are
        multiples of 32.
        """
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
        """Return probabilities of shape (candidates,) and deltas of shape (candidates, 4), in the
        order of anchors.
        """
        scores, deltas = score_anchors(
            states, self.conv, self.cls_logits, self.bbox_pred
        )
        return scores.sigmoid(), deltas


class PyramidProposalGenerator(nn.Module):
    """Generator of box proposals on all maps of a pyramid."""

    def __init__(self, sizes: PyramidSizes, settings: PyramidSettings) -> None:
        """Create a proposal generator."""
        super().__init__()
        self.anchor_generator = AnchorGenerator(sizes.anchors, len(STRIDES))
        self.head = PyramidProposalHead(sizes.channels, sizes.anchors)
        self.settings = settings

    def forward(
        self, maps: list[torch.Tensor], height: int, width: int
    ) -> torch.Tensor:
        """Return proposed boxes on a padded image of this height and width, best first: shape
        (boxes, 4).
        """
        grid_sizes = [(states.shape[-2], states.shape[-1]) for states in maps]
        anchors = self.anchor_generator.grid_anchors(grid_sizes, STRIDES)
        boxes_of_maps, scores_of_maps = [], []
        for states, map_anchors in zip(maps, anchors, strict=True):
            map_boxes, map_scores = self._propose(states, map_anchors, height, width)
            boxes_of_maps.append(map_boxes)
            scores_of_maps.append(map_scores)
        boxes, scores = torch.cat(boxes_of_maps), torch.cat(scores_of_maps)
        # The maps compete for the proposals of the image.
        best = scores.sort(descending=True, stable=True).indices[
            : self.settings.proposals
        ]
        return boxes[best]

    def _propose(
        self, states: torch.Tensor, anchors: torch.Tensor, height: int, width: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return boxes and scores of the proposals of one map."""
        settings = self.settings
        scores, deltas = self.head(states)

        # The candidates with the best scores, decoded and clipped; the last pixel belongs to a box.
        best = scores.sort(descending=True, stable=True).indices[: settings.candidates]
        scores = scores[best]
        boxes = BoxCoder(DELTA_WEIGHTS).decode_single(
            deltas[best], extend_boxes(anchors[best])
        )
        boxes = clip_boxes_to_image(shrink_boxes(boxes), (height - 1, width - 1))

        # Those that are large enough and do not overlap a better one.
        extended = extend_boxes(boxes)
        is_large_enough = (
            (extended[:, 2:] - extended[:, :2]) >= settings.smallest
        ).all(dim=1)
        boxes = boxes[is_large_enough]
        scores = scores[is_large_enough]
        extended = extended[is_large_enough]
        selected = nms(
            extended, scores, settings.proposal_overlap, settings.map_proposals
        )
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

    def forward(
        self, maps: list[torch.Tensor], boxes: torch.Tensor, samples: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return features, the first layer after its ReLU, and probabilities of the classes,
        background first.

        Args:
            maps: The maps of the pyramid; no box is pooled from the last, which serves proposals
                alone.
            boxes: Boxes on the padded image, of shape (boxes, 4).
            samples: Points of each cell in each direction that are averaged.
        Returns:
            float32 of shape (boxes, width) and (boxes, 1 + classes).
        """
        layers = self.feature_extractor
        # Boxes of one map are pooled together; `rows` are their positions among all boxes.
        features = boxes.new_zeros(len(boxes), layers.fc6.out_features)
        numbers = assign_maps(boxes)
        for number in range(len(STAGES)):
            rows = (numbers == number).nonzero()[:, 0]
            # The channels next to each other, as `roi_align` reads them.
            states = maps[number].contiguous(memory_format=torch.channels_last)
            for start in range(0, len(rows), BOXES_PER_BATCH):
                batch = rows[start : start + BOXES_PER_BATCH]
                pooled = roi_align(
                    states,
                    [boxes[batch]],
                    self.resolution,
                    1 / STRIDES[number],
                    samples,
                )
                features[batch] = functional.relu_(layers.fc6(pooled.flatten(1)))
        # The released features are those of the first layer; the classes need the second one.
        logits = self.predictor.cls_score(functional.relu_(layers.fc7(features)))
        return features, logits.softmax(dim=-1)


def extend_boxes(boxes: torch.Tensor) -> torch.Tensor:
    """Return boxes as continuous ones, which end at the end of the last column and row."""
    return boxes + boxes.new_tensor([0, 0, 1, 1])


def shrink_boxes(boxes: torch.Tensor) -> torch.Tensor:
    """Return continuous boxes as boxes whose last column and row belong to them."""
    return boxes - boxes.new_tensor([0, 0, 1, 1])


def assign_maps(boxes: torch.Tensor) -> torch.Tensor:
    """Return for each box the index in `STRIDES` of the map that it is pooled from: int64 of shape
    (boxes,).

    The larger the area of a box, the coarser its map.

    Source:
        Lin et al., Feature pyramid networks (CVPR 2017), equation 1.
    """
    areas = box_area(extend_boxes(boxes))
    # Equation 1: k = floor(k0 + log2(sqrt(w h) / 224)); the released code adds 1e-6, so that log2
    # is finite.
    numbers = (CANONICAL_MAP + torch.log2(areas.sqrt() / CANONICAL_SIDE + 1e-6)).floor()
    return numbers.clamp(0, len(STAGES) - 1).long()


def select_by_class(
    boxes: torch.Tensor, probabilities: torch.Tensor, limit: float, max_boxes: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the boxes with the highest probability of a class for which no better box overlaps.

    The result equals a non-maximum suppression for each class. Pairs of a box and a class are
    visited by falling probability: a pair survives if no surviving pair of its class overlaps it,
    and a box is selected at its first surviving pair. A few hundred pairs are visited instead of
    1,600 suppressions. Of equal probabilities the first box is better.

    Args:
        boxes: Continuous boxes, of shape (boxes, 4).
        probabilities: Shape (boxes, classes).
        limit: Highest intersection over union that two surviving boxes of a class may have.
        max_boxes: Maximum number of boxes.
    Returns:
        Indices of the selected boxes, best first, and their probabilities, both on the CPU; a box
        that survives for no class has the probability 0.
    """
    boxes, probabilities = boxes.cpu(), probabilities.cpu()
    # overlaps[i, j]: whether boxes i and j overlap too much to survive both in a class.
    overlaps = (box_iou(boxes, boxes).double() > limit).numpy()
    n_boxes, n_classes = probabilities.shape
    # Pair p is box p // classes and class p % classes.
    values, pairs = probabilities.flatten().sort(descending=True, stable=True)
    removed: dict[
        int, np.ndarray
    ] = {}  # of each class, the boxes that a surviving box overlaps: bool of shape (boxes,)
    selected: dict[int, float] = {}  # probability of each selected box, best first
    for value, pair in zip(values.numpy(), pairs.numpy(), strict=True):
        # A probability of 0 survives for no class.
        if len(selected) == max_boxes or not value > 0:
            break
        box, class_number = divmod(int(pair), n_classes)
        removed_of_class = removed.setdefault(
            class_number, np.zeros(n_boxes, dtype=bool)
        )
        if not removed_of_class[box]:
            removed_of_class |= overlaps[box]
            selected.setdefault(box, float(value))

    # Boxes that survive for no class follow in their order until there are enough.
    for box in range(n_boxes):
        if len(selected) >= max_boxes:
            break
        selected.setdefault(box, 0.0)
    return torch.tensor(list(selected), dtype=torch.int64), torch.tensor(
        list(selected.values())
    )
