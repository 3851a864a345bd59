"""What was made of the pictures that were looked at last: one image stands beside many prompts."""

import copy
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from weakref import WeakKeyDictionary

import torch
from PIL import Image

from waltz.models.decoders.decoder import Layout, Picture

IMAGES = 32
"""Processed images that are kept: 90 MB of tiles of LLaVA-NeXT."""


class Once:
    """An image processor of transformers that is asked about the same image again and again.

    It passes for the processor that it stands before: all else is that one's own.

    Attributes:
        own: The image processor.
        kept: What it made of the last images, by their content and the settings of the call.
    """

    def __init__(self, own: Any) -> None:
        """Stand before an image processor."""
        self.own = own
        self.kept: OrderedDict[Hashable, Any] = OrderedDict()

    def __getattr__(self, name: str) -> Any:
        """Whatever else the processor has."""
        return getattr(self.own, name)

    def __call__(self, images: Any, **settings: Any) -> Any:
        """The processed images; what the caller takes out of the mapping stays here."""
        key = (_content(images), repr(sorted(settings.items())))
        if key not in self.kept:
            self.kept[key] = self.own(images, **settings)
        self.kept.move_to_end(key)
        while len(self.kept) > IMAGES:
            self.kept.popitem(last=False)
        return copy.copy(self.kept[key])


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of pictures as long as somebody holds them.

    Attributes:
        seen: What the vision tower sees of a picture as it is, of shape (1, features, width).
        laid: How prompts with a picture lie in the network, by their text.
    """

    seen: WeakKeyDictionary[Picture, torch.Tensor] = field(default_factory=WeakKeyDictionary)
    laid: WeakKeyDictionary[Picture, dict[str, Layout]] = field(default_factory=WeakKeyDictionary)


def whole(picture: Picture, pixels: torch.Tensor) -> bool:
    """Whether some variants of a picture are the picture itself, and nobody asks for gradients."""
    same = pixels.shape == (1, *picture.pixels.shape) and pixels.data_ptr() == picture.pixels.data_ptr()
    return same and pixels.dtype == picture.pixels.dtype and not torch.is_grad_enabled()


def _content(images: Any) -> Hashable:
    """What tells images from others; images of other kinds than PIL's are never the same."""
    if isinstance(images, Image.Image):
        return images.mode, images.size, sha256(images.tobytes()).digest()
    return tuple(map(_content, images)) if isinstance(images, list | tuple) else object()
