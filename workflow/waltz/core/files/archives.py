"""Safe extraction of single files and folders from zip and tar archives."""

import lzma
import stat
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from waltz.core.errors import UserError, convert_to_user_error, get_first_line
from waltz.core.files.atomic import replace_file, replace_folder
from waltz.core.files.safe_names import is_safe_name

MAX_BYTES = 64 * 1024**3
"""Size limit of an extracted file in bytes; the largest checkpoint of the registry has 4 GB."""
MODEL_CONFIG = "config.json"
"""File that identifies the folder of a model."""
ARCHIVE_ERRORS = (
    OSError,
    zipfile.BadZipFile,
    tarfile.TarError,
    EOFError,
    lzma.LZMAError,
    zlib.error,
    RuntimeError,
    ValueError,
    LookupError,
    OverflowError,
    MemoryError,
)
"""Errors that readers raise for archives that are damaged, encrypted, hostile, or compressed in an
unknown way.
"""


@dataclass(frozen=True)
class Archive:
    """Open zip or tar archive.

    Attributes:
        path: Path of the archive.
        sizes: Size in bytes of each regular file by its name, without links and files with unsafe
            names.
        open: Function that opens a file of the archive by its name.
    """

    path: Path
    sizes: Mapping[str, int]
    open: Callable[[str], IO[bytes]]


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open a zip, or a tar with any compression, and list its files.

    Raises:
        UserError: The file is neither a zip nor a tar, or it is damaged.
    """
    try:
        # The content decides the format, since names of downloads may be wrong.
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                yield _list_zip(path, archive)
        elif tarfile.is_tarfile(path):
            with tarfile.open(path) as tar:
                yield _list_tar(path, tar)
        else:
            raise UserError(
                f"{path}: neither a zip nor a tar; delete it and run again to fetch it"
            )
    except ARCHIVE_ERRORS as error:
        if convert_to_user_error(error) is not None:
            raise  # such as a full disk
        raise UserError(
            f"{path}: damaged archive, or encrypted or in an unknown compression ({get_first_line(error)}); delete it"
            " and run again to fetch it"
        ) from None


def _list_zip(path: Path, archive: zipfile.ZipFile) -> Archive:
    """Return an open zip as an archive."""
    members = filter(is_regular, archive.infolist())
    files = [(member.filename, member.file_size) for member in members]
    return _build_archive(path, files, archive.open)


def _list_tar(path: Path, tar: tarfile.TarFile) -> Archive:
    """Return an open tar as an archive."""
    members = [member for member in tar.getmembers() if member.isreg()]
    entries = {member.name: member for member in members}

    def open_member(name: str) -> IO[bytes]:
        """Open a file of the tar."""
        file = tar.extractfile(entries[name])
        assert file is not None  # only folders and devices have no content
        return file

    files = [(member.name, member.size) for member in members]
    return _build_archive(path, files, open_member)


def _build_archive(
    path: Path, files: Iterable[tuple[str, int]], open_file: Callable[[str], IO[bytes]]
) -> Archive:
    """Return an open archive without the files that have unsafe names.

    Args:
        path: Path of the archive.
        files: Name and size in bytes of each regular file.
        open_file: Function that opens a file of the archive by its name.
    Raises:
        UserError: Two files have the same name.
    """
    # A file with an unsafe name is left out, so that the others can still be extracted.
    safe_files = [(name, size) for name, size in files if is_safe_name(name)]
    _check_names(path, [name for name, _ in safe_files])
    return Archive(path, dict(safe_files), open_file)


def extract_member(path: Path, member: str, target: Path) -> None:
    """Extract one file of an archive: the file with path `member`, or the only file whose path ends
    with `member`.

    Raises:
        UserError: No file or several files match, or the file is larger than the archive states or
            than `MAX_BYTES`.
    """
    parts = PurePosixPath(member).parts
    with open_archive(path) as archive:
        paths = {name: PurePosixPath(name).parts for name in archive.sizes}
        # A file with exactly this path takes precedence over paths that end with it.
        names = [name for name in paths if paths[name] == parts]
        if not names:
            names = [name for name in paths if paths[name][-len(parts) :] == parts]
        if len(names) != 1:
            raise UserError(
                f"{path}: contains {len(names)} files {member!r}, expected 1; correct its url after #"
            )
        _extract_file(archive, names[0], target)


def extract_folder(path: Path, target: Path) -> None:
    """Replace `target` by the files of an archive's only folder with a config.json, without its
    subfolders.

    Raises:
        UserError: The archive has no such folder, or several.
    """
    with open_archive(path) as archive:
        paths = [PurePosixPath(name) for name in archive.sizes]
        folders = [file.parent for file in paths if file.name == MODEL_CONFIG]
        if len(folders) != 1:
            raise UserError(
                f"{path}: contains {len(folders)} folders with a {MODEL_CONFIG}, expected 1; name another archive"
            )
        names = [
            name for name in archive.sizes if PurePosixPath(name).parent == folders[0]
        ]
        # Systems that ignore case have one file of both.
        _check_names(path, [name.casefold() for name in names])
        with replace_folder(target) as temporary:
            for name in names:
                _extract_file(archive, name, temporary / PurePosixPath(name).name)


def _extract_file(archive: Archive, name: str, target: Path) -> None:
    """Extract one file, whose size must be the size that the archive states and at most
    `MAX_BYTES`.
    """
    limit = min(archive.sizes[name], MAX_BYTES)
    with (
        archive.open(name) as source,
        replace_file(target) as temporary,
        temporary.open("wb") as file,
    ):
        # Read one byte more than is allowed, so that a file that is larger than its stated size is
        # noticed.
        remaining = limit
        while chunk := source.read(min(remaining, 1 << 20) + 1):
            remaining -= len(chunk)
            if remaining < 0:
                raise UserError(
                    f"{archive.path}: {name!r} has more than {limit} bytes; get the archive again"
                )
            file.write(chunk)
        if remaining and archive.sizes[name] <= MAX_BYTES:
            raise UserError(
                f"{archive.path}: {name!r} ends after {limit - remaining} of {limit} bytes; get the archive again"
            )


def is_regular(info: zipfile.ZipInfo) -> bool:
    """Return whether a member of a zip is a regular file, not a folder, link or device.

    Zips from systems without file types state no type; their members count as files.
    """
    # The upper 16 bits hold the mode that Unix would give the file.
    kind = stat.S_IFMT(info.external_attr >> 16)
    return not info.is_dir() and kind in (0, stat.S_IFREG)


def _check_names(path: Path, names: Iterable[str]) -> None:
    """Refuse an archive that contains two files with the same name, since readers disagree which of
    them counts.
    """
    for name, count in Counter(names).items():
        if count > 1:
            raise UserError(
                f"{path}: contains {count} files {name!r}, expected 1; get another copy"
            )
