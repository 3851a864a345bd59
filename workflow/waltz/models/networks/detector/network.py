"""The whole detector: from a prepared image to its best regions."""

from dataclasses import dataclass

import torch
from torch import nn

from waltz.core.errors import UserError
from waltz.models.networks.detector.backbone import Backbone
from waltz.models.networks.detector.boxes import clip, decode, nms
from waltz.models.networks.detector.heads import RegionHeads
from waltz.models.networks.detector.pooling import roi_pool
from waltz.models.networks.detector.proposals import STRIDE, Proposals
from waltz.models.networks.detector.settings import Settings
from waltz.models.networks.detector.sizes import Sizes


@dataclass(frozen=True, eq=False)
class Found:
    """The regions of one image, best first.

    Attributes:
        boxes: Left, top, right and bottom in pixels of the prepared image: float32 of shape (regions, 4).
        features: float32 of shape (regions, width). Each is of the proposal, the box is what became of that.
        classes: int64 of shape (regions,).
        scores: Share of the class, between 0 and 1, by which the regions are ordered.
        attributes: int64 of shape (regions,).
        attribute_scores: Share of the attribute among all but "none".
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
        name: What its regions are known by.
        sizes: Its sizes.
        settings: How regions are chosen.
    """

    def __init__(self, name: str, sizes: Sizes, settings: Settings) -> None:
        """A detector without weights.

        Args:
            name: What its regions are known by.
            sizes: Its sizes.
            settings: How regions are chosen.
        """
        super().__init__()
        self.name, self.sizes, self.settings = name, sizes, settings
        within = {name: stage for name, stage in sizes.stages.items() if name != "res5"}
        inputs = sizes.stages["res4"].outputs
        self.backbone = Backbone(sizes.stem, within)
        self.proposal_generator = Proposals(inputs, sizes.hidden, sizes.anchors, settings)
        self.roi_heads = RegionHeads(sizes)

    @torch.inference_mode()
    def forward(self, image: torch.Tensor) -> Found:
        """The regions of one image.

        There is no batch: the released code fills smaller images up with zeros, which changes their features.

        Args:
            image: A prepared image, float32 of shape (3, height, width); see `picture.prepared`.
        Raises:
            UserError: Too few regions are left, or there are numbers that are not finite.
        """
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):  # boxes jump where a score is a little off
            return self._found(image)

    def _found(self, image: torch.Tensor) -> Found:
        height, width = image.shape[-2:]
        states = self.backbone(image[None])
        proposals = self.proposal_generator(states, height, width)
        if len(proposals) < self.settings.fewest:
            raise self._too_few(height, width, len(proposals))
        pooled = roi_pool(states[0], proposals, self.settings.resolution, 1 / STRIDE)
        features = self.roi_heads.features(pooled)
        heads = self.roi_heads.box_predictor
        logits = heads.classes(features)
        scores, classes = logits.softmax(dim=-1)[:, :-1].max(dim=-1)
        boxes = decode(heads.deltas(features, classes), proposals, self.settings.box_weights)
        if not (boxes.isfinite().all() and features.isfinite().all() and scores.isfinite().all()):
            raise UserError(f"{self.name} gives numbers that are not finite; fetch its weights again")
        boxes = clip(boxes, height, width)
        kept = self._best(boxes, scores, height, width).to(boxes.device)
        shares, attributes = heads.attributes(features[kept], logits[kept]).max(dim=-1)
        return Found(boxes[kept], features[kept], classes[kept], scores[kept], attributes, shares)

    def _best(self, boxes: torch.Tensor, scores: torch.Tensor, height: int, width: int) -> torch.Tensor:
        """Places of the regions that stay by the first limit that leaves enough of them."""
        found = 0
        for limit in self.settings.overlaps:
            kept = nms(boxes, scores, limit, self.settings.most)
            if len(kept) >= self.settings.fewest:
                return kept
            found = max(found, len(kept))
        raise self._too_few(height, width, found)

    def _too_few(self, height: int, width: int, found: int) -> UserError:
        return UserError(
            f"{self.name} finds {found} regions in the image, prepared to {height} x {width} pixels, and at least"
            f" {self.settings.fewest} are wanted; leave the image out, or lower min_detections in the detector's config"
        )
