"""Regions of images, stored or detected, for encoders that read boxes and features of a detector
instead of pixels.

Source:
    Regions in TSV files have the formats of the releases of bottom-up attention (6 columns) and of
    LXMERT (10), neither with a header.
"""

import base64
import functools
import logging
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image

from waltz.core.errors import UserError, get_first_line
from waltz.core.files.atomic import replace_file
from waltz.core.files.safe_names import is_safe_name
from waltz.core.schema import OF_REGIONS
from waltz.fidelity import Fidelity
from waltz.model_registry import DETECTOR_KIND, VILBERT_DETECTOR_KIND, ModelSpec
from waltz.models.encoders.coalitions import PROFILES, EncoderPlayers
from waltz.models.encoders.encoder import Encoder, States, TokenizedText
from waltz.models.networks.detector import Detector
from waltz.models.networks.detector_checkpoint import (
    load_configured_detector,
    load_detector,
)
from waltz.models.networks.vilbert_detector import (
    DETECTOR_NAME,
    SIDE_MULTIPLE,
    PyramidDetector,
    PyramidSettings,
    compute_scale,
)
from waltz.models.networks.vilbert_detector_checkpoint import load_vilbert_detector

log = logging.getLogger(__name__)

DETECTOR_LOADERS: dict[str, Callable[..., Detector | PyramidDetector]] = {
    DETECTOR_KIND: load_detector,
    VILBERT_DETECTOR_KIND: load_vilbert_detector,
}
"""Function that loads each kind of detector."""
BOX_NUMBERS = 4
"""Number of coordinates of a box: left, top, right, bottom."""
WHOLE_IMAGE_BOX = (0.0, 0.0, 1.0, 1.0)
"""The box of the whole image, as shares of its width and height."""
DETECTOR_KEY = "detector"
"""Optional key of stored arrays: name of the detector of the regions."""
SCALE_KEY = "scale"
"""Optional key of stored arrays: pixels of the image that the detector read in a pixel of the
image.
"""
TSV_SUFFIX = ".tsv"
"""Suffix of tables of regions; a part of a table (`.tsv.0`) has it, too."""
COLUMNS = {
    6: ("image_id", "image_w", "image_h", "num_boxes", "boxes", "features"),
    10: (
        "image_id",
        "image_h",
        "image_w",
        "objects_id",
        "objects_conf",
        "attrs_id",
        "attrs_conf",
        "num_boxes",
        "boxes",
        "features",
    ),
}
"""Names of the columns by their number."""
HEADER_NAMES = (b"image_id", b"img_id")
"""First column of an optional header."""
MAX_LINE_BYTES = 2**26
"""Maximum bytes of a line; 100 regions of 2,048 features take 1.1 million."""
NUMERIC_ID = re.compile(r"(?:COCO_[a-z]+\d{4}_)?0*(\d+)", re.ASCII)
"""Ids and names of images that are a number, as `42`, `000000000042` and
`COCO_val2014_000000000042`.
"""
POSITIVE_NUMBER = re.compile(rb"[1-9]\d{0,8}")


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


class RegionArrays(NamedTuple):
    """Stored arrays of an image, as in `ImageRegions`."""

    features: np.ndarray
    boxes: np.ndarray
    size: np.ndarray


@dataclass(frozen=True, eq=False, slots=True)
class RegionsEntry:
    """Regions of an image as a file holds them, not checked.

    Attributes:
        file: The file.
        arrays: Its arrays.
        detector: Name of the detector; empty if the file does not give it.
        scale: Pixels of the image that the detector read in a pixel of the image; None if the file
            does not give it.
    """

    file: Path
    arrays: RegionArrays
    detector: str = ""
    scale: float | None = None


class LinePosition(NamedTuple):
    """Position of a row: its line number from 1, and its first byte."""

    number: int
    offset: int


