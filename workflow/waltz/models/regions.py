"""Regions of images, for encoders that read boxes and features of a detector instead of pixels."""

import functools
import logging
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from PIL import Image

from waltz.core.errors import UserError
from waltz.core.schema import OF_REGIONS
from waltz.model_registry import ModelSpec
from waltz.models import region_tsv
from waltz.models.encoders.encoder import Encoder, States, TokenizedText
from waltz.models.encoders.players import PROFILES, Players

log = logging.getLogger(__name__)

BOX_NUMBERS = 4
"""Number of coordinates of a box: left, top, right, bottom."""
ARRAY_NAMES = ("features", "boxes", "size")
"""Stored arrays of an image."""
DETECTOR_KEY = "detector"
"""Optional key: name of the detector of the regions."""
TSV_SUFFIX = ".tsv"
"""Suffix of tables of regions, which those of a table in parts (`.tsv.0`) have too."""


@dataclass(frozen=True, eq=False)
class ImageRegions:
    """Regions that a detector found in one image.

    Attributes:
        name: File name of the image.
        features: float32 of shape (regions, width).
        boxes: Left, top, right and bottom in pixels: float32 of shape (regions, 4).
        size: Height and width of the image in pixels.
        detector: Name of the detector; empty if the file does not give it.
    """

    name: str
    features: np.ndarray
    boxes: np.ndarray
    size: tuple[int, int]
    detector: str = ""

    def tobytes(self) -> bytes:
        """Return features and boxes as bytes, to identify these regions."""
        return self.features.tobytes() + self.boxes.tobytes()


ImageOrRegions = Image.Image | ImageRegions
"""Input of an encoder."""


class RegionProvider(Protocol):
    """Source of an encoder's regions.

    Attributes:
        hides: Units that a coalition hides in a prepared image: pixels, or stored regions.
    """

    hides: Literal["pixels", "regions"]

    def prepare_image(self, picture: ImageOrRegions) -> torch.Tensor:
        """Return a prepared image, of shape (channels, height, width).

        Raises:
            UserError: The image has a type that this provider does not take.
        """

    def compute_regions(self, images: torch.Tensor) -> States:
        """Return features and boxes of a batch of prepared images.

        Returns:
            float32 of shape (batch, regions, width), and left, top, right and bottom as shares of the image's width
            and height, of shape (batch, regions, 4).
        """


@runtime_checkable
class RegionReader(Protocol):
    """An encoder whose image side reads regions.

    Attributes:
        provider: Source of its regions.
    """

    provider: RegionProvider

    @property
    def detector(self) -> str:
        """Name of the expected detector; empty for any."""

    @property
    def whole_image(self) -> bool:
        """Whether row 0 of prepared regions is the whole image, which is no player."""


@dataclass(frozen=True)
class StoredRegions:
    """Regions that a detector found before, stored in files.

    A prepared image is one channel of a row a region: its features, then its box.

    Attributes:
        path: A folder with `NAME.npz` for the image file NAME, one .npz with arrays `NAME/features` and so on, or a TSV
            of bottom-up attention; see `region_tsv.read_regions`.
        width: Number of features of a region.
        device: A torch device.
    """

    path: Path
    width: int
    device: str
    hides: Literal["pixels", "regions"] = "regions"

    def load_regions(self, name: str) -> ImageRegions:
        """Return the regions of an image by its file name.

        Raises:
            UserError: They are not stored, or invalid.
        """
        file, features, boxes, size, detector = self._read_arrays(name)
        fault = _describe_faults(features, boxes, size, self.width)
        if fault:
            raise UserError(f"{file}: regions of {name}: {fault}; compute them again")
        height, width = size.tolist()
        image_size = (int(height), int(width))
        return ImageRegions(name, features.astype(np.float32), boxes.astype(np.float32), image_size, detector)

    def _read_arrays(self, name: str) -> tuple[Path, np.ndarray, np.ndarray, np.ndarray, str]:
        """Return the file with the regions of an image, their arrays and their detector."""
        if TSV_SUFFIX in self.path.suffixes and self.path.is_file():
            return self.path, *region_tsv.read_regions(self.path, name), ""
        prefix = f"{name}/" if self.path.is_file() else ""
        file = self.path if prefix else self.path / f"{name}.npz"
        try:
            with np.load(file, allow_pickle=False) as arrays:
                features, boxes, size = (arrays[prefix + array] for array in ARRAY_NAMES)
                detector_key = next((key for key in (prefix + DETECTOR_KEY, DETECTOR_KEY) if key in arrays), None)
                return file, features, boxes, size, str(arrays[detector_key]) if detector_key else ""
        except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise UserError(f"{file}: no regions of {name} can be read ({error}); store them, or skip it") from None

    def prepare_image(self, picture: ImageOrRegions) -> torch.Tensor:
        """Return the prepared image; see `RegionProvider`."""
        if not isinstance(picture, ImageRegions):
            raise UserError(
                f"{self.path} holds regions by file name, not images (got an image without a name); pass the file name"
            )
        height, width = picture.size
        boxes = picture.boxes / np.array([width, height, width, height], dtype=np.float32)
        return torch.from_numpy(np.concatenate([picture.features, boxes], axis=1)[None]).to(self.device)

    def compute_regions(self, images: torch.Tensor) -> States:
        """Return features and boxes; see `RegionProvider`."""
        rows = images[:, 0]
        return rows[..., :-BOX_NUMBERS], rows[..., -BOX_NUMBERS:]


