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

SNAKEMAKE = Path(".snakemake")

_held: list[FileLock] = []
"""Locks of this process, let go of when it ends."""


def hold(study: str, folder: Path = SNAKEMAKE) -> None:
    """Hold a study until this process ends; nothing happens where another run holds it, with targets of its own.

    Args:
        study: Name of the study.
        folder: Where Snakemake keeps its records.
    """
    lock, said = _lock(study, folder), _said(study, folder)
    said.parent.mkdir(parents=True, exist_ok=True)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return
    _held.append(lock)
    about = {"pid": os.getpid(), "host": socket.gethostname(), "since": f"{datetime.now():%Y-%m-%d %H:%M:%S}"}
    said.write_text(json.dumps(about), encoding="utf-8")


def told(study: str, folder: Path = SNAKEMAKE) -> Iterator[str]:
    """What a user who starts a study should know of another run of it: that it goes on, or that it was killed.

    Args:
        study: Name of the study.
        folder: Where Snakemake keeps its records.
    """
    said = _said(study, folder)
    if not said.is_file():
        return
    about = json.loads(said.read_text(encoding="utf-8"))
    who = f"process {about['pid']} on {about['host']}, since {about['since']}"
    try:
        with _lock(study, folder).acquire(timeout=0):
            ended = True
    except Timeout:
        ended = False
    if not ended:
        yield f"study {study} is being run by another snakemake ({who}); wait for it, or stop it"
    elif any((folder / "locks").glob("*.lock")):
        yield f"the last run of study {study} ({who}) was killed and holds nothing any more: snakemake --unlock"


def _lock(study: str, folder: Path) -> FileLock:
    return FileLock(folder / "waltz" / f"{study}.lock")


def _said(study: str, folder: Path) -> Path:
    return folder / "waltz" / f"{study}.json"
