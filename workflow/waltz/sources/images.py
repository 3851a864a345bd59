"""Images by name, from a folder, a zip or a tar, without unpacking, always RGB and upright."""

import csv
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
import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image, ImageOps, UnidentifiedImageError

from waltz.core.errors import UserError, get_first_line
from waltz.core.files import parquet
from waltz.core.files.atomic import replace_file
from waltz.core.files.open_image import IMAGE_FORMATS, open_image
from waltz.sources.listed_images import NOT_LISTED

T = TypeVar("T")

MAX_PIXELS = 64_000_000
"""Larger images are refused: COCO's largest has 0.4 million pixels, a phone's photo 50 million."""

MAX_BYTES = 256 * 1024 * 1024
"""Larger image files are refused before they are read."""


@dataclass(frozen=True)
class ImageSource:
    """Folder or archive of images.

    Each process opens its own; it cannot be shared between processes.

    Attributes:
        path: The folder or archive.
        members: Paths of all files, by the last part of the name without its suffix.
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
        image: Its name, as the caller gave it.
        reason: Why it cannot be used.
    """

    image: str
    reason: str


@contextmanager
def open_images(path: str | Path) -> Iterator[ImageSource]:
    """Open a folder, zip or tar of images, or several of them by a text file with one path in each line.

    Members of an archive with absolute names or `..`, and links and devices in a tar, are skipped; nothing is written
    to disk. Links in a folder are followed only to files inside it: others are faults of their images.
    """
    path = Path(path)
    if path.is_dir():
        names = (str(file.relative_to(path).as_posix()) for file in path.rglob("*") if file.is_file())
        yield ImageSource(
            path,
            _group_by_stem(names),
            lambda name: _locate(path, name).stat().st_size,
            lambda name: _locate(path, name).read_bytes(),
        )
    elif not path.exists():
        raise UserError(f"{path}: no such folder or archive of images")
    elif path.suffix == ".txt":
        with ExitStack() as stack:
            lines = path.read_text(encoding="utf-8").splitlines()
            parts = [stack.enter_context(open_images(path.parent / line)) for line in lines]
            source_of = {name: part for part in reversed(parts) for names in part.members.values() for name in names}
            yield ImageSource(
                path,
                _group_by_stem(source_of),
                lambda name: source_of[name].size(name),
                lambda name: source_of[name].read(name),
            )
    elif zipfile.is_zipfile(path):
        with _open_archive(path, lambda: zipfile.ZipFile(path)) as archive:
            files = {info.filename: info for info in archive.infolist() if not info.is_dir()}
            yield ImageSource(path, _group_by_stem(files), lambda name: files[name].file_size, archive.read)
    elif tarfile.is_tarfile(path):
        with _open_archive(path, lambda: tarfile.open(path)) as tar:
            entries = {info.name: info for info in _open_archive(path, tar.getmembers) if info.isreg()}
            yield ImageSource(
                path,
                _group_by_stem(entries),
                lambda name: entries[name].size,
                lambda name: _read_tar_member(tar, entries[name]),
            )
    else:
        raise UserError(f"{path}: not a folder, zip or tar; get the file again")


def _locate(folder: Path, name: str) -> Path:
    """Return the path of a file in a folder, which a link in a folder from others may lead out of."""
    path = folder / name
    if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
        raise OSError("it is a link that leads out of its folder; put the file itself there")
    return path


def load_image(source: ImageSource, name: str) -> Image.Image:
    """Load an image as RGB, turned upright as its EXIF data says.

    Greyscale (8 or 16 bits), CMYK and palette images are converted; transparent pixels become white.

    Args:
        name: A path in the source, or the end of exactly one path; if there is none, the same with another suffix.
    """
    image = _try_load(source, name)
    if isinstance(image, str):
        raise UserError(f"{source.path}: image {name!r}: {image}")
    return image


def load_image_file(path: Path) -> Image.Image:
    """Load one image file as `load_image` does.

    Raises:
        UserError: There is no such file, or it is no image that can be read.
    """
    if not path.is_file():
        fault = "is no file but a folder or device" if path.exists() else "no such file"
        raise UserError(f"{path}: {fault}; name an image")
    members = {path.stem: (path.name,)}
    image = _try_load(ImageSource(path, members, lambda _: path.stat().st_size, lambda _: path.read_bytes()), path.name)
    if isinstance(image, str):
        raise UserError(f"{path}: {image}; name an image ({', '.join(IMAGE_FORMATS)})")
    return image


def convert_image(image: Image.Image) -> Image.Image:
    """Return an open image as `load_image` does: RGB, upright, transparent pixels white.

    Raises:
        UserError: It cannot be decoded, or its pixels have no fixed range.
    """
    try:
        return _convert_to_rgb(ImageOps.exif_transpose(image))
    except Exception as error:  # decoders raise errors of many types
        raise UserError(f"image: cannot be decoded: {get_first_line(error)}; give another image") from None


