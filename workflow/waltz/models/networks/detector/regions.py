"""Regions that a detector finds: stored in a file, or computed for each masked image that an encoder is given."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from PIL import Image

from waltz.core.errors import UserError
from waltz.core.files.atomic import replace_file
from waltz.model_registry import ModelSpec
from waltz.models.encoders.encoder import States
from waltz.models.networks.detector.checkpoint import load_configured_detector
from waltz.models.networks.detector.images import prepare_image
from waltz.models.networks.detector.network import Detector
from waltz.models.regions import ImageOrRegions


def detect_regions(detector: Detector, image: Image.Image, device: str) -> dict[str, np.ndarray]:
    """Return the regions of an image as arrays.

    Args:
        detector: The detector, on the device.
        image: An upright image.
        device: A torch device.
    Returns:
        `features`, `boxes` in pixels of the image (best first), `size` (height, width), `classes`, `scores`,
        `attributes`, `attribute_scores`, and `detector`, its name; see `network.Detections`.
    Raises:
        UserError: Too few regions are found.
    """
    pixels = prepare_image(image, detector.settings)
    detections = detector(pixels.to(device))
    height, width = pixels.shape[-2:]
    scale_x, scale_y = (
        torch.tensor(size_before) / torch.tensor(size_after)
        for size_before, size_after in zip(image.size, (width, height), strict=True)
    )
    boxes = detections.boxes.cpu() * torch.stack([scale_x, scale_y, scale_x, scale_y])
    arrays = {
        "features": detections.features,
        "boxes": boxes,
        "classes": detections.classes,
        "scores": detections.scores,
        "attributes": detections.attributes,
        "attribute_scores": detections.attribute_scores,
    }
    size = np.array([image.height, image.width])
    return {
        **{name: values.cpu().numpy() for name, values in arrays.items()},
        "size": size,
        "detector": np.array(detector.name),
    }


def write_regions(file: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays as an .npz atomically."""
    with replace_file(file) as temporary, temporary.open("wb") as opened:
        np.savez(opened, allow_pickle=False, **arrays)


@dataclass(frozen=True, eq=False)
class DetectedRegions:
    """A detector as the source of regions; see `regions.RegionProvider`.

    Attributes:
        detector: The detector.
        device: A torch device.
        hides: Unit that a coalition hides: pixels of the prepared image, which become the mean colour.
    Source:
        MM-SHAP (Parcalabescu and Frank, ACL 2023) on LXMERT: patches are 0 after the mean is subtracted, and the
        detector runs again for every coalition.
    """

    detector: Detector
    device: str
    hides: Literal["pixels", "regions"] = "pixels"

    def prepare_image(self, picture: ImageOrRegions) -> torch.Tensor:
        """Return the image as the detector takes it: blue, green, red, float32 of shape (3, height, width).

        Raises:
            UserError: Regions are given, not an image.
        """
        if not isinstance(picture, Image.Image):
            raise UserError(f"{picture.name}: a detector needs the image (got regions); pass the image")
        return prepare_image(picture, self.detector.settings).to(self.device)

    def compute_regions(self, images: torch.Tensor) -> States:
        """Return features and boxes; each image passes alone, so that its regions do not depend on the batch.

        If fewer regions are detected than the maximum, rows of zeros fill the rest, as in the released code.

        Raises:
            UserError: Too few regions are found in an image.
        """
        relative_boxes, features = [], []
        for image in images:
            detections = self.detector(image)
            height, width = image.shape[-2:]
            padding = (0, 0, 0, self.detector.settings.most - len(detections.boxes))
            edges = detections.boxes.new_tensor([width, height, width, height])
            relative_boxes.append(torch.nn.functional.pad(detections.boxes / edges, padding))
            features.append(torch.nn.functional.pad(detections.features, padding))
        return torch.stack(features), torch.stack(relative_boxes)


def load_detected_regions(spec: ModelSpec, width: int, device: str) -> DetectedRegions:
    """Return the detector that a model's entry names, on a device.

    Args:
        spec: The model.
        width: Number of features that it takes of a region.
        device: A torch device.
    Raises:
        UserError: The detector cannot be had, or gives another number of features.
    """
    detector = load_configured_detector(spec)
    if detector.sizes.width != width:
        raise UserError(
            f"models.{spec.name}.detector: {spec.detector} gives {detector.sizes.width} features of a region, and the"
            f" model takes {width}; name the detector that it was trained with"
        )
    return DetectedRegions(detector.to(device), device)
