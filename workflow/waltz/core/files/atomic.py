"""Atomic writes: a file or folder appears under its name only when it is complete."""

import glob
import hashlib
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

LONGEST_STEM = 128
"""Largest number of bytes of a file's name in the name of its temporary file; systems limit that to
255 bytes.
"""


@contextmanager
def replace_file(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`; rename it to `path` if the block succeeds, else delete
    it.

    The temporary name contains host and process, because a job of a killed Snakemake may still be
    writing when the next run starts the same job. Temporary files of ended processes are deleted.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # A long name is replaced by its digest, since host and process are appended to it.
    name = os.fsencode(path.name)
    stem = path.name if len(name) <= LONGEST_STEM else hashlib.sha256(name).hexdigest()
    prefix = f".{stem}.{platform.node()}."
    # Only this host's processes can be checked: files of other hosts may still be written.
    for stale in path.parent.glob(f"{glob.escape(prefix)}*.tmp"):
        process = stale.name.removeprefix(prefix).removesuffix(".tmp")
        if process.isdecimal() and not psutil.pid_exists(int(process)):
            stale.unlink(missing_ok=True)
    temporary = path.with_name(f"{prefix}{os.getpid()}.tmp")
    try:
        yield temporary
        # The content must be on disk before the file is renamed: a crash could leave an empty file
        # under the name.
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replace_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder next to `target`; rename it to `target` if the block succeeds, else
    delete it.
    """
    temporary = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        shutil.rmtree(target, ignore_errors=True)
        temporary.replace(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a UTF-8 text file with `\\n` line ends, completely or not at all."""
    with replace_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
