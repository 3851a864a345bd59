"""Lock of a running study, which names the other run to a user who starts a second one.

Snakemake refuses a second run by a lock file that remains after a kill and does not name its owner. This module
additionally holds a lock of the operating system, which ends with its process, so that a run that goes on and a killed
one can be distinguished.
"""

import json
import os
import socket
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

SNAKEMAKE_FOLDER = Path(".snakemake")
"""Folder of Snakemake's records."""

_locks: list[FileLock] = []
"""Locks of this process, released when it ends."""


def hold_study(study: str, folder: Path = SNAKEMAKE_FOLDER) -> None:
    """Hold a study until this process ends; do nothing if another run (with other targets) holds it."""
    lock, record_file = _create_lock(study, folder), _get_record_file(study, folder)
    record_file.parent.mkdir(parents=True, exist_ok=True)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return
    _locks.append(lock)
    record = {"pid": os.getpid(), "host": socket.gethostname(), "since": f"{datetime.now():%Y-%m-%d %H:%M:%S}"}
    record_file.write_text(json.dumps(record), encoding="utf-8")


def describe_other_run(study: str, folder: Path = SNAKEMAKE_FOLDER) -> Iterator[str]:
    """Yield a line about another run of the study if one goes on, or was killed and left Snakemake's lock."""
    record_file = _get_record_file(study, folder)
    if not record_file.is_file():
        return
    record = json.loads(record_file.read_text(encoding="utf-8"))
    owner = f"process {record['pid']} on {record['host']}, since {record['since']}"
    try:
        with _create_lock(study, folder).acquire(timeout=0):
            ended = True
    except Timeout:
        ended = False
    if not ended:
        yield f"study {study} is being run by another snakemake ({owner}); wait for it, or stop it"
    elif any((folder / "locks").glob("*.lock")):
        yield f"the last run of study {study} ({owner}) was killed and left its lock; run: snakemake --unlock"


def _create_lock(study: str, folder: Path) -> FileLock:
    return FileLock(folder / "waltz" / f"{study}.lock")


def _get_record_file(study: str, folder: Path) -> Path:
    return folder / "waltz" / f"{study}.json"
