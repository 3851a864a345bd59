"""Results of finished batches, kept by what they were computed from.

A job that was killed, or that runs again because one of its data sets changed, finds here the batches
that it has done already. The folder lies outside a rule's outputs, which Snakemake deletes on failure;
it can be deleted at any time and is filled again.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from waltz.core.files.atomic import replace_file


def compute_key(**content: Any) -> str:
    """Digest of everything that decides a batch's result; values are JSON or tuples."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def compute_array_key(content: bytes, shape: tuple[int, ...]) -> str:
    """Digest of an array's bytes and shape, as a part of a key."""
    return hashlib.sha256(repr(shape).encode() + content).hexdigest()


def load(folder: str | Path, key: str) -> np.ndarray | None:
    """The stored array, or None where there is none or it cannot be read."""
    try:
        found: np.ndarray = np.load(Path(folder) / f"{key}.npy", allow_pickle=False)
    except (FileNotFoundError, ValueError, EOFError):
        return None
    return found


def load_json(folder: str | Path, key: str) -> Any:
    """The stored JSON value, or None where there is none or it cannot be read."""
    try:
        return json.loads((Path(folder) / f"{key}.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def load_or_compute(folder: Path | None, content: Mapping[str, Any], compute: Callable[[], np.ndarray]) -> np.ndarray:
    """Return the stored array of some content, or compute and store it.

    Args:
        folder: Folder of the stored results; None stores nothing.
        content: Everything that decides the result, as in `key`.
        compute: Computes the result.
    """
    if folder is None:
        return compute()
    name = compute_key(**content)
    values = load(folder, name)
    if values is None:
        values = compute()
        save(folder, name, values)
    return values


def load_or_compute_json(folder: Path, content: Mapping[str, Any], compute: Callable[[], Any]) -> Any:
    """Return the stored JSON value of some content, or compute and store it; arguments as in `load_or_compute`."""
    name = compute_key(**content)
    value = load_json(folder, name)
    if value is None:
        value = compute()
        save_json(folder, name, value)
    return value


def save_json(folder: str | Path, key: str, value: Any) -> None:
    """Store a JSON value, whole or not at all; numbers come back bit by bit."""
    with replace_file(Path(folder) / f"{key}.json") as temporary:
        temporary.write_text(json.dumps(value), encoding="utf-8")


def save(folder: str | Path, key: str, values: np.ndarray) -> None:
    """Store an array, whole or not at all."""
    with replace_file(Path(folder) / f"{key}.npy") as temporary, temporary.open("wb") as file:
        np.save(file, values, allow_pickle=False)
