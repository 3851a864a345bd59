"""Images by name from a folder, a zip or a tar, which is not unpacked; every image is RGB and
upright.
"""

import csv
import io
import re
import tarfile
import threading
import unicodedata
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import TypeVar
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError

from waltz.core.downloads.content_checks import HEAD_BYTES, POINTER_START
from waltz.core.errors import (
    UserError,
    advise_on_missing_file,
    find_closest,
    get_first_line,
)
from waltz.core.files import parquet
from waltz.core.files.archives import is_regular
from waltz.core.files.atomic import replace_file
from waltz.core.files.open_image import IMAGE_FORMATS, open_image
from waltz.core.files.safe_names import is_companion, is_safe_name
from waltz.core.redaction import hide_secrets
from waltz.sources.listed_images import NOT_LISTED
from waltz.sources.tables import read_stored_images, stores_images

T = TypeVar("T")

MAX_PIXELS = 64_000_000
"""Highest number of pixels of an image: the largest image of COCO has 0.4 million, a photo of a
phone 50 million.
"""

NUMBER = re.compile(r"[0-9]+")
URL_STARTS = ("http://", "https://", "s3://", "gs://", "file://", "data:")
ROOT_STARTS = ("/", "~", "$", "../")
"""Starts of names that do not begin in the folder of images."""
LONGEST_NAME = 1000
"""Most characters of the name of an image."""
OTHER_FORMATS = {
    rb".{4}ftyp(?:avif|avis)": "an AVIF image",
    rb".{4}ftyp(?:heic|heix|hevc|mif1|msf1)": "a HEIC image",
    rb".{4}ftyp": "a video",
    rb"\xef?\xbb?\xbf?\s*(?:<\?xml.*)?<svg": "an SVG drawing",
    rb"%PDF": "a PDF document",
    rb".{4}jP  \r\n": "a JPEG 2000 image",
}
"""Kinds of files that are taken for images, by a pattern of their first bytes."""
GRAY_STEPS: Mapping[object, int] = {"L;2": 85, "L;4": 17}
"""Steps between the gray levels of 2 and 4 bits when Pillow has decoded them to 8 bits."""
WHITE = 255
MAX_LIST_BYTES = 1 << 20
"""Size limit of a list of folders and archives."""
MAX_BYTES = 256 * 1024 * 1024
"""Size limit of an image file, which is checked before the file is read."""


@dataclass(frozen=True)
class ImageSource:
    """An open folder or archive of images.

    Threads can share it, processes cannot: each process opens the folder or archive itself.

    Attributes:
        path: The folder or archive.
        members: Paths of all files, by the last part of the name without its suffix.
        size: Returns the number of bytes of the file at a path.
        read: Returns the content of the file at a path.
    """

    path: Path
    members: Mapping[str, tuple[str, ...]]
    size: Callable[[str], int]
    read: Callable[[str], bytes]

    @cached_property
    def folded(self) -> Mapping[str, list[str]]:
        """Return the paths of all files by the folded last part of the name without its suffix."""
        paths: dict[str, list[str]] = {}
        for path in chain.from_iterable(self.members.values()):
            paths.setdefault(_fold_name(path).stem, []).append(path)
        return paths


@dataclass(frozen=True)
class ImageFault:
    """An image that cannot be used.

    Attributes:
        image: Name of the image, as the caller gave it.
        reason: Why the image cannot be used.
    """

    image: str
    reason: str


@contextmanager
def open_images(path: str | Path) -> Iterator[ImageSource]:
    """Open a folder, zip or tar of images, a Parquet or Arrow data set that stores them, or several
    of these by a text file with one path in each line.

    Members of an archive with absolute names or `..`, and links and devices in it, are skipped;
    nothing is written to disk. A link in a folder is followed only to a file inside the folder;
    another link is a fault of its image.

    Raises:
        UserError: The folder, archive or list is missing or cannot be read, or a list names a list,
            a missing path or nothing.
    """
    path = Path(path)
    if stores_images(path):
        yield _open_stored_images(path)
        return
    if path.is_dir():
        yield _open_folder(path)
        return
    if not path.exists():
        raise UserError(
            f"{path}: no such folder or archive of images; correct the path"
        )
    if path.suffix == ".txt":
        with ExitStack() as stack:
            parts = [
                stack.enter_context(open_images(part)) for part in _read_parts(path)
            ]
            yield _join_sources(path, parts)
    # The content of the file, not its name, decides between zip and tar.
    elif _open_archive(path, lambda: zipfile.is_zipfile(path)):
        with _open_archive(path, lambda: zipfile.ZipFile(path)) as archive:
            yield _open_zip(path, archive)
    elif _open_archive(path, lambda: tarfile.is_tarfile(path)):
        with _open_archive(path, lambda: tarfile.open(path)) as tar:
            yield _open_tar(path, tar)
    else:
        raise UserError(
            f"{path}: not a folder, zip or tar, nor a data set with images; name one of these, or get the file again"
        )