@dataclass(frozen=True, eq=False)
class RegionPlayers(Players):
    """Players whose image side is regions, one player each; there is no grid."""

    @property
    def patches(self) -> int:
        """Number of regions that are players."""
        return len(self.always_visible) - self.words


def open_stored_regions(spec: ModelSpec, width: int, device: str) -> StoredRegions:
    """Return the stored regions that a model's entry names.

    Args:
        spec: The model.
        width: Number of features per region.
        device: A torch device.
    Raises:
        UserError: The entry names no file or folder.
    """
    path = Path(spec.regions)
    if not spec.regions or not path.exists():
        raise UserError(
            f"models.{spec.name}.regions: {spec.regions or 'missing'}: this model reads regions of {width} features;"
            " name the .npz, .tsv or folder that holds them"
        )
    return StoredRegions(path, width, device)


def load_image_or_regions(encoder: Encoder, name: str, load: Callable[[], Image.Image]) -> ImageOrRegions:
    """Return the input of an encoder for an image file: its stored regions, else the image.

    Args:
        encoder: The encoder.
        name: File name of the image.
        load: Function that loads the image.
    Raises:
        UserError: Its regions are not stored, or invalid.
    """
    if not isinstance(encoder, RegionReader) or not isinstance(encoder.provider, StoredRegions):
        return load()
    provider, expected = encoder.provider, encoder.detector
    regions = provider.load_regions(name)
    if expected and regions.detector != expected:
        _warn_of_other_detector(encoder.spec.name, str(provider.path), regions.detector, expected)
    return regions


def get_players_function(encoder: Encoder, profile: str) -> Callable[[Encoder, TokenizedText, torch.Tensor], Players]:
    """Return the function that builds the players of an encoder in a profile.

    Raises:
        UserError: The encoder's regions are stored, and its entry does not set `masks: regions`.
    """
    if not isinstance(encoder, RegionReader) or encoder.provider.hides == "pixels":
        return PROFILES[profile]
    if encoder.spec.masks != "regions":
        raise UserError(
            f"models.{encoder.spec.name}: its regions are stored, but the method hides pixels before the detector;"
            " only scores are possible, or set `masks: regions` for another, labelled measure"
        )
    skipped_rows = int(encoder.whole_image)
    return lambda encoder, text, image: build_region_players(
        PROFILES[profile](encoder, text, image), image, skipped_rows
    )


def label_setting(encoder: Encoder, setting: str) -> str:
    """Return the setting of an attribution, with a suffix if regions are the players, so that it enters no published
    table.

    Args:
        encoder: The encoder.
        setting: The setting if patches are the players.
    """
    regions_play = isinstance(encoder, RegionReader) and encoder.provider.hides != "pixels"
    return setting + OF_REGIONS if regions_play else setting


def build_region_players(players: Players, image: torch.Tensor, skipped_rows: int = 0) -> RegionPlayers:
    """Return the same text players with region players: a hidden region keeps its box, and its features are 0.

    Args:
        players: Players by the rules of a profile.
        image: A prepared image of `StoredRegions`.
        skipped_rows: Rows before the regions that are no players, such as one for the whole image; always visible.
    """
    rows, columns = image.shape[-2:]
    count = rows - skipped_rows
    cells = (torch.arange(rows, device=image.device) - skipped_rows)[:, None].repeat(1, columns)
    cells[:skipped_rows] = cells[:, -BOX_NUMBERS:] = count
    always_visible = np.concatenate([players.always_visible[: players.words], np.zeros(count, dtype=bool)])
    return RegionPlayers(
        text_input=players.text_input,
        positions=players.positions,
        masked_id=players.masked_id,
        grid=0,
        cells=cells,
        always_visible=always_visible,
    )


def _describe_faults(features: Any, boxes: Any, size: Any, width: int) -> str:
    """Return the faults of stored arrays; empty if there are none."""
    if features.ndim != 2 or features.shape[1] != width or not len(features):
        return f"features are of shape {features.shape}, not (regions, {width})"
    if boxes.shape != (len(features), BOX_NUMBERS) or size.shape != (2,) or not (size > 0).all():
        return f"boxes are of shape {boxes.shape} and the size of {size.shape}, not ({len(features)}, 4) and (2,)"
    if not (np.isfinite(features).all() and np.isfinite(boxes).all()):
        return "some numbers are not finite"
    edges = np.array([size[1], size[0], size[1], size[0]])
    if (boxes < -1).any() or (boxes > edges + 1).any() or (boxes.max() <= 1 and edges.min() > BOX_NUMBERS):
        return f"boxes are not left, top, right, bottom in pixels of an image of height {size[0]} and width {size[1]}"
    return ""


@functools.cache
def _warn_of_other_detector(model: str, file: str, detector: str, expected: str) -> None:
    """Warn once that a model's regions are of another detector than in its training, or of an unknown one."""
    origin = f"of {detector!r}" if detector else "of a detector that the file does not name"
    log.warning("models.%s: its regions in %s are %s; it was trained on those of %r", model, file, origin, expected)
