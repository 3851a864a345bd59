"""Cache of the results of finished batches and items, by a digest of their content: one SQLite file
for each job.

A job that was killed, or that runs again because one of its data sets changed, reads what it has
computed already. Each job writes one file, since locks of SQLite are unreliable on network file
systems, and reads the files of the jobs that share its folder, so that results are found after the
number of shards has changed. The files lie outside the outputs of a rule, which Snakemake deletes
on failure; they may be deleted.
"""

import hashlib
import io
import json
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from waltz.core.errors import UserError
from waltz.core.jobs.records import describe_model_packages, read_versions

FOLDER = ".store"
"""Folder of the cache files, next to the outputs."""
SUFFIX = ".sqlite"
LOCK_SECONDS = 60
"""Seconds to wait for another process that is writing, such as a job that outlived a killed
Snakemake.
"""
POLICY = "WALTZ_STORED_VERSIONS"
"""Environment variable with the study's setting `stored_versions`; the Snakefile sets it for all
jobs.
"""
PRIMARY_CODE = 0xFF
"""Mask of the bits in an error number of SQLite that contain the kind of the error."""
ACCESS_ERRORS = (
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
)
"""Errors of access, which do not mean that the content of a file is damaged."""
DIGEST_BYTES = 8
"""Length of the digest that precedes each stored value; it reveals changed bits."""
SCHEMA = "CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, value BLOB NOT NULL, packages TEXT NOT NULL)"

logger = logging.getLogger(__name__)


def get_cache_file(output: str | Path, folder: str | Path | None = None) -> Path:
    """Return the cache file of the job that writes an output.

    Args:
        output: An output of the job that no other job writes.
        folder: Folder above the output whose jobs read each other's results; None for the folder of
            the output.
    """
    output = Path(output)
    folder = output.parent if folder is None else Path(folder)
    # The path below the folder becomes the name of the file, so that outputs in subfolders do not
    # collide.
    parts = output.relative_to(folder).with_suffix("").parts
    return folder / FOLDER / (".".join(parts) + SUFFIX)


def compute_key(**content: Any) -> str:
    """Return the digest of all content that decides the result of a batch; values are JSON or
    tuples.
    """
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def compute_array_key(content: bytes, shape: tuple[int, ...]) -> str:
    """Return the digest of an array's bytes and shape, for use in the content of a key."""
    return hashlib.sha256(repr(shape).encode() + content).hexdigest()


def load(file: Path, key: str) -> np.ndarray | None:
    """Return the stored array of a key; None if there is none.

    Raises:
        UserError: The array was computed with other versions of packages and the study does not say
            whether it counts, or the file cannot be read.
    """
    value = _load_bytes(file, key)
    if value is None:
        return None
    array: np.ndarray = np.load(io.BytesIO(value), allow_pickle=False)
    return array


def save(file: Path, key: str, array: np.ndarray) -> None:
    """Store an array; if the process is killed meanwhile, only this array is lost."""
    value = io.BytesIO()
    np.save(value, array, allow_pickle=False)
    _save_bytes(file, key, value.getvalue())


def load_or_compute(
    file: Path | None, content: Mapping[str, object], compute: Callable[[], np.ndarray]
) -> np.ndarray:
    """Return the stored array of some content, or compute and store it.

    Args:
        file: Cache file of the job; None to compute without a cache.
        content: Content that decides the array, as in `compute_key`.
        compute: Function that computes the array.
    """
    if file is None:
        return compute()
    key = compute_key(**content)
    array = load(file, key)
    if array is None:
        array = compute()
        save(file, key, array)
    return array


