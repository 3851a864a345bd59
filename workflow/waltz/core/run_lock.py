"""Who runs a study in a folder, said to whoever starts a second run of it.

Snakemake refuses a second run by its lock, which stays behind where a run is killed, and does not say whose it is. Here
a run holds a lock of the operating system, which ends with its process: so a run that goes on is told from one that is
gone.
"""

import json
import os
import socket
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

SNAKEMAKE_FOLDER = Path(".snakemake")

_locks: list[FileLock] = []
"""Locks of this process, let go of when it ends."""


def hold_study(study: str, folder: Path = SNAKEMAKE_FOLDER) -> None:
    """Hold a study until this process ends; nothing happens where another run holds it, with targets of its own.

    Args:
        study: Name of the study.
        folder: Where Snakemake keeps its records.
    """
    lock, said = _create_lock(study, folder), _get_holder_file(study, folder)
    said.parent.mkdir(parents=True, exist_ok=True)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return
    _locks.append(lock)
    about = {"pid": os.getpid(), "host": socket.gethostname(), "since": f"{datetime.now():%Y-%m-%d %H:%M:%S}"}
    said.write_text(json.dumps(about), encoding="utf-8")


def describe_other_run(study: str, folder: Path = SNAKEMAKE_FOLDER) -> Iterator[str]:
    """What a user who starts a study should know of another run of it: that it goes on, or that it was killed.

    Args:
        study: Name of the study.
        folder: Where Snakemake keeps its records.
    """
    said = _get_holder_file(study, folder)
    if not said.is_file():
        return
    about = json.loads(said.read_text(encoding="utf-8"))
    who = f"process {about['pid']} on {about['host']}, since {about['since']}"
    try:
        with _create_lock(study, folder).acquire(timeout=0):
            ended = True
    except Timeout:
        ended = False
    if not ended:
        yield f"study {study} is being run by another snakemake ({who}); wait for it, or stop it"
    elif any((folder / "locks").glob("*.lock")):
        yield f"the last run of study {study} ({who}) was killed and holds nothing any more: snakemake --unlock"


def _create_lock(study: str, folder: Path) -> FileLock:
    return FileLock(folder / "waltz" / f"{study}.lock")


def _get_holder_file(study: str, folder: Path) -> Path:
    return folder / "waltz" / f"{study}.json"