def _open_folder(folder: Path) -> ImageSource:
    return ImageSource(
        folder,
        _group_by_stem(_list_files(folder)),
        lambda name: _locate(folder, name).stat().st_size,
        lambda name: _locate(folder, name).read_bytes(),
    )


def _open_stored_images(path: Path) -> ImageSource:
    """Return the images within a data set, all of which are in memory, as the file packs them."""
    images = read_stored_images(path)
    return ImageSource(
        path, _group_by_stem(images), lambda name: len(images[name]), images.__getitem__
    )


def _join_sources(path: Path, parts: Sequence[ImageSource]) -> ImageSource:
    """Join several sources into one; if several sources have a path, the first source provides its
    image.
    """
    source_of: dict[str, ImageSource] = {}
    # In reverse, so that earlier sources overwrite later ones.
    for part in reversed(parts):
        for names in part.members.values():
            source_of |= dict.fromkeys(names, part)
    return ImageSource(
        path,
        _group_by_stem(source_of),
        lambda name: source_of[name].size(name),
        lambda name: source_of[name].read(name),
    )


def _open_zip(path: Path, archive: zipfile.ZipFile) -> ImageSource:
    infos = [info for info in archive.infolist() if is_regular(info)]
    files = {info.filename: info for info in infos}
    return ImageSource(
        path,
        # A name that stands twice is a fault of its image.
        _group_by_stem(info.filename for info in infos),
        lambda name: files[name].file_size,
        lambda name: _read_zip_member(archive, files[name]),
    )


def _open_tar(path: Path, tar: tarfile.TarFile) -> ImageSource:
    infos = [info for info in _open_archive(path, tar.getmembers) if info.isreg()]
    entries = {info.name: info for info in infos}
    # All members are read through one position in the file, which threads must not move at once.
    lock = threading.Lock()

    def read(name: str) -> bytes:
        with lock:
            return _read_tar_member(tar, entries[name])

    return ImageSource(
        path,
        _group_by_stem(info.name for info in infos),
        lambda name: entries[name].size,
        read,
    )


def _list_files(folder: Path) -> list[str]:
    """Return the paths of all files below a folder, relative to it.

    Raises:
        UserError: A part of the folder cannot be read.
    """
    try:
        return [
            file.relative_to(folder).as_posix()
            for file in folder.rglob("*")
            if file.is_file()
        ]
    except OSError as error:
        raise UserError(
            f"{error.filename or folder}: cannot be read ({error.strerror}); check the folder"
        ) from None


