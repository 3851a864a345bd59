"""Regions that a detector finds in what is shown to an encoder, with pixels hidden before it looks."""

from dataclasses import dataclass
from typing import Literal

import torch
from PIL import Image

from waltz.core.errors import UserError
from waltz.models.encoders.encoder import States
from waltz.models.networks.detector.loading import named_detector
from waltz.models.networks.detector.network import Detector
from waltz.models.networks.detector.picture import prepared
from waltz.models.regions import Picture
from waltz.models.registry import ModelSpec


@dataclass(frozen=True, eq=False)
class Detecting:
    """A detector as the source of regions; see `regions.Provider`.

    Attributes:
        detector: The detector.
        device: A torch device.
        hides: What a coalition hides: pixels of the prepared image, which become the mean colour.
    Source:
        MM-SHAP (Parcalabescu and Frank, ACL 2023) on LXMERT: patches are 0 after the mean is subtracted, and the
        detector looks anew at every coalition.
    """

    detector: Detector
    device: str
    hides: Literal["pixels", "regions"] = "pixels"

    def image(self, picture: Picture) -> torch.Tensor:
        """The image as the detector takes it: blue, green, red, float32 of shape (3, height, width).

        Raises:
            UserError: Regions are given, not an image.
        """
        if not isinstance(picture, Image.Image):
            raise UserError(f"{picture.name}: regions of it are given to a detector; give it the image")
        return prepared(picture, self.detector.settings).to(self.device)

    def regions(self, images: torch.Tensor) -> States:
        """Features and boxes; each image passes alone, so that its regions depend on nothing beside it.

        Where the settings allow fewer regions than there may be, rows of zeros stand for the others, as in the released
        code.

        Raises:
            UserError: Too few regions are found in an image.
        """
        shares, features = [], []
        for image in images:
            found = self.detector(image)
            height, width = image.shape[-2:]
            lacking = (0, 0, 0, self.detector.settings.most - len(found.boxes))
            edges = found.boxes.new_tensor([width, height, width, height])
            shares.append(torch.nn.functional.pad(found.boxes / edges, lacking))
            features.append(torch.nn.functional.pad(found.features, lacking))
        return torch.stack(features), torch.stack(shares)


def detecting(spec: ModelSpec, width: int, device: str) -> Detecting:
    """The detector that a model's entry names, on a device.

    Args:
        spec: The model.
        width: Number of features that it takes of a region.
        device: A torch device.
    Raises:
        UserError: The detector cannot be had, or gives another number of features.
    """
    detector = named_detector(spec)
    if detector.sizes.width != width:
        raise UserError(
            f"models.{spec.name}.detector: {spec.detector} gives {detector.sizes.width} features of a region, and the"
            f" model takes {width}; name the detector that it was trained with"
        )
    return Detecting(detector.to(device), device)
