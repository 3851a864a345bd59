"""Images by name, from a folder, a zip or a tar, without unpacking; always RGB and upright, or named as faulty."""

import io
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from waltz.core.errors import UserError

T = TypeVar("T")

MAX_PIXELS = 64_000_000
"""Larger images are refused: COCO's largest has 0.4 million pixels, a phone's photo 50 million."""

MAX_BYTES = 256 * 1024 * 1024
"""Larger image files are refused before they are read."""


@dataclass(frozen=True)
class ImageSource:
    """Where images lie.

    Not to be shared between processes: each opens its own.

    Attributes:
        path: The folder or archive.
        members: By the last part of a name, suffix left out, the paths of all files called so.
        size: Bytes of the file at a path.
        read: Content of the file at a path.
    """

    path: Path
    members: Mapping[str, tuple[str, ...]]
    size: Callable[[str], int]
    read: Callable[[str], bytes]


@dataclass(frozen=True)
class ImageFault:
    """An image that cannot be used.

    Attributes:
        image: Its name, as it was asked for.
        reason: Why.
    """

    image: str
    reason: str


@contextmanager
def open_images(path: str | Path) -> Iterator[ImageSource]:
    """A folder, zip or tar of images, its files listed; or several, by a text file that names one a line.

    Members of an archive with absolute names or `..`, and links and devices in a tar, are left out of the list; nothing
    is ever written to disk.

    Raises:
        UserError: There is no such folder or archive, or it cannot be read.
    """
    path = Path(path)
    if path.is_dir():
        names = (str(file.relative_to(path).as_posix()) for file in path.rglob("*") if file.is_file())
        yield ImageSource(
            path, _listed(names), lambda name: (path / name).stat().st_size, lambda name: (path / name).read_bytes()
        )
    elif not path.exists():
        raise UserError(f"{path}: no such folder or archive of images")
    elif path.suffix == ".txt":
        with ExitStack() as stack:
            lines = path.read_text(encoding="utf-8").splitlines()
            parts = [stack.enter_context(open_images(path.parent / line)) for line in lines]
            place = {name: part for part in reversed(parts) for names in part.members.values() for name in names}
            yield ImageSource(
                path, _listed(place), lambda name: place[name].size(name), lambda name: place[name].read(name)
            )
    elif zipfile.is_zipfile(path):
        with _readable(path, lambda: zipfile.ZipFile(path)) as archive:
            files = {info.filename: info for info in archive.infolist() if not info.is_dir()}
            yield ImageSource(path, _listed(files), lambda name: files[name].file_size, archive.read)
    elif tarfile.is_tarfile(path):
        with _readable(path, lambda: tarfile.open(path)) as tar:
            entries = {info.name: info for info in _readable(path, tar.getmembers) if info.isreg()}
            yield ImageSource(
                path, _listed(entries), lambda name: entries[name].size, lambda name: _tar_content(tar, entries[name])
            )
    else:
        raise UserError(f"{path}: is no folder, zip or tar; get the file again")


def load_image(source: ImageSource, name: str) -> Image.Image:
    """An image as RGB, turned upright as its EXIF data says.

    Greyscale (8 or 16 bits), CMYK and palette images are converted; transparent pixels become white.

    Args:
        source: Where it lies.
        name: Its name: a path in the source, or the end of one that is the only one to end so; where there is none, the
            same with another suffix.
    Raises:
        UserError: The image is missing, ambiguous, truncated, too large or of an unknown format.
    """
    image = _loaded(source, name)
    if isinstance(image, str):
        raise UserError(f"{source.path}: image {name!r}: {image}")
    return image


def find_image_path(source: ImageSource, name: str) -> str:
    """The path that a name means, for `source.size` and `source.read`; whether it holds an image is not looked at.

    Raises:
        UserError: The image is missing or ambiguous.
    """
    found = _found(source, name)
    if len(found) != 1:
        raise UserError(f"{source.path}: image {name!r}: {_not_one(found)}")
    return found[0]


