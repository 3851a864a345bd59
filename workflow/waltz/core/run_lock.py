"""Lock of a running study, which names the other run to a user who starts a second one.

Snakemake refuses a second run by a lock file that remains after a kill and does not name its owner. This module
additionally holds a lock of the operating system, which ends with its process, so that a run that goes on and a killed
one can be distinguished.
"""

import json
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from waltz.core.files.atomic import write_text

SNAKEMAKE_FOLDER = Path(".snakemake")
"""Folder of Snakemake's records."""

TIME_FORMAT = "%Y-%m-%d %H:%M:%S"

_locks: list[FileLock] = []
"""Locks of this process, released when it ends."""


@dataclass(frozen=True)
class StudyRun:
    """Last run of a study.

    Attributes:
        owner: Its process and host, and since when it runs, for a message.
        since: When it began, in local time.
        files: Study files that it read.
        targets: Files and rules that it was asked for; none stands for the report.
        goes_on: Whether it still runs.
    """

    owner: str
    since: datetime
    files: tuple[str, ...]
    targets: tuple[str, ...]
    goes_on: bool


def hold_study(
    study: str, folder: Path = SNAKEMAKE_FOLDER, files: Sequence[str] = (), targets: Sequence[str] = ()
) -> None:
    """Hold a study until this process ends; do nothing if another run (with other targets) holds it.

    Args:
        files: Study files that the run reads.
        targets: Files and rules that it is asked for.
    """
    lock, record_file = _create_lock(study, folder), _get_record_file(study, folder)
    record_file.parent.mkdir(parents=True, exist_ok=True)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return
    _locks.append(lock)
    record = {"pid": os.getpid(), "host": socket.gethostname(), "since": f"{datetime.now():{TIME_FORMAT}}"}
    write_text(record_file, json.dumps({**record, "files": list(files), "targets": list(targets)}))


def find_last_study(folder: Path = SNAKEMAKE_FOLDER) -> str:
    """Return the study whose run began last, or an empty text if none was run."""
    record_files = list((folder / "waltz").glob("*.json"))
    return max(record_files, key=lambda file: file.stat().st_mtime).stem if record_files else ""


def read_last_run(study: str, folder: Path = SNAKEMAKE_FOLDER) -> StudyRun | None:
    """Return the last run of a study; None if it was never run, or its record is damaged: the next run renews it."""
    record_file = _get_record_file(study, folder)
    if not record_file.is_file():
        return None
    try:
        record = json.loads(record_file.read_text(encoding="utf-8"))
        owner = f"process {record['pid']} on {record['host']}, since {record['since']}"
        since = datetime.strptime(record["since"], TIME_FORMAT)
        files, targets = tuple(record["files"]), tuple(record["targets"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    try:
        with _create_lock(study, folder).acquire(timeout=0):
            goes_on = False
    except Timeout:
        goes_on = True
    return StudyRun(owner, since, files, targets, goes_on)


def describe_other_run(study: str, folder: Path = SNAKEMAKE_FOLDER) -> Iterator[str]:
    """Yield a line about another run of the study if one goes on, or was killed and left Snakemake's lock."""
    run = read_last_run(study, folder)
    if run is None:
        return
    if run.goes_on:
        yield f"study {study} is being run by another snakemake ({run.owner}); wait for it, or stop it"
    elif any((folder / "locks").glob("*.lock")):
        yield f"the last run of study {study} ({run.owner}) was killed and left its lock; run: snakemake --unlock"


def _create_lock(study: str, folder: Path) -> FileLock:
    return FileLock(folder / "waltz" / f"{study}.lock")


def _get_record_file(study: str, folder: Path) -> Path:
    return folder / "waltz" / f"{study}.json"
