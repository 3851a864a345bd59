"""Safe extraction of single files and folders from zip and tar archives."""

import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from waltz.core.errors import UserError, get_first_line
from waltz.core.files.atomic import replace_file, replace_folder

MAX_BYTES = 64 * 1024**3
"""Size limit of an extracted file; the largest checkpoint of the registry has 4 GB."""
MODEL_CONFIG = "config.json"
"""File that identifies the folder of a model."""
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
    """An open zip or tar archive.

    Attributes:
        path: Path of the archive.
        sizes: Bytes of its regular files by name, without links and files with unsafe names.
        open: Opens one of its files by name.
    """

    path: Path
    sizes: Mapping[str, int]
    open: Callable[[str], IO[bytes]]


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open a zip, or a tar with any compression, and list its files.

    Raises:
        UserError: The file is neither, or is damaged.
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
            raise UserError(f"{path}: neither a zip nor a tar; delete it and run again to fetch it")
    except ARCHIVE_ERRORS as error:
        raise UserError(
            f"{path}: damaged archive ({get_first_line(error)}); delete it and run again to fetch it"
        ) from None


def extract_member(path: Path, member: str, target: Path) -> None:
    """Extract the file of an archive whose path is, or alone ends with, `member`.

    Raises:
        UserError: There is no such file, or several, or it is larger than it says or than `MAX_BYTES`.
    """
    with open_archive(path) as archive:
        parts = PurePosixPath(member).parts
        names = [name for name in archive.sizes if PurePosixPath(name).parts == parts]
        names = names or [name for name in archive.sizes if PurePosixPath(name).parts[-len(parts) :] == parts]
        if len(names) != 1:
            raise UserError(f"{path}: contains {len(names)} files {member!r}, expected 1; correct its url after #")
        _extract_file(archive, names[0], target)


def extract_folder(path: Path, target: Path) -> None:
    """Extract the files of an archive's only folder with a config.json, without its subfolders; replaces `target`.

    Raises:
        UserError: There is no such folder, or several.
    """
    with open_archive(path) as archive:
        folders = [PurePosixPath(name).parent for name in archive.sizes if PurePosixPath(name).name == MODEL_CONFIG]
        if len(folders) != 1:
            raise UserError(
                f"{path}: contains {len(folders)} folders with a {MODEL_CONFIG}, expected 1; name another archive"
            )
        names = [name for name in archive.sizes if PurePosixPath(name).parent == folders[0]]
        with replace_folder(target) as temporary:
            for name in names:
                _extract_file(archive, name, temporary / PurePosixPath(name).name)


def _extract_file(archive: Archive, name: str, target: Path) -> None:
    limit = min(archive.sizes[name], MAX_BYTES)
    with archive.open(name) as source, replace_file(target) as temporary, temporary.open("wb") as file:
        remaining = limit
        while chunk := source.read(min(remaining, 1 << 20) + 1):
            remaining -= len(chunk)
            if remaining < 0:
                raise UserError(f"{archive.path}: {name!r} has more than {limit} bytes; get the archive again")
            file.write(chunk)
        if remaining and archive.sizes[name] <= MAX_BYTES:
            raise UserError(
                f"{archive.path}: {name!r} ends after {limit - remaining} of {limit} bytes; get the archive again"
            )


def _open_tar_member(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    file = tar.extractfile(entry)
    if file is None:
        raise tarfile.ReadError(f"{entry.name} is not a file")
    return file


def _is_safe_name(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return bool(parts) and parts[0] != "/" and ".." not in parts and "\\" not in name and "\0" not in name
