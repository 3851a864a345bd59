"""Folders that take long to build, once for all workers of pytest-xdist."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def build_once(
    factory: pytest.TempPathFactory, name: str, build: Callable[[Path], object]
) -> Path:
    """Return a folder that the first worker builds and the others find; look, but do not touch.

    Args:
        name: Name of the folder, unique in the test session.
        build: Function that creates the folder.
    """
    root = factory.getbasetemp()
    # Each worker has a folder of its own within that of the session.
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder, done = root / name, root / f"{name}.done"
    with FileLock(root / f"{name}.lock"):
        if not done.exists():
            # A worker that failed left a part of it.
            shutil.rmtree(folder, ignore_errors=True)
            build(folder)
            done.touch()
    return folder
