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

from waltz.core.files.atomic import replace_file, write_text


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


def load_or_compute(folder: Path | None, content: Mapping[str, Any], compute: Callable[[], np.ndarray]) -> np.ndarray:
    """Return the stored array of some content (as in `compute_key`), or compute and store it; None stores nothing."""
    if folder is None:
        return compute()
    key = compute_key(**content)
    array = load(folder, key)
    if array is None:
        array = compute()
        save(folder, key, array)
    return array


def load_or_compute_json(folder: Path, content: Mapping[str, Any], compute: Callable[[], Any]) -> Any:
    """Return the stored JSON value of some content, or compute and store it; numbers are restored bit by bit."""
    file = folder / f"{compute_key(**content)}.json"
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        value = None
    if value is None:
        value = compute()
        write_text(file, json.dumps(value))
    return value


def save(folder: str | Path, key: str, array: np.ndarray) -> None:
    """Store an array atomically."""
    with replace_file(Path(folder) / f"{key}.npy") as temporary, temporary.open("wb") as file:
        np.save(file, array, allow_pickle=False)
