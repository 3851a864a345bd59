"""Single files and folders out of zip and tar archives; nothing is written outside the place that is named."""

import gzip
import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from waltz.core.errors import UserError
from waltz.core.files.atomic import replace_file

MAX_BYTES = 64 * 1024**3
"""A file that grows beyond is refused: the largest checkpoint here has 4 GB."""
MODEL_CONFIG = "config.json"
"""What marks the folder of a model."""
ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    tarfile.TarError,
    EOFError,
    gzip.BadGzipFile,
    lzma.LZMAError,
    zlib.error,
    RuntimeError,
)


@dataclass(frozen=True)
class Archive:
    """An open zip or tar.

    Attributes:
        path: Where it lies.
        sizes: Bytes of its regular files by name; those with unsafe names and links are left out.
        open: A file of it, by its name.
    """

    path: Path
    sizes: Mapping[str, int]
    open: Callable[[str], IO[bytes]]


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """A zip, or a tar however compressed, with its files listed.

    Raises:
        UserError: It is neither, or is damaged.
    """
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                infos = [info for info in archive.infolist() if not info.is_dir() and _is_safe_name(info.filename)]
                yield Archive(path, {info.filename: info.file_size for info in infos}, archive.open)
        elif tarfile.is_tarfile(path):
            with tarfile.open(path) as tar:
                entries = {info.name: info for info in tar.getmembers() if info.isreg() and _is_safe_name(info.name)}
                yield Archive(
                    path,
                    {name: info.size for name, info in entries.items()},
                    lambda name: _open_tar_member(tar, entries[name]),
                )
        else:
            raise UserError(f"{path}: is neither a zip nor a tar; delete it, and it is fetched again")
    except ARCHIVE_ERRORS as error:
        first = (str(error) or type(error).__name__).splitlines()[0]
        raise UserError(f"{path}: no whole archive ({first}); delete it, and it is fetched again") from None


def extract_member(path: Path, member: str, target: Path) -> None:
    """Copy one file of an archive to a place of its own.

    Args:
        path: The archive.
        member: The file's path in it, or the end of one that is the only one to end so.
        target: Where to.
    Raises:
        UserError: There is no such file, or several, or it is larger than it says or than `MOST_BYTES`.
    """
    with open_archive(path) as archive:
        wanted = PurePosixPath(member).parts
        found = [name for name in archive.sizes if PurePosixPath(name).parts == wanted]
        found = found or [name for name in archive.sizes if PurePosixPath(name).parts[-len(wanted) :] == wanted]
        if len(found) != 1:
            raise UserError(f"{path}: holds {len(found)} files {member!r}; correct what stands behind the # of its url")
        _extract_file(archive, found[0], target)


def extract_folder(path: Path, target: Path) -> None:
    """Copy the files of an archive's only folder with a config.json, without those in folders below it.

    Args:
        path: The archive.
        target: The folder to make; an older one is replaced as a whole.
    Raises:
        UserError: There is no such folder, or several.
    """
    with open_archive(path) as archive:
        folders = [PurePosixPath(name).parent for name in archive.sizes if PurePosixPath(name).name == MODEL_CONFIG]
        if len(folders) != 1:
            raise UserError(f"{path}: holds {len(folders)} folders with a {MODEL_CONFIG}, one is expected")
        names = [name for name in archive.sizes if PurePosixPath(name).parent == folders[0]]
        with replace_folder(target) as temporary:
            for name in names:
                _extract_file(archive, name, temporary / PurePosixPath(name).name)


@contextmanager
def replace_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder beside `target`, which takes its name when the block ends well and is removed otherwise."""
    temporary = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        shutil.rmtree(target, ignore_errors=True)
        temporary.replace(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _extract_file(archive: Archive, name: str, target: Path) -> None:
    limit = min(archive.sizes[name], MAX_BYTES)
    with archive.open(name) as source, replace_file(target) as temporary, temporary.open("wb") as file:
        left = limit
        while chunk := source.read(min(left, 1 << 20) + 1):
            left -= len(chunk)
            if left < 0:
                raise UserError(f"{archive.path}: {name!r} has more than {limit} bytes; get the archive again")
            file.write(chunk)
        if left and archive.sizes[name] <= MAX_BYTES:
            raise UserError(
                f"{archive.path}: {name!r} ends after {limit - left} of {limit} bytes; get the archive again"
            )


def _open_tar_member(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    file = tar.extractfile(entry)
    if file is None:
        raise tarfile.ReadError(f"{entry.name} is no file")
    return file


def _is_safe_name(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return bool(parts) and parts[0] != "/" and ".." not in parts and "\\" not in name and "\0" not in name
