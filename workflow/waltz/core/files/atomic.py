"""Files that appear under their name only when they are whole."""

import glob
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil


@contextmanager
def replace_file(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it when the block ends well, else remove it.

    The name carries host and process, because a killed Snakemake leaves its job's process writing
    while the next run starts the same job. What a killed process left is removed.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    ours = f".{path.name}.{platform.node()}."
    for left in path.parent.glob(f"{glob.escape(ours)}*.tmp"):
        if not psutil.pid_exists(int(left.suffixes[-2].removeprefix("."))):
            left.unlink(missing_ok=True)
    temporary = path.with_name(f"{ours}{os.getpid()}.tmp")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a UTF-8 text file with `\\n` line ends, whole or not at all."""
    with replace_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
