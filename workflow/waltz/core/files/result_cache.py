"""Cache of the results of finished batches and items, by a digest of their content: one SQLite file for each job.

A job that was killed, or that runs again because one of its data sets changed, reads what it has computed already. Each
job writes its own file, since locks of SQLite are unreliable on network file systems, and reads those of the jobs that
share its folder, so that results are found after the number of shards has changed. The files lie outside the outputs
of a rule, which Snakemake deletes on failure; they may be deleted.
"""

import hashlib
import io
import json
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from waltz.core.errors import UserError
from waltz.core.job_records import describe_model_packages, read_versions

FOLDER = ".store"
SUFFIX = ".sqlite"
LOCK_SECONDS = 60
"""Seconds to wait for a process that is writing, which a killed Snakemake left behind."""
POLICY = "WALTZ_STORED_VERSIONS"
"""Environment variable with the study's `stored_versions`, which the Snakefile sets for all jobs."""
DIGEST_BYTES = 8
"""Length of the digest before each stored value, by which a changed bit is noticed."""
SCHEMA = "CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, value BLOB NOT NULL, packages TEXT NOT NULL)"

logger = logging.getLogger(__name__)


def get_cache_file(output: str | Path, folder: str | Path | None = None) -> Path:
    """Return the cache file of the job that writes an output.

    Args:
        output: An output of the job that no other job writes.
        folder: Folder above the output whose jobs read each other's results; the output's own where absent.
    """
    output = Path(output)
    folder = output.parent if folder is None else Path(folder)
    return folder / FOLDER / (".".join(output.relative_to(folder).with_suffix("").parts) + SUFFIX)


def compute_key(**content: Any) -> str:
    """Return the digest of everything that decides a batch's result; values are JSON or tuples."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def compute_array_key(content: bytes, shape: tuple[int, ...]) -> str:
    """Return the digest of an array's bytes and shape, as a part of a key."""
    return hashlib.sha256(repr(shape).encode() + content).hexdigest()


def load(file: Path, key: str) -> np.ndarray | None:
    """Return the stored array, or None if there is none.

    Raises:
        UserError: It was computed with other versions of packages, or the file cannot be read.
    """
    value = _load_bytes(file, key)
    return None if value is None else np.load(io.BytesIO(value), allow_pickle=False)


def save(file: Path, key: str, array: np.ndarray) -> None:
    """Store an array; a process that is killed meanwhile loses this one alone."""
    value = io.BytesIO()
    np.save(value, array, allow_pickle=False)
    _save_bytes(file, key, value.getvalue())


def load_or_compute(file: Path | None, content: Mapping[str, Any], compute: Callable[[], np.ndarray]) -> np.ndarray:
    """Return the stored array of some content (as in `compute_key`), or compute and store it; None stores nothing."""
    if file is None:
        return compute()
    key = compute_key(**content)
    array = load(file, key)
    if array is None:
        array = compute()
        save(file, key, array)
    return array


def load_or_compute_json(file: Path, content: Mapping[str, Any], compute: Callable[[], Any]) -> Any:
    """Return the stored JSON value of some content, or compute and store it; numbers are restored bit by bit."""
    key = compute_key(**content)
    stored = _load_bytes(file, key)
    if stored is not None:
        return json.loads(stored)
    value = compute()
    _save_bytes(file, key, json.dumps(value).encode())
    return value


@dataclass(frozen=True)
class _Cache:
    """Open cache of a job.

    Attributes:
        own: Connection to the job's file.
        others: File of another job that holds a result, by its key.
    """

    own: sqlite3.Connection
    others: Mapping[str, Path]


@cache
def _open(file: Path) -> _Cache:
    with _name_faults(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        own = sqlite3.connect(file, timeout=LOCK_SECONDS, isolation_level=None)
        # A killed process loses nothing by it; a crash of the machine may damage the file. Else a result costs 14 ms.
        own.execute("PRAGMA synchronous = OFF")
        own.execute(SCHEMA)
    others: dict[str, Path] = {}
    for other in sorted(set(file.parent.glob(f"*{SUFFIX}")) - {file}):
        others |= dict.fromkeys((key for (key,) in _read_other(other, "SELECT key FROM results")), other)
    return _Cache(own, others)


def _read_other(file: Path, query: str, *values: str) -> list[tuple[Any, ...]]:
    """Return rows of another job's file; none where it cannot be read now, so that its results are computed again."""
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return connection.execute(query, values).fetchall()
    except sqlite3.Error as error:
        logger.warning("%s: stored results of another job cannot be read (%s)", file, error)
        return []


def _load_bytes(file: Path, key: str) -> bytes | None:
    opened, query = _open(file), "SELECT value, packages FROM results WHERE key = ?"
    with _name_faults(file):
        rows = opened.own.execute(query, (key,)).fetchall()
    source = file
    if not rows and key in opened.others:
        source = opened.others[key]
        rows = _read_other(source, query, key)
    for stored, packages in rows:
        value = stored[DIGEST_BYTES:] if isinstance(stored, bytes) else b""
        if not value or stored[:DIGEST_BYTES] != _compute_digest(value):
            logger.warning("%s: a stored result is damaged and is computed again", source)
        elif packages == _describe_packages() or _accepts(packages, source):
            return value
    return None


def _save_bytes(file: Path, key: str, value: bytes) -> None:
    with _name_faults(file):
        _open(file).own.execute(
            "INSERT OR REPLACE INTO results VALUES (?, ?, ?)",
            (key, _compute_digest(value) + value, _describe_packages()),
        )


def _compute_digest(value: bytes) -> bytes:
    return hashlib.sha256(value).digest()[:DIGEST_BYTES]


@cache
def _describe_packages() -> str:
    return describe_model_packages(read_versions())


def _accepts(packages: str, file: Path) -> bool:
    """Return whether results of other versions of packages are used; else they are computed again.

    Raises:
        UserError: The study says neither.
    """
    policy = os.environ.get(POLICY, "refuse")
    if policy == "refuse":
        raise UserError(
            f"{file}: stored results are of other package versions (got {packages}, expected {_describe_packages()});"
            " install those, or set stored_versions: `reuse` takes the results, `recompute` computes them again"
        )
    return policy == "reuse"


@contextmanager
def _name_faults(file: Path) -> Iterator[None]:
    """Turn errors of SQLite into one line.

    Raises:
        UserError: The file is damaged or locked, or the disk is full.
    """
    try:
        yield
    except sqlite3.Error as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
            raise UserError(f"{file}: no space is left; make room and run again") from None
        raise UserError(
            f"{file}: stored results cannot be read or written ({error}); if no other run uses the file, delete it:"
            " its results are then computed again"
        ) from None