def find_image_path(source: ImageSource, name: str) -> str:
    """Return the path that a name refers to, for `source.size` and `source.read`, without opening the image."""
    paths = _find_paths(source, name)
    if len(paths) != 1:
        raise UserError(f"{source.path}: image {name!r}: {_describe_ambiguity(paths)}")
    return paths[0]


def check_images(source: ImageSource, names: Iterable[str]) -> list[ImageFault]:
    """Decode every image once, about 3 ms each at COCO's size, and list those that `load_image` would refuse."""
    results = ((name, _try_load(source, name)) for name in dict.fromkeys(names))
    return [ImageFault(name, result) for name, result in results if isinstance(result, str)]


def list_image_names(tables: Iterable[str | Path]) -> list[str]:
    """Return the images that Parquet tables of rows name, each once; not those of rows about unlisted images."""
    columns = []
    for table in tables:
        rows = parquet.read_table(table)
        if "rejected" in rows.column_names:
            rows = rows.filter(pc.fill_null(pc.not_equal(rows["rejected"], NOT_LISTED), True))
        columns.append(rows["image"].combine_chunks())
    names: list[str] = pa.concat_arrays(columns).unique().drop_null().to_pylist()
    return names


def write_manifest(path: str | Path, names: Iterable[str], faults: Iterable[ImageFault]) -> None:
    """Write a CSV file of image, found (yes, no) and fault."""
    reason_of = {fault.image: fault.reason for fault in faults}
    with replace_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["image", "found", "fault"])
        writer.writerows((name, "no" if name in reason_of else "yes", reason_of.get(name, "")) for name in names)


def _try_load(source: ImageSource, name: str) -> Image.Image | str:
    """Return the image, or the reason why it cannot be used."""
    paths = _find_paths(source, name)
    if len(paths) != 1:
        return _describe_ambiguity(paths)
    try:
        size = source.size(paths[0])
        if size > MAX_BYTES:
            return f"has {size} bytes, more than {MAX_BYTES}"
        content = source.read(paths[0])
    except (OSError, RuntimeError, zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error) as error:
        return f"cannot be read: {get_first_line(error)}"
    return _decode(content)


def _describe_ambiguity(paths: Sequence[str]) -> str:
    """Return why a name does not refer to exactly one path."""
    return f"stands {len(paths)} times: {', '.join(paths[:3])}" if paths else "is missing"


def _decode(content: bytes) -> Image.Image | str:
    """Return the decoded image, or the reason why it cannot be used."""
    if not content:
        return "is empty"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            image = open_image(io.BytesIO(content))
            if image.width * image.height > MAX_PIXELS:
                return f"has {image.width} x {image.height} pixels, more than {MAX_PIXELS}"
            image.load()
            return _convert_to_rgb(ImageOps.exif_transpose(image))
        except UnidentifiedImageError:
            return "is no image of a known format"
        except Image.DecompressionBombError:
            return f"has more than {MAX_PIXELS} pixels"
        except Exception as error:  # decoders raise errors of many types
            return f"cannot be decoded: {get_first_line(error)}"


def _convert_to_rgb(image: Image.Image) -> Image.Image:
    """Return an image as RGB, transparent pixels on white."""
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


def _find_paths(source: ImageSource, name: str) -> list[str]:
    """Return the paths that a name may refer to.

    The path itself comes first, then paths that end in the name, then those that do so apart from the suffix: VisDial,
    VQA and GQA give ids, not names, so the suffix is a guess there.
    """
    if not _is_safe(name):
        return []
    target = PurePosixPath(name)
    candidates = [PurePosixPath(path) for path in source.members.get(target.stem, ())]
    length = len(target.parts)
    same_name = [path for path in candidates if path.name == target.name]
    equal = [path for path in same_name if path == target]
    same_end = [path for path in same_name if path.parts[-length:] == target.parts]
    same_stem = [path for path in candidates if path.with_suffix("").parts[-length:] == target.with_suffix("").parts]
    return [str(path) for path in equal or same_end or same_stem]


def _is_safe(name: str) -> bool:
    """Return whether a name stays below its source on every system."""
    parts = PurePosixPath(name).parts
    return bool(parts) and parts[0] != "/" and ".." not in parts and "\\" not in name and "\0" not in name


def _group_by_stem(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the safe names by their last part without suffix."""
    members: dict[str, tuple[str, ...]] = {}
    for name in names:
        if _is_safe(name):
            stem = PurePosixPath(name).stem
            members[stem] = (*members.get(stem, ()), name)
    return members


def _open_archive(path: Path, read: Callable[[], T]) -> T:
    """Return what a function reads from an archive."""
    try:
        return read()
    except (OSError, zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
        raise UserError(f"{path}: broken or truncated archive ({get_first_line(error)}); get the file again") from None


def _read_tar_member(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(entry)
    if file is None:
        raise OSError("is no file")
    with file:
        content = file.read()
    if len(content) < entry.size:
        raise OSError(f"the archive ends after {len(content)} of its {entry.size} bytes")
    return content