@dataclass(frozen=True)
class StoredRegions:
    """Regions that a detector found before, stored in files.

    A prepared image is one channel of a row a region: its features, then its box.

    Attributes:
        path: A folder with `NAME.npz` for the image file NAME, one .npz with arrays `NAME/features`
            and so on, or a TSV of bottom-up attention; see `read_regions`.
        width: Number of features of a region.
        device: A torch device.
        expected_detector: Name of the detector that the encoder was trained with; empty for any.
        whole_image: Whether a row for the whole image comes first, which is not a player.
    """

    path: Path
    width: int
    device: str
    expected_detector: str = ""
    whole_image: bool = False

    def load_regions(self, name: str) -> ImageRegions:
        """Return the regions of an image by its file name.

        Raises:
            UserError: They are not stored, or invalid.
        """
        if TSV_SUFFIX in self.path.suffixes and self.path.is_file():
            stored = RegionsEntry(self.path, read_regions(self.path, name))
        else:
            stored = self._read_npz(name)
        is_padded = DETECTOR_NAME in (stored.detector, self.expected_detector)
        fault = _describe_faults(stored.arrays, self.width, is_padded, stored.scale)
        if fault:
            raise UserError(
                f"{stored.file}: regions of {name}: {fault}; compute them again"
            )
        height, width = map(int, stored.arrays.size.tolist())
        features = stored.arrays.features.astype(np.float32)
        boxes = stored.arrays.boxes.astype(np.float32)
        return ImageRegions(name, features, boxes, (height, width), stored.detector)

    def _read_npz(self, name: str) -> RegionsEntry:
        """Return the regions of an image from its .npz, or from its keys in the .npz of all images."""
        if not is_safe_name(f"{name}.npz"):
            raise UserError(
                f"{self.path}: regions of {name[:80]!r} would lie outside, or no file has such a name; correct the"
                " image's name"
            )
        file, prefix = self.path / f"{name}.npz", ""
        if self.path.is_file():
            file, prefix = self.path, f"{name}/"
        try:
            # NumPy would advise to load such a file as a pickle.
            if file.is_file() and not zipfile.is_zipfile(file):
                raise ValueError("it is not an npz file")
            with np.load(file, allow_pickle=False) as stored:
                arrays = RegionArrays(
                    *(stored[prefix + array] for array in RegionArrays._fields)
                )
                detector = ""
                # Of the image, or of all images.
                for key in (
                    prefix + DETECTOR_KEY,
                    DETECTOR_KEY,
                ):
                    if key in stored:
                        detector = str(stored[key])
                        break
                scale = None
                if prefix + SCALE_KEY in stored:
                    scale = float(stored[prefix + SCALE_KEY])
                return RegionsEntry(file, arrays, detector, scale)
        except Exception as error:  # a hostile or truncated file can raise anything
            fault = get_first_line(error)
            raise UserError(
                f"{file}: no regions of {name} can be read ({fault}); store them, or skip it"
            ) from None

    def prepare_image(self, picture: ImageOrRegions) -> torch.Tensor:
        """Return the prepared image, of shape (1, regions, width + 4)."""
        if not isinstance(picture, ImageRegions):
            raise UserError(
                f"{self.path} holds regions by file name, not images (got an image without a name); pass the file name"
            )
        height, width = picture.size
        # One channel, a row for each region: its features, then its box as shares of the sides.
        features = torch.from_numpy(picture.features)
        boxes = torch.from_numpy(
            picture.boxes / np.array([width, height, width, height], dtype=np.float32)
        )
        if self.whole_image:
            features, boxes = put_whole_image_first(features, boxes)
        return torch.cat([features, boxes], dim=1)[None].to(self.device)

    def compute_regions(self, images: torch.Tensor) -> States:
        """Return features and boxes of a batch of prepared images.

        Returns:
            float32 of shape (batch, regions, width), and left, top, right and bottom as shares of
            the image's width and height, of shape (batch, regions, 4).
        """
        rows = images[:, 0]
        return rows[..., :-BOX_NUMBERS], rows[..., -BOX_NUMBERS:]


