"""Atomic writes: a file or folder appears under its name only when it is complete."""

import glob
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil


@contextmanager
def replace_file(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`; rename it to `path` if the block succeeds, else remove it.

    The temporary name contains host and process, because the job of a killed Snakemake may still be writing when the
    next run starts the same job. Temporary files of processes that ended are removed.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{path.name}.{platform.node()}."
    for stale in path.parent.glob(f"{glob.escape(prefix)}*.tmp"):
        process = stale.name.removeprefix(prefix).removesuffix(".tmp")
        if process.isdecimal() and not psutil.pid_exists(int(process)):
            stale.unlink(missing_ok=True)
    temporary = path.with_name(f"{prefix}{os.getpid()}.tmp")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replace_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder next to `target`; rename it to `target` if the block succeeds, else remove it."""
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
