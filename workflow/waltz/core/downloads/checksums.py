"""Checksums of files."""

import hashlib
from pathlib import Path

LOCK_ON_DOWNLOAD = "lock"
"""Value of a study's checksum or commit that is not known yet: the first download records it in the
lock file.
"""
CHECKSUM = "^[0-9a-f]{64}$"
"""Pattern of a SHA-256."""


def compute_sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