def _read_parts(path: Path) -> list[Path]:
    """Return the folders and archives that a list names, one in each line; empty lines are skipped."""
    try:
        if path.stat().st_size > MAX_LIST_BYTES:
            raise UserError(
                f"{path}: is not a list of folders and archives (got more than {MAX_LIST_BYTES} bytes);"
                " name an archive or a list"
            )
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read ({error.strerror}); check the path"
        ) from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8"
        ) from None
    # Check each path here, where an error can name the line of the list.
    numbered = [
        (number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()
    ]
    if not numbered:
        raise UserError(
            f"{path}: names no folder or archive; write one path in each line"
        )
    parts: dict[Path, int] = {}
    for number, line in numbered:
        location = f"{path}, line {number}"
        # Paths are relative to the folder of the list.
        part = path.parent / line
        try:
            exists = part.exists()
        except (
            OSError,
            ValueError,
        ):
            # Names that no file can have: too long, or with a zero byte.
            exists = False
        if not exists:
            raise UserError(
                f"{hide_secrets(str(part))[:200]}: no such folder or archive of images, named in {location}; correct it"
            )
        if part.is_file() and part.suffix == ".txt":
            raise UserError(
                f"{location}: a list names folders and archives (got the list {hide_secrets(line)[:80]!r}); name those"
            )
        if part in parts:
            raise UserError(
                f"{location}: {hide_secrets(line)[:80]!r} stands in line {parts[part]}, too; remove one line"
            )
        parts[part] = number
    return list(parts)


def _read_zip_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return the content of a member of a zip; no more bytes are unpacked than the archive
    declares.
    """
    with archive.open(info) as file:
        # One byte more than declared shows that the archive understates a size.
        content = file.read(info.file_size + 1)
    if len(content) != info.file_size:
        raise OSError(
            f"the archive holds {len(content)} of its {info.file_size} bytes, or more"
        )
    return content


def _locate(folder: Path, name: str) -> Path:
    """Return the path of a file in a folder; a link that leads out of the folder is an error.

    Folders may come from other people, and such a link could name any file of the user.
    """
    path = folder / name
    if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
        raise OSError(
            "it is a link that leads out of its folder; put the file itself there"
        )
    return path


def load_image(source: ImageSource, name: str) -> Image.Image:
    """Load an image as RGB, turned upright as its EXIF data says.

    Grayscale (8 or 16 bits), CMYK and palette images are converted; transparent pixels become
    white.

    Args:
        name: A path in the source, or the end of exactly one path. If no path ends in the name, its
            suffix is ignored.
    """
    image = _try_load(source, name)
    if isinstance(image, str):
        raise UserError(f"{source.path}: image {name!r}: {image}")
    return image


def load_image_file(path: Path) -> Image.Image:
    """Load one image file as `load_image` does.

    Raises:
        UserError: The file is missing, or it cannot be read as an image.
    """
    if not path.is_file():
        if path.exists():
            raise UserError(f"{path}: is a folder or device, not a file; name an image")
        raise UserError(f"{path}: no such file; {advise_on_missing_file(path)}")
    # A source of one file, so that the same checks apply.
    members = {path.stem: (path.name,)}
    image = _try_load(
        ImageSource(
            path, members, lambda _: path.stat().st_size, lambda _: path.read_bytes()
        ),
        path.name,
    )
    if isinstance(image, str):
        raise UserError(f"{path}: {image}; name an image ({', '.join(IMAGE_FORMATS)})")
    return image


def convert_image(image: Image.Image) -> Image.Image:
    """Convert an open image as `load_image` does: to RGB, upright, with white in place of
    transparent pixels.

    Raises:
        UserError: The image cannot be decoded, or its pixels have no fixed range.
    """
    try:
        _scale_transparent_color(image)
        return _convert_to_rgb(ImageOps.exif_transpose(image))
    except Exception as error:  # decoders raise errors of many types
        raise UserError(
            f"image: cannot be decoded: {get_first_line(error)}; give another image"
        ) from None


def find_image_path(source: ImageSource, name: str) -> str:
    """Return the path of the image with a name, for `source.size` and `source.read`; the image is
    not opened.
    """
    paths = _find_paths(source, name)
    if len(paths) != 1:
        raise UserError(
            f"{source.path}: image {name[:LONGEST_NAME]!r}: {_describe_ambiguity(paths)}{_suggest(source, name, paths)}"
        )
    return paths[0]


def _suggest(source: ImageSource, name: str, paths: Sequence[str]) -> str:
    """Return a question that names the file most like a missing image, or why no file has such a
    name; else an empty text.
    """
    if paths:
        return ""
    if len(name) > LONGEST_NAME:
        return (
            "; such a long text is no name of a file but may be an image in base64: write it into a file, or into a"
            " column of images in Parquet"
        )
    if name.startswith(URL_STARTS):
        return "; an address is not fetched: download it and write the name of the file"
    if name.startswith(ROOT_STARTS):
        return "; write the path from the folder of images"
    target = _fold_name(name)
    # The same last part in another folder, else a name with other letters; another number is
    # another image.
    same = source.folded.get(target.stem, [])
    letters = NUMBER.sub("", target.stem)
    stems = [stem for stem in source.folded if NUMBER.sub("", stem) != letters]
    if not same and (closest := find_closest(target.stem, stems)):
        same = source.folded[closest]
    if not same:
        return ""
    return f"; did you mean {same[0]!r}?"


def check_images(source: ImageSource, names: Iterable[str]) -> list[ImageFault]:
    """Decode every image once and return the faults of the images that `load_image` would refuse.

    An image of the size of COCO takes about 3 ms.
    """
    faults = []
    for name in dict.fromkeys(names):
        result = _try_load(source, name)
        if isinstance(result, str):
            faults.append(ImageFault(name, result))
    return faults


def list_image_names(tables: Iterable[str | Path]) -> list[str]:
    """Return the names of the images in Parquet tables of rows, each once; rows about unlisted
    images are skipped.
    """
    columns = []
    for table in tables:
        rows = parquet.read_table(table)
        if "rejected" in rows.column_names:
            rows = rows.filter(
                pc.fill_null(pc.not_equal(rows["rejected"], NOT_LISTED), True)
            )
        columns.append(rows["image"].combine_chunks())
    names: list[str] = pa.concat_arrays(columns).unique().drop_null().to_pylist()
    return names


def write_manifest(
    path: str | Path, names: Iterable[str], faults: Iterable[ImageFault]
) -> None:
    """Write a CSV file with a line for each image: image, found (yes or no), and fault."""
    reason_of = {fault.image: fault.reason for fault in faults}
    with (
        replace_file(path) as temporary,
        temporary.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["image", "found", "fault"])
        writer.writerows(
            (name, "no" if name in reason_of else "yes", reason_of.get(name, ""))
            for name in names
        )


def _try_load(source: ImageSource, name: str) -> Image.Image | str:
    """Return the image with a name, or the reason why it cannot be used."""
    paths = _find_paths(source, name)
    if len(paths) != 1:
        return _describe_ambiguity(paths)
    try:
        # Check the size before the content is in memory.
        size = source.size(paths[0])
        if size > MAX_BYTES:
            return f"has {size} bytes, more than {MAX_BYTES}"
        content = source.read(paths[0])
    except Exception as error:  # a hostile or truncated archive can raise anything
        return f"cannot be read: {get_first_line(error)}"
    return _decode(content)


def _describe_ambiguity(paths: Sequence[str]) -> str:
    """Return the reason why a name does not refer to exactly one path."""
    if not paths:
        return "is missing"
    return f"stands {len(paths)} times: {', '.join(paths[:3])}"


def _decode(content: bytes) -> Image.Image | str:
    """Return the decoded image of the content of a file, or the reason why it cannot be used."""
    if not content:
        return "is empty"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            image = open_image(io.BytesIO(content))
            # The header gives the size; pixels are decoded only afterwards.
            if image.width * image.height > MAX_PIXELS:
                return (
                    f"has {image.width} x {image.height} pixels, more than {MAX_PIXELS}"
                )
            _scale_transparent_color(image)
            image.load()
            return _convert_to_rgb(ImageOps.exif_transpose(image))
        except UnidentifiedImageError:
            return _describe_content(content[:HEAD_BYTES])
        except Image.DecompressionBombError:
            return f"has more than {MAX_PIXELS} pixels"
        except Exception as error:  # decoders raise errors of many types
            return f"cannot be decoded: {get_first_line(error)}"


def _describe_content(head: bytes) -> str:
    """Return what a file is that is no image of a known format, by its first bytes."""
    if head.startswith(POINTER_START):
        return "is a pointer of Git LFS, not the file; get it with `git lfs pull`"
    for pattern, kind in OTHER_FORMATS.items():
        if re.match(pattern, head, re.DOTALL):
            return f"is {kind}, which is not read; save it as JPEG or PNG"
    return "is not an image of a known format"


def _scale_transparent_color(image: Image.Image) -> None:
    """Write the color that stands for transparent pixels in 8 bits, as Pillow reads pixels of 2, 4 and 16 bits.

    Args:
        image: An image that was opened and not decoded.
    """
    # Once its pixels are decoded, an image no longer knows the bits of its file.
    if not isinstance(image, ImageFile.ImageFile) or not image.tile:
        return
    color = image.info.get("transparency")
    bits = image.tile[0].args
    if isinstance(color, int) and bits in GRAY_STEPS:
        image.info["transparency"] = color * GRAY_STEPS[bits]
    if isinstance(color, tuple) and bits == "RGB;16B":
        image.info["transparency"] = _keep_high_bytes(color)


def _keep_high_bytes(color: tuple[int, ...]) -> tuple[int, ...]:
    """Return a color of 16 bits in 8 bits, as Pillow reads pixels.

    Pixels that differ in the low bytes alone become transparent, too.
    """
    return tuple(level >> 8 for level in color)


def _convert_to_rgb(image: Image.Image) -> Image.Image:
    """Return an image as RGB, with white behind transparent pixels."""
    # A color of an RGB image may stand for transparent pixels.
    if image.mode == "RGB" and not image.has_transparency_data:
        return image
    if image.mode.startswith("I;16"):
        # 16 bits to 8 bits: the high byte. (height, width)
        levels = np.asarray(image).astype(np.uint16)
        high_bytes = (levels >> 8).astype(np.uint8)
        high_bytes[levels == image.info.get("transparency")] = WHITE
        return Image.fromarray(high_bytes).convert("RGB")
    if image.mode in ("I", "F"):
        raise ValueError(f"pixels of mode {image.mode} have no fixed range")
    if image.has_transparency_data:
        layered = image.convert("RGBA")
        white = Image.new("RGBA", layered.size, "white")
        return Image.alpha_composite(white, layered).convert("RGB")
    return image.convert("RGB")


def _find_paths(source: ImageSource, name: str) -> list[str]:
    """Return the paths to which a name may refer.

    These are the path itself, else the paths that end in the name, with or without a suffix behind
    it, else the paths that do so apart from the suffix: VisDial, VQA and GQA give ids instead of
    names, so that the suffix of their images is a guess. If there are none, the name may be written
    in another form (`_fold_name`).
    """
    if is_safe_name(name):
        target = PurePosixPath(name)
        # Sources are indexed by stem, so only few paths are compared.
        # What stands behind a dot may be a part of the name, in `a.v1` for `a.v1.png`.
        paths = list(source.members.get(target.stem, ()))
        if target.suffix:
            paths += source.members.get(target.name, ())
        forms = [(PurePosixPath(path), path) for path in paths]
        if matches := _match_paths(target, forms):
            return matches
    # Only then are the names of all images compared in their folded forms.
    folded = _fold_name(name)
    if not is_safe_name(str(folded)):
        return []
    paths = list(source.folded.get(folded.stem, ()))
    if folded.suffix:
        paths += source.folded.get(folded.name, ())
    return _match_paths(folded, [(_fold_name(path), path) for path in paths])


def _fold_name(name: str) -> PurePosixPath:
    """Return a name without what systems write differently: back slashes, `%20`, Unicode form, case
    of letters, and zeros before a number.
    """
    text = unquote(name.replace("\\", "/"))
    path = PurePosixPath(unicodedata.normalize("NFC", text).casefold())
    if path.stem.isdecimal():
        return path.with_stem(path.stem.lstrip("0") or "0")
    return path


def _match_paths(
    target: PurePosixPath, candidates: Sequence[tuple[PurePosixPath, str]]
) -> list[str]:
    """Return the paths whose forms fit a name best.

    Args:
        candidates: Each path in the form that is compared, and as it is.
    """
    for matches in (
        _is_equal,
        _has_same_end,
        _has_same_end_and_suffix,
        _has_same_end_but_suffix,
    ):
        paths = [path for form, path in candidates if matches(form, target)]
        if paths:
            return paths
    return []


def _is_equal(path: PurePosixPath, target: PurePosixPath) -> bool:
    return path == target


def _has_same_end(path: PurePosixPath, target: PurePosixPath) -> bool:
    """Return True where a path ends in the parts of the target, as "val/a.jpg" ends in "a.jpg"."""
    return path.parts[-len(target.parts) :] == target.parts


def _has_same_end_and_suffix(path: PurePosixPath, target: PurePosixPath) -> bool:
    """Return True where a path ends in the target and a suffix, as "a.v1.jpg" in "a.v1"."""
    return _has_same_end(path.with_suffix(""), target)


def _has_same_end_but_suffix(path: PurePosixPath, target: PurePosixPath) -> bool:
    return _has_same_end(path.with_suffix(""), target.with_suffix(""))


def _group_by_stem(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Group the safe names by their last part without suffix; other names, and files that
    systems put there, are dropped.
    """
    members: dict[str, list[str]] = {}
    for name in names:
        if is_safe_name(name) and not is_companion(name):
            members.setdefault(PurePosixPath(name).stem, []).append(name)
    return {stem: tuple(paths) for stem, paths in members.items()}


def _open_archive(path: Path, read: Callable[[], T]) -> T:
    """Call a function that reads from an archive; any exception becomes an error about the archive."""
    try:
        return read()
    except Exception as error:  # a hostile or truncated archive can raise anything
        raise UserError(
            f"{path}: broken or truncated archive ({get_first_line(error)}); get the file again"
        ) from None


def _read_tar_member(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(entry)
    # Only regular files are members of a source; the assertion tells the type checker.
    assert file is not None
    with file:
        content = file.read()
    # A truncated tar gives fewer bytes without an error.
    if len(content) < entry.size:
        raise OSError(
            f"the archive ends after {len(content)} of its {entry.size} bytes"
        )
    return content
