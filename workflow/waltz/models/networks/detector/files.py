"""Regions of an image file, stored as `regions.Precomputed` reads them."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from waltz.core.files.atomic import replace_file
from waltz.models.networks.detector.network import Detector
from waltz.models.networks.detector.picture import prepared


def detected(detector: Detector, image: Image.Image, device: str) -> dict[str, np.ndarray]:
    """The regions of an image as arrays.

    Args:
        detector: The detector, on the device.
        image: An upright image.
        device: A torch device.
    Returns:
        `features`, `boxes` in pixels of the image (best first), `size` (height, width), `classes`, `scores`,
        `attributes`, `attribute_scores`, and `detector`, its name; see `network.Found`.
    Raises:
        UserError: Too few regions are found.
    """
    pixels = prepared(image, detector.settings)
    found = detector(pixels.to(device))
    height, width = pixels.shape[-2:]
    right, down = (
        torch.tensor(own) / torch.tensor(shown) for own, shown in zip(image.size, (width, height), strict=True)
    )
    boxes = found.boxes.cpu() * torch.stack([right, down, right, down])
    arrays = {
        "features": found.features,
        "boxes": boxes,
        "classes": found.classes,
        "scores": found.scores,
        "attributes": found.attributes,
        "attribute_scores": found.attribute_scores,
    }
    size = np.array([image.height, image.width])
    return {
        **{name: values.cpu().numpy() for name, values in arrays.items()},
        "size": size,
        "detector": np.array(detector.name),
    }


def write_regions(file: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays as an .npz, whole or not at all."""
    with replace_file(file) as temporary, temporary.open("wb") as opened:
        np.savez(opened, allow_pickle=False, **arrays)
