"""Cache of the results of finished batches, named by a digest of their content.

A job that was killed, or that runs again because one of its data sets changed, reads the batches that it has computed
already. The cache lies outside the outputs of a rule, which Snakemake deletes on failure; it may be deleted.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from waltz.core.files.atomic import replace_file


def compute_key(**content: Any) -> str:
    """Return the digest of everything that decides a batch's result; values are JSON or tuples."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def compute_array_key(content: bytes, shape: tuple[int, ...]) -> str:
    """Return the digest of an array's bytes and shape, as a part of a key."""
    return hashlib.sha256(repr(shape).encode() + content).hexdigest()


def load(folder: str | Path, key: str) -> np.ndarray | None:
    """Return the stored array, or None if it does not exist or cannot be read."""
    try:
        array: np.ndarray = np.load(Path(folder) / f"{key}.npy", allow_pickle=False)
    except (FileNotFoundError, ValueError, EOFError):
        return None
    return array


def load_json(folder: str | Path, key: str) -> Any:
    """Return the stored JSON value, or None if it does not exist or cannot be read."""
    try:
        return json.loads((Path(folder) / f"{key}.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def load_or_compute(folder: Path | None, content: Mapping[str, Any], compute: Callable[[], np.ndarray]) -> np.ndarray:
    """Return the stored array of some content, or compute and store it.

    Args:
        folder: Folder of the stored results; None stores nothing.
        content: Everything that decides the result, as in `compute_key`.
        compute: Computes the result.
    """
    if folder is None:
        return compute()
    key = compute_key(**content)
    array = load(folder, key)
    if array is None:
        array = compute()
        save(folder, key, array)
    return array


def load_or_compute_json(folder: Path, content: Mapping[str, Any], compute: Callable[[], Any]) -> Any:
    """Return the stored JSON value of some content, or compute and store it; arguments as in `load_or_compute`."""
    key = compute_key(**content)
    value = load_json(folder, key)
    if value is None:
        value = compute()
        save_json(folder, key, value)
    return value


def save(folder: str | Path, key: str, array: np.ndarray) -> None:
    """Store an array atomically."""
    with replace_file(Path(folder) / f"{key}.npy") as temporary, temporary.open("wb") as file:
        np.save(file, array, allow_pickle=False)


def save_json(folder: str | Path, key: str, value: Any) -> None:
    """Store a JSON value atomically; numbers are restored bit by bit."""
    with replace_file(Path(folder) / f"{key}.json") as temporary:
        temporary.write_text(json.dumps(value), encoding="utf-8")