def check_images(source: ImageSource, names: Iterable[str]) -> list[ImageFault]:
    """Decode every image once, about 3 ms each at COCO's size, and list what `load_image` would refuse.

    Args:
        source: Where the images lie.
        names: Names of the images; a repeated name is checked once.
    Returns:
        One fault an unusable image, in the order of the names.
    """
    checked = ((name, _loaded(source, name)) for name in dict.fromkeys(names))
    return [ImageFault(name, outcome) for name, outcome in checked if isinstance(outcome, str)]


def _loaded(source: ImageSource, name: str) -> Image.Image | str:
    """The image, or why there is none."""
    found = _found(source, name)
    if len(found) != 1:
        return _not_one(found)
    try:
        size = source.size(found[0])
        if size > MAX_BYTES:
            return f"has {size} bytes, more than {MAX_BYTES}"
        content = source.read(found[0])
    except (OSError, RuntimeError, zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error) as error:
        return f"cannot be read: {_first_line(error)}"
    return _decoded(content)


def _not_one(found: Sequence[str]) -> str:
    return f"stands {len(found)} times: {', '.join(found[:3])}" if found else "is missing"


def _decoded(content: bytes) -> Image.Image | str:
    if not content:
        return "is empty"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            image: Image.Image = Image.open(io.BytesIO(content))
            if image.width * image.height > MAX_PIXELS:
                return f"has {image.width} x {image.height} pixels, more than {MAX_PIXELS}"
            image.load()
            return _as_rgb(ImageOps.exif_transpose(image))
        except UnidentifiedImageError:
            return "is no image of a known format"
        except Image.DecompressionBombError:
            return f"has more than {MAX_PIXELS} pixels"
        except Exception as error:  # decoders raise whatever their format's code happens to
            return f"cannot be decoded: {_first_line(error)}"


def _as_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "RGB":
        return image
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8)).convert("RGB")
    if image.mode in ("I", "F"):
        raise ValueError(f"pixels of mode {image.mode} have no fixed range")
    if image.has_transparency_data:
        layered = image.convert("RGBA")
        white = Image.new("RGBA", layered.size, "white")
        return Image.alpha_composite(white, layered).convert("RGB")
    return image.convert("RGB")


def _found(source: ImageSource, name: str) -> list[str]:
    """Paths that a name may mean: the path itself, else those that end in it, else those that do but for the suffix.

    VisDial, VQA and GQA give ids, not names, so the suffix is a guess there.
    """
    if not _is_safe(name):
        return []
    wanted = PurePosixPath(name)
    candidates = [PurePosixPath(path) for path in source.members.get(wanted.stem, ())]
    length = len(wanted.parts)
    named = [path for path in candidates if path.name == wanted.name]
    exact = [path for path in named if path == wanted]
    ending = [path for path in named if path.parts[-length:] == wanted.parts]
    stems = [path for path in candidates if path.with_suffix("").parts[-length:] == wanted.with_suffix("").parts]
    return [str(path) for path in exact or ending or stems]


def _is_safe(name: str) -> bool:
    """Whether a name stays below its source on every system."""
    parts = PurePosixPath(name).parts
    return bool(parts) and parts[0] != "/" and ".." not in parts and "\\" not in name and "\0" not in name


def _listed(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    members: dict[str, tuple[str, ...]] = {}
    for name in names:
        if _is_safe(name):
            stem = PurePosixPath(name).stem
            members[stem] = (*members.get(stem, ()), name)
    return members


def _readable(path: Path, act: Callable[[], T]) -> T:
    try:
        return act()
    except (OSError, zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
        raise UserError(f"{path}: no whole archive ({_first_line(error)}); get the file again") from None


def _tar_content(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(entry)
    if file is None:
        raise OSError("is no file")
    with file:
        content = file.read()
    if len(content) < entry.size:
        raise OSError(f"the archive ends after {len(content)} of its {entry.size} bytes")
    return content


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