def load_or_compute_json(
    file: Path, content: Mapping[str, object], compute: Callable[[], Any]
) -> Any:
    """Return the stored JSON value of some content, or compute and store it; numbers are restored
    exactly.
    """
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
        connection: Connection to the job's file.
        neighbors: Files of the other jobs, in order.
        digests: Digests of the keys that they hold, sorted, uint64 of shape (keys,).
        owners: Number of the file that holds each of these keys, uint32 of shape (keys,).
    """

    connection: sqlite3.Connection
    neighbors: Sequence[Path]
    digests: np.ndarray
    owners: np.ndarray

    def find_neighbors(self, key: str) -> Iterator[Path]:
        """Yield the files that hold a key, or with a negligible probability another key of the same
        digest; the last file first.
        """
        digest = np.uint64(_shorten_key(key))
        first, after = np.searchsorted(self.digests, [digest, digest + np.uint64(1)])
        for number in self.owners[first:after][::-1]:
            yield self.neighbors[number]


@cache
def _open(file: Path) -> _Cache:
    """Open the cache of a job, and list the results of the other jobs in its folder."""
    with _name_faults(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(file, timeout=LOCK_SECONDS, isolation_level=None)
        # Writes do not wait for the disk, which would take 14 ms a result. A killed process loses
        # nothing by it, but a crash of the machine may damage the file.
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(SCHEMA)
    # Keys of all other files are read once, so that looking up a result does not open each file.
    # Twelve bytes a key remain in memory.
    neighbors = sorted(set(file.parent.glob(f"*{SUFFIX}")) - {file})
    parts = [_list_key_digests(neighbor) for neighbor in neighbors]
    digests = np.concatenate([np.empty(0, np.uint64), *parts])
    numbers = np.arange(len(parts), dtype=np.uint32)
    owners = np.repeat(numbers, [len(part) for part in parts])
    order = np.argsort(digests, kind="stable")
    return _Cache(connection, neighbors, digests[order], owners[order])


def _list_key_digests(file: Path) -> np.ndarray:
    """Return the digests of the keys in another job's file, uint64 of shape (keys,); none if it
    cannot be read.
    """
    digests = np.empty(0, np.uint64)
    query = "SELECT key FROM results"
    with _name_unreadable(file), _open_neighbor(file) as connection:
        keys = connection.execute(query)
        digests = np.fromiter((_shorten_key(key) for (key,) in keys), np.uint64)
    return digests


def _shorten_key(key: str) -> int:
    """Return a digest of a key below 2**63."""
    digest = hashlib.sha256(key.encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def _open_neighbor(file: Path) -> "closing[sqlite3.Connection]":
    """Open another job's file for reading."""
    uri = f"{file.absolute().as_uri()}?mode=ro"
    return closing(sqlite3.connect(uri, uri=True))


@contextmanager
def _name_unreadable(file: Path) -> Iterator[None]:
    """Log a fault of another job's file, whose results are then computed again."""
    try:
        yield
    except sqlite3.Error as error:
        logger.warning(
            "%s: stored results of another job cannot be read (%s)", file, error
        )


def _read_neighbor(file: Path, query: str, *values: str) -> list[tuple[Any, ...]]:
    """Return rows of another job's file; no rows if it cannot be read, so that the results are
    computed again.
    """
    rows: list[tuple[Any, ...]] = []
    with _name_unreadable(file), _open_neighbor(file) as connection:
        rows = connection.execute(query, values).fetchall()
    return rows


def _load_bytes(file: Path, key: str) -> bytes | None:
    """Return the stored value of a key from the job's file or else from another job's; None if none
    is usable.
    """
    query = "SELECT value, packages FROM results WHERE key = ?"
    opened = _open(file)
    source = file
    with _name_faults(file):
        # The job's file has precedence over the files of other jobs.
        rows = opened.connection.execute(query, (key,)).fetchall()
    if not rows:
        for source in opened.find_neighbors(key):
            rows = _read_neighbor(source, query, key)
            if rows:
                break
    for stored, packages in rows:
        value = _strip_digest(stored)
        if value is None:
            logger.warning(
                "%s: a stored result is damaged and is computed again", source
            )
            continue
        # Other versions of packages may compute other numbers: the study decides whether they
        # count.
        if packages == _describe_packages() or _accepts(packages, source):
            return value
    return None


def _strip_digest(stored: object) -> bytes | None:
    """Return a stored value without the digest before it; None if it is damaged."""
    if not isinstance(stored, bytes):
        return None
    value = stored[DIGEST_BYTES:]
    if not value or stored[:DIGEST_BYTES] != _compute_digest(value):
        return None
    return value


def _save_bytes(file: Path, key: str, value: bytes) -> None:
    """Store a value with its digest and the versions of packages that computed it."""
    with _name_faults(file):
        _open(file).connection.execute(
            "INSERT OR REPLACE INTO results VALUES (?, ?, ?)",
            (key, _compute_digest(value) + value, _describe_packages()),
        )


def _compute_digest(value: bytes) -> bytes:
    """Return the digest that precedes a stored value."""
    return hashlib.sha256(value).digest()[:DIGEST_BYTES]


@cache
def _describe_packages() -> str:
    """Return the versions of the packages that compute results in this process."""
    return describe_model_packages(read_versions())


def _accepts(packages: str, file: Path) -> bool:
    """Return whether the study uses results of other package versions; otherwise they are computed
    again.

    Raises:
        UserError: The study neither uses nor recomputes such results.
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
    """Turn errors of SQLite into a UserError with one line.

    Raises:
        UserError: The file is damaged or locked, or the disk is full.
    """
    try:
        yield
    except sqlite3.Error as error:
        # Three kinds of errors need three kinds of advice: a full disk, no access, a damaged file.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & PRIMARY_CODE
        if code == sqlite3.SQLITE_FULL:
            raise UserError(
                f"{file}: no space is left; make room and run again"
            ) from None
        if code in ACCESS_ERRORS:
            raise UserError(
                f"{file}: stored results cannot be read or written ({error}), and the file may be whole; check its"
                " permissions, its disk, and whether another run uses it, and run again"
            ) from None
        raise UserError(
            f"{file}: stored results cannot be read or written ({error}); if no other run uses the file, delete it:"
            " its results are then computed again"
        ) from None