@dataclass(frozen=True, eq=False)
class DetectedRegions:
    """A detector as the source of regions; a coalition hides pixels, which become the mean color.

    Attributes:
        detector: The detector.
        device: A torch device.
        whole_image: Whether a row for the whole image comes first, as ViLBERT reads regions.

    Source:
        MM-SHAP (Parcalabescu and Frank, ACL 2023) on LXMERT: patches are 0 after the mean is
        subtracted, and the detector runs again for every coalition.
    """

    detector: Detector | PyramidDetector
    device: str
    whole_image: bool = False

    def prepare_image(self, picture: ImageOrRegions) -> torch.Tensor:
        """Return the image as the detector takes it: blue, green, red, float32 of shape (3, height,
        width).
        """
        if not isinstance(picture, Image.Image):
            raise UserError(
                f"{picture.name}: a detector needs the image (got regions); pass the image"
            )
        return self.detector.prepare_image(picture).to(self.device)

    def compute_regions(self, images: torch.Tensor) -> States:
        """Return features and boxes as `StoredRegions` does; each image passes the detector alone.

        Images of one batch need the same number of regions.

        Raises:
            UserError: Too few regions are found in an image.
        """
        features, boxes = [], []
        for image in images:
            image_features, image_boxes = self._detect(image)
            features.append(image_features)
            boxes.append(image_boxes)
        return torch.stack(features), torch.stack(boxes)

    def _detect(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        detections = self.detector(image)
        height, width = image.shape[-2:]
        features, boxes = detections.features, detections.boxes
        boxes = boxes / boxes.new_tensor([width, height, width, height])
        if self.whole_image:  # ViLBERT reads as many regions as there are
            return put_whole_image_first(features, boxes)
        # The released code of LXMERT adds rows of zeros up to the maximum number of regions.
        padding = (0, 0, 0, self.detector.settings.most - len(boxes))
        return torch.nn.functional.pad(features, padding), torch.nn.functional.pad(
            boxes, padding
        )


RegionProvider = StoredRegions | DetectedRegions
"""Source of an encoder's regions."""


def put_whole_image_first(
    features: torch.Tensor, boxes: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return features and boxes of an image's regions with a first row for the whole image.

    Args:
        features: Shape (regions, width). The whole image has their mean.
        boxes: Shape (regions, 4), as shares of the image's width and height.
    Returns:
        Shapes (1 + regions, width) and (1 + regions, 4).
    """
    # ViLBERT reads the complete image as its first region.
    image_box = boxes.new_tensor([WHOLE_IMAGE_BOX])
    image_feature = features.mean(dim=0, keepdim=True)
    return torch.cat([image_feature, features]), torch.cat([image_box, boxes])


def load_region_provider(
    spec: ModelSpec,
    width: int,
    device: str,
    detector_kind: str = DETECTOR_KIND,
    expected_detector: str = "",
    whole_image: bool = False,
) -> RegionProvider:
    """Return the source of regions that a model's entry names: stored regions, or a detector on a
    device.

    Args:
        spec: The entry.
        width: Number of features of a region that the model takes.
        device: A torch device.
        detector_kind: Kind of the detector that the model was trained with.
        expected_detector: Name of this detector in stored regions; empty for any.
        whole_image: Whether a row for the whole image comes first.
    Raises:
        UserError: The entry names neither or both, or the detector or the regions cannot be loaded
            or have another number of features.
    """
    label = f"models.{spec.name}"
    if spec.detector and (spec.regions or spec.masks):
        conflicting = "regions" if spec.regions else "masks"
        raise UserError(
            f"{label}.{conflicting}: needs stored regions, but a `detector` is named; remove one of them"
        )
    if spec.detector:
        detector = load_configured_detector(
            spec, detector_kind, DETECTOR_LOADERS[detector_kind]
        )
        if detector.sizes.width != width:
            raise UserError(
                f"{label}.detector: {spec.detector} gives {detector.sizes.width} features of a region, and the model"
                f" takes {width}; name the detector that it was trained with"
            )
        return DetectedRegions(detector.to(device), device, whole_image)
    path = Path(spec.regions)
    if not spec.regions or not path.exists():
        raise UserError(
            f"{label}.regions: {spec.regions or 'missing'}: this model reads regions of {width} features; name the"
            " .npz, .tsv or folder that holds them, or a `detector`"
        )
    return StoredRegions(path, width, device, expected_detector, whole_image)


def load_image_or_regions(
    encoder: Encoder, name: str, load: Callable[[], Image.Image]
) -> ImageOrRegions:
    """Return the input of an encoder for an image file: its regions if the encoder reads stored
    ones, else the image.

    Args:
        encoder: The encoder.
        name: Name of the image file.
        load: Function that loads the image.
    Raises:
        UserError: The regions of the image are not stored, or invalid.
    """
    provider = _get_stored_regions(encoder)
    if provider is None:
        return load()
    regions = provider.load_regions(name)
    if provider.expected_detector and regions.detector != provider.expected_detector:
        _warn_of_other_detector(
            encoder.spec.name,
            str(provider.path),
            regions.detector,
            provider.expected_detector,
        )
    return regions


def get_players_function(
    encoder: Encoder, fidelity: Fidelity, grid: int | None = None
) -> Callable[[Encoder, TokenizedText, torch.Tensor], EncoderPlayers]:
    """Return the function that builds the players of an encoder.

    Args:
        encoder: The encoder.
        fidelity: Rules of the players.
        grid: Patches in each direction if patches are the players; None for the number of the
            fidelity.
    Raises:
        UserError: The encoder's regions are stored, and its entry does not set `masks: regions`.
    """
    provider = _get_stored_regions(encoder)
    if provider is None:
        return functools.partial(PROFILES[fidelity.name], grid=grid)
    if encoder.spec.masks != "regions":
        raise UserError(
            f"models.{encoder.spec.name}: its regions are stored, but the method hides pixels before the detector;"
            " only scores are possible, or set `masks: regions` for another, labeled measure"
        )
    # The row of the complete image is not a player.
    skipped_rows = int(provider.whole_image)

    def build_players(
        encoder: Encoder, text: TokenizedText, image: torch.Tensor
    ) -> EncoderPlayers:
        return _build_region_players(
            PROFILES[fidelity.name](encoder, text, image), image, skipped_rows
        )

    return build_players


def label_setting(encoder: Encoder, setting: str) -> str:
    """Return the setting of an attribution, with a suffix if regions are the players.

    The suffix keeps the attribution out of tables of published numbers, whose players are patches.
    """
    if _get_stored_regions(encoder) is None:
        return setting
    return setting + OF_REGIONS


def detect_regions(
    detector: Detector, image: Image.Image, device: str
) -> dict[str, np.ndarray]:
    """Return the regions of an upright image as arrays.

    Returns:
        `features`, `boxes` in pixels of the image (best first), `size` (height, width), `classes`,
        `scores`, `attributes`, `attribute_scores`, and `detector`, the detector's name; see
        `networks.detector.Detections`.
    Raises:
        UserError: Too few regions are found.
    """
    pixels = detector.prepare_image(image)
    detections = detector(pixels.to(device))
    height, width = pixels.shape[-2:]
    # From pixels of the prepared image to pixels of the image, for x and y.
    scale = torch.tensor(image.size) / torch.tensor([width, height])
    # Boxes are replaced below.
    arrays = {name: values.cpu().numpy() for name, values in vars(detections).items()}
    return {
        **arrays,
        "boxes": (detections.boxes.cpu() * torch.cat([scale, scale])).numpy(),
        "size": np.array([image.height, image.width]),
        "detector": np.array(detector.name),
    }


def detect_pyramid_regions(
    detector: PyramidDetector, image: Image.Image, device: str
) -> dict[str, np.ndarray]:
    """Return the regions that ViLBERT's detector finds in an image, as arrays.

    Returns:
        `features`, `boxes` in pixels of the image (best first; they may reach into its padding),
        `size` (height, width), `scale` (pixels that the detector reads in a pixel of the image),
        `cls_prob` (background first), `objects` (index of the most probable class without
        background), `scores`, `detector`, the name that ViLBERT expects, and `weights`, the name of
        the file; see `networks.vilbert_detector.PyramidDetections`.
    """
    detections = detector(detector.prepare_image(image).to(device))
    settings = detector.settings
    # Stored with the regions, since boxes may reach into the padding.
    scale = compute_scale(
        image.height, image.width, settings.shortest, settings.longest
    )
    probabilities = detections.class_probabilities.cpu().numpy()
    return {
        "boxes": detections.boxes.cpu().numpy(),
        "features": detections.features.cpu().numpy(),
        "cls_prob": probabilities,
        "objects": probabilities[:, 1:].argmax(axis=1),
        "scores": detections.scores.numpy(),
        "size": np.array([image.height, image.width]),
        "scale": np.array(scale),
        "detector": np.array(DETECTOR_NAME),
        "weights": np.array(detector.name),
    }


def write_regions(file: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays as an .npz atomically."""
    with replace_file(file) as temporary, temporary.open("wb") as opened:
        np.savez(opened, allow_pickle=False, **arrays)


def read_regions(file: Path, name: str) -> RegionArrays:
    """Return the regions of an image by its file name, with or without folder and suffix.

    A row belongs to an image if its id is the name, or both are the same number:
    `COCO_val2014_000000000042.jpg` and `000000000042.jpg` have the row of the id 42. The first use
    of a file reads all of it to index the rows.

    Raises:
        UserError: The file is not such a TSV, or has no row of the image, several that differ, or a
            broken one.
    """
    index = _index_lines(file, file.stat().st_mtime_ns)
    path = PurePosixPath(name)
    lines: tuple[LinePosition, ...] = ()
    for form in (name, path.name, path.stem):
        lines = index.get(normalize_image_id(form), ())
        if lines:
            break
    if not lines:
        raise UserError(
            f"{file}: no row has the id of {name} ({normalize_image_id(path.stem)}); name the file that holds it"
        )
    # Read at their positions, as a file of regions may be larger than the memory.
    rows = [_read_line(file, line) for line in lines]
    # Equal rows stand in tables that were joined.
    if any(row != rows[0] for row in rows):
        numbers = " and ".join(str(line.number) for line in lines)
        raise UserError(
            f"{file}: lines {numbers} are regions of {name}, and differ; keep one of them"
        )
    return decode_line(rows[0], f"{file}, line {lines[0].number}")


def normalize_image_id(name: str) -> str:
    """Return the number in an image's id or name, or the name itself."""
    match = NUMERIC_ID.fullmatch(name)
    if match is None:
        return name
    return match[1]


def decode_line(line: bytes, location: str) -> RegionArrays:
    """Return the arrays of a line.

    Args:
        line: The line, without its end.
        location: File and number of the line, for error messages.
    Raises:
        UserError: A column is invalid.
    """
    # The number of columns tells which release the table follows.
    cells = line.split(b"\t")
    row = dict(zip(COLUMNS[len(cells)], cells, strict=True))
    # Height, width and number of regions.
    sizes = []
    for column in ("image_h", "image_w", "num_boxes"):
        if not POSITIVE_NUMBER.fullmatch(row[column]):
            raise UserError(
                f"{location}: {column} is {row[column][:20]!r}, no number; fetch the file again"
            )
        sizes.append(int(row[column]))
    height, width, count = sizes
    boxes = _decode_floats(row["boxes"], "boxes", location)
    features = _decode_floats(row["features"], "features", location)
    has_all_boxes = len(boxes) == BOX_NUMBERS * count
    has_all_features = len(features) > 0 and len(features) % count == 0
    if not (has_all_boxes and has_all_features):
        raise UserError(
            f"{location}: {len(boxes)} numbers of boxes and {len(features)} of features do not fit {count} regions;"
            " fetch the file again"
        )
    return RegionArrays(
        features.reshape(count, -1),
        boxes.reshape(count, BOX_NUMBERS),
        np.array([height, width]),
    )


def _decode_floats(cell: bytes, column: str, location: str) -> np.ndarray:
    """Return float32 values from base64."""
    try:
        return np.frombuffer(base64.b64decode(cell, validate=True), dtype="<f4").astype(
            np.float32
        )
    except ValueError as error:
        raise UserError(
            f"{location}: {column} is not float32 in base64 ({error}); fetch the file again"
        ) from None


@functools.lru_cache(maxsize=4)
def _index_lines(file: Path, changed: int) -> Mapping[str, tuple[LinePosition, ...]]:
    """Return the positions of the rows of each image; `changed` is the file's time, which
    invalidates the cache.
    """
    positions: dict[str, tuple[LinePosition, ...]] = {}
    offset = 0
    with file.open("rb") as stream:
        for number, line in enumerate(
            iter(lambda: stream.readline(MAX_LINE_BYTES), b""), start=1
        ):
            image, _, _ = line.partition(b"\t")
            # Some releases have a header, others do not.
            is_header = number == 1 and image in HEADER_NAMES
            if line.strip() and not is_header:
                _check_columns(line, f"{file}, line {number}")
                key = normalize_image_id(
                    image.decode("utf-8", errors="backslashreplace")
                )
                positions[key] = (*positions.get(key, ()), LinePosition(number, offset))
            offset += len(line)
    return positions


def _check_columns(line: bytes, location: str) -> None:
    """Refuse a line with another number of columns than a row has, or of which only the beginning
    was read.
    """
    n_columns = line.count(b"\t") + 1
    if n_columns not in COLUMNS or len(line) == MAX_LINE_BYTES:
        counts = " or ".join(map(str, COLUMNS))
        raise UserError(
            f"{location}: no row of {counts} columns; file truncated or in another format; fetch it again"
        )


def _read_line(file: Path, line: LinePosition) -> bytes:
    with file.open("rb") as stream:
        stream.seek(line.offset)
        return stream.readline().rstrip(b"\r\n")


def _describe_faults(
    arrays: RegionArrays, width: int, is_padded: bool, scale: float | None
) -> str:
    """Return the faults of stored arrays; empty if there are none.

    Args:
        arrays: The arrays.
        width: Expected number of features of a region.
        is_padded: Whether the detector clips boxes to the image padded on the right and below, as
            ViLBERT's does.
        scale: Pixels of the image that the detector read in a pixel of the image; None for the
            scale of the released sides.
    """
    features, boxes, size = arrays
    for array in arrays:
        if array.dtype.kind not in "iuf":
            return f"numbers are of type {array.dtype.name}, not real"
    has_regions = features.ndim == 2 and len(features) > 0
    if not has_regions or features.shape[1] != width:
        return f"features are of shape {features.shape}, not (regions, {width})"
    has_size = size.shape == (2,) and (size > 0).all()
    if boxes.shape != (len(features), BOX_NUMBERS) or not has_size:
        return f"boxes are of shape {boxes.shape} and the size of {size.shape}, not ({len(features)}, 4) and (2,)"
    is_finite = np.isfinite(features).all() and np.isfinite(boxes).all()
    if not is_finite:
        return "some numbers are not finite"
    if scale is not None and not 0 < scale < np.inf:
        return f"scale is {scale}, not a positive number"
    if not _are_pixel_boxes(boxes, size, is_padded, scale):
        return f"boxes are not left, top, right, bottom in pixels of an image of height {size[0]} and width {size[1]}"
    return ""


def _are_pixel_boxes(
    boxes: np.ndarray, size: np.ndarray, is_padded: bool, scale: float | None
) -> bool:
    """Return whether boxes are in pixels of an image of this height and width; see
    `_describe_faults`.
    """
    height, width = size
    # Limits of left, top, right and bottom.
    edges = np.array([width, height, width, height])
    margin = 1.0
    if is_padded:
        released = PyramidSettings()
        scale = scale or compute_scale(
            int(height), int(width), released.shortest, released.longest
        )
        margin = max(margin, (SIDE_MULTIPLE - 1) / scale)
    if (boxes < -1).any() or (boxes > edges + margin).any():
        return False
    # Numbers up to 1 are shares of the sides, unless the image has a few pixels only.
    return not (boxes.max() <= 1 and edges.min() > BOX_NUMBERS)


def _build_region_players(
    players: EncoderPlayers, image: torch.Tensor, skipped_rows: int
) -> EncoderPlayers:
    """Return the same text players with regions as image players; rows before these are always
    visible.

    A hidden region keeps its box, and its features are 0.
    """
    # A row a region; its features and then its box as columns.
    rows, columns = image.shape[-2:]
    count = rows - skipped_rows
    # cells[row, column]: the player of each number; `count` for numbers that no player hides.
    cells = (torch.arange(rows, device=image.device) - skipped_rows)[:, None].repeat(
        1, columns
    )
    cells[:skipped_rows] = count
    cells[:, -BOX_NUMBERS:] = count
    always_visible = np.concatenate(
        [players.always_visible[: players.n_text_players], np.zeros(count, dtype=bool)]
    )
    return replace(players, grid=0, cells=cells, always_visible=always_visible)


def _get_stored_regions(encoder: Encoder) -> StoredRegions | None:
    """Return the source of an encoder's regions if they are stored; None for an encoder that reads
    images.
    """
    provider = getattr(encoder, "provider", None)
    if isinstance(provider, StoredRegions):
        return provider
    return None


@functools.cache
def _warn_of_other_detector(
    model: str, file: str, detector: str, expected: str
) -> None:
    """Warn once that a model's regions are of another detector than in its training, or of an
    unknown one.
    """
    origin = "of a detector that the file does not name"
    if detector:
        origin = f"of {detector!r}"
    log.warning(
        "models.%s: its regions in %s are %s; it was trained on those of %r",
        model,
        file,
        origin,
        expected,
    )
