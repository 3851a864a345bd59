"""Lock of a running study; if a user starts a second run of it, the message names the first run.

Snakemake refuses a second run because of lock files, but these remain after a kill and do not name
their owner, and the end of any run in the folder removes the lock files of all runs. This module
also holds a lock of the operating system, which ends with its process, and records which lock files
belong to which run. It can therefore distinguish a run that goes on from a killed run: a run has
ended if it holds no lock and its process (by number and start time) no longer exists. On another
machine, the process cannot be checked.
"""

import json
import os
import shlex
import socket
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

import psutil
from filelock import BaseFileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field

from waltz.core.errors import UserError
from waltz.core.files.atomic import write_text
from waltz.core.files.locks import build_lock
from waltz.core.jobs.interrupts import RUN_SNAKEMAKE

SNAKEMAKE_FOLDER = Path(".snakemake")
"""Folder of Snakemake's records, relative to the working directory."""

TIME_FORMAT = "%Y-%m-%d %H:%M:%S"
START_TOLERANCE = 2.0
"""Seconds by which two readings of the start time of one process may differ; the system derives it
from its clock.
"""
POLL_SECONDS = 1.0
"""Seconds between two attempts of a waiting run to take the lock of a study."""


class RunLockRecord(BaseModel):
    """Record of a study's last run, as its JSON file holds it.

    Attributes:
        pid: Number of the process.
        host: Name of the machine.
        since: Start time, in local time and `TIME_FORMAT`.
        process_start: Start of the process in seconds since 1970.
        files: Study files that the run read.
        targets: Requested files and rules.
        locks: For each lock file of Snakemake that the run holds, by its name, the time (ns) of its
            last change.
        logs: Snakemake's log files of the run.
    """

    model_config = ConfigDict(frozen=True)
    pid: Annotated[int, Field(ge=0)]
    host: str
    since: str
    process_start: float = 0.0
    files: tuple[str, ...]
    targets: tuple[str, ...]
    locks: dict[str, int] = {}
    logs: tuple[str, ...] = ()


_locks: list[BaseFileLock] = []
"""Locks of this process; the list keeps them alive until the process ends."""


@dataclass(frozen=True)
class StudyRun:
    """Last run of a study.

    Attributes:
        owner: Process, host and start time of the run, for a message.
        since: Start time, in local time.
        files: Study files that the run read.
        targets: Requested files and rules; an empty tuple means the report.
        goes_on: Whether the run certainly still goes on.
        study: Name of the study.
        is_visible: Whether this machine can tell if the run has ended; False for a run on another
            machine that may still go on.
        locks: Lock files of Snakemake that the run holds, or left.
        logs: Snakemake's log files of the run.
    """

    owner: str
    since: datetime
    files: tuple[str, ...]
    targets: tuple[str, ...]
    goes_on: bool
    study: str = ""
    is_visible: bool = True
    locks: tuple[Path, ...] = ()
    logs: tuple[str, ...] = ()

    @property
    def may_go_on(self) -> bool:
        """True if the run still goes on, or may go on on another machine."""
        return self.goes_on or not self.is_visible

    @property
    def was_killed(self) -> bool:
        """True if the run has certainly ended and left its lock files."""
        return bool(self.locks) and not self.may_go_on

    def describe(self) -> str:
        """Return a sentence that says that the run goes on, certainly or perhaps, and what to do."""
        line = f"study {self.study} is being run by another snakemake ({self.owner})"
        if self.goes_on:
            return f"{line}; wait for it, or stop it"
        return (
            f"{line}, or was killed there, which cannot be seen from here; look there with `waltz status`, and only"
            f" where that machine is gone, run: {_build_removal(self.locks)}"
        )


def hold_study(
    study: str,
    folder: Path = SNAKEMAKE_FOLDER,
    files: Sequence[str] = (),
    targets: Sequence[str] = (),
    locks: Iterable[str | Path] = (),
    logs: Sequence[str] = (),
) -> None:
    """Lock a study until this process ends; while another run (with other targets) holds it, wait
    in the background.

    Args:
        study: Name of the study.
        folder: Folder of Snakemake's records.
        files: Study files that the run reads.
        targets: Requested files and rules.
        locks: Lock files that Snakemake wrote for the run.
        logs: Snakemake's log files of the run.
    """
    record_file = _get_record_file(study, folder)
    record_file.parent.mkdir(parents=True, exist_ok=True)
    # The lock of the system ends with this process, however it ends; the record says whose it was.
    lock = _create_lock(study, folder)
    record = RunLockRecord(
        pid=os.getpid(),
        host=socket.gethostname(),
        since=f"{datetime.now():{TIME_FORMAT}}",
        process_start=psutil.Process().create_time(),
        files=tuple(files),
        targets=tuple(targets),
        locks=_read_times(map(Path, locks)),
        logs=tuple(logs),
    )

    def take(timeout: float) -> None:
        """Acquire the lock and record this run as its owner; a negative timeout waits without
        limit.
        """
        lock.acquire(timeout=timeout, poll_interval=POLL_SECONDS)
        _locks.append(lock)
        # Pydantic cannot write a path whose name is not UTF-8.
        write_text(record_file, json.dumps(record.model_dump()))

    try:
        take(timeout=0)
    except Timeout:
        # Another run with other targets holds the lock; this run takes it when the other run ends.
        threading.Thread(target=take, args=[-1], daemon=True).start()


def find_last_study(folder: Path = SNAKEMAKE_FOLDER) -> str:
    """Return the name of the study that was run last, or an empty text if no study was run."""
    record_files = list((folder / "waltz").glob("*.json"))
    if not record_files:
        return ""
    return max(record_files, key=lambda file: file.stat().st_mtime).stem


def read_last_run(study: str, folder: Path = SNAKEMAKE_FOLDER) -> StudyRun | None:
    """Return the last run of a study.

    Returns:
        The run; None if the study was never run or the record is damaged, which the next run
        replaces.
    """
    try:
        content = json.loads(_get_record_file(study, folder).read_bytes())
        record = RunLockRecord.model_validate(content)
        since = datetime.strptime(record.since, TIME_FORMAT)
        locks = tuple(_select_present(record.locks, folder))
    # A missing or damaged record says nothing about the run.
    except (OSError, ValueError, RecursionError):
        return None

    # A run goes on if its lock is held, or if its process exists on this machine (where locks are
    # not visible).
    is_here = record.host == socket.gethostname()
    is_held = _is_held(study, folder)
    goes_on = bool(is_held)
    if is_here and not goes_on:
        goes_on = _is_process(record.pid, record.process_start)

    # This machine sees the end of its own runs only. A run without lock files ended normally, on
    # any machine.
    is_end_visible = is_here and is_held is not None
    return StudyRun(
        owner=f"process {record.pid} on {record.host}, since {record.since}",
        since=since,
        files=record.files,
        targets=record.targets,
        goes_on=goes_on,
        study=study,
        is_visible=goes_on or is_end_visible or not locks,
        locks=locks,
        logs=record.logs,
    )


def list_study_runs(folder: Path = SNAKEMAKE_FOLDER) -> list[StudyRun]:
    """Return the last run of each study in a folder, ordered by the name of the study."""
    studies = sorted(file.stem for file in (folder / "waltz").glob("*.json"))
    runs = [read_last_run(study, folder) for study in studies]
    return list(filter(None, runs))


def list_going_on(folder: Path = SNAKEMAKE_FOLDER) -> list[StudyRun]:
    """Return the runs in a folder that go on, or may go on on another machine."""
    return [run for run in list_study_runs(folder) if run.may_go_on]


def check_study_is_free(
    study: str, folder: Path = SNAKEMAKE_FOLDER, has_other_targets: bool = False
) -> None:
    """Refuse to run a study while another run of it goes on.

    Args:
        study: Name of the study.
        folder: Folder of Snakemake's records.
        has_other_targets: Whether Snakemake has found that the second run writes none of the locked
            files; then only a first run that has lost its lock files is a reason to refuse.
    Raises:
        UserError: Another run of the study goes on, or may go on on another machine.
    """
    run = read_last_run(study, folder)
    if run is None or not run.may_go_on:
        return
    # Snakemake itself protects the files of a run that has its lock files.
    is_apart = has_other_targets and bool(run.locks)
    if not is_apart:
        raise UserError(run.describe())


def check_unlocking(folder: Path = SNAKEMAKE_FOLDER) -> None:
    """Refuse to remove the lock files of all runs in a folder while a run goes on, or may go on on
    another machine.

    Raises:
        UserError: Such a run exists.
    """
    # The first such run is enough to refuse.
    for run in list_going_on(folder):
        raise UserError(
            f"--unlock: could let two runs write into one folder: {run.describe()}"
        )


def describe_refusal(
    study: str,
    inputs: Iterable[object],
    outputs: Iterable[object],
    folder: Path = SNAKEMAKE_FOLDER,
    options: Sequence[str] = (),
) -> str:
    """Return a message that says which run holds the lock files that block a run of a study, and
    what to do.

    Args:
        study: The study.
        inputs: Files that the run reads.
        outputs: Files that it writes.
        folder: Folder of Snakemake's records.
        options: Options of Snakemake that name the folder and the workflow, for the suggested
            command.
    """
    refusing = _find_refusing(set(map(str, inputs)), set(map(str, outputs)), folder)
    # First those that may still run: nothing may be removed then.
    owners = _find_owners(study, refusing, folder)
    for run in owners:
        if run.may_go_on:
            return run.describe()
    for run in owners:
        left_all_locks = refusing <= {*run.locks}
        if run.was_killed and left_all_locks:
            advice = build_unlock_command(run, folder, options)
            return f"the last run of study {run.study} ({run.owner}) was killed and left its lock; run: {advice}"

    # No record says whose the lock files are: look for another run of the folder, then for any
    # process.
    names = ", ".join(map(str, sorted(refusing))) or str(folder / "locks")
    for run in list_going_on(folder):
        return f"files of study {study} are locked by a run without a record ({names}); {run.describe()}"
    for process in _find_processes(folder.absolute().parent):
        return f"files of study {study} are locked, and snakemake runs in this folder (process {process}); wait for it"
    unlock = shlex.join(["snakemake", "--unlock", *options])
    return (
        f"files of study {study} are locked by a run without a record ({names}); make sure that no snakemake runs in"
        f" this folder, on any machine, and only then run: {unlock}"
    )


def _find_owners(study: str, locks: set[Path], folder: Path) -> list[StudyRun]:
    """Return the runs that wrote any of the lock files; if there is no such run, return the last
    run of the study.
    """
    runs = list_study_runs(folder)
    owners = [run for run in runs if locks & {*run.locks}]
    if owners:
        return owners
    return [run for run in runs if run.study == study]


def build_unlock_command(
    run: StudyRun, folder: Path = SNAKEMAKE_FOLDER, options: Sequence[str] = ()
) -> str:
    """Return the command that removes the lock files of a killed run and no other ones; empty if it
    was not killed.

    Args:
        run: The run.
        folder: Folder of Snakemake's records.
        options: Options of Snakemake that name the folder and the workflow.
    """
    if not run.was_killed:
        return ""
    # `--unlock` removes the lock files of all runs of the folder.
    other_locks = {*(folder / "locks").glob("*.lock")} - {*run.locks}
    if other_locks or list_going_on(folder):
        return _build_removal(run.locks)
    return shlex.join(["snakemake", "--unlock", *options])


def _build_removal(locks: Sequence[Path]) -> str:
    """Return the command that deletes lock files."""
    return shlex.join(["rm", *map(str, locks)])


def _read_times(locks: Iterable[Path]) -> dict[str, int]:
    """Return for each lock file its time (ns) by its name; the time identifies the run, as names
    occur again.
    """
    times = {}
    for file in locks:
        with suppress(FileNotFoundError):  # the end of another run has removed it
            times[file.name] = file.stat().st_mtime_ns
    return times


def _select_present(times: dict[str, int], folder: Path) -> Iterable[Path]:
    """Yield the recorded lock files of a run that still exist and were not written again by a later
    run.

    Args:
        times: Recorded time (ns) of each lock file by its name.
        folder: Folder of Snakemake's records.
    """
    for name, nanoseconds in times.items():
        file = folder / "locks" / Path(name).name
        with suppress(OSError):
            # Another time means that a later run has written a file of the same name.
            if file.stat().st_mtime_ns == nanoseconds:
                yield file


def _find_refusing(inputs: set[str], outputs: set[str], folder: Path) -> set[Path]:
    """Return the lock files because of which Snakemake refuses a run that reads `inputs` and writes
    `outputs`.
    """
    refusing = set()
    for file in (folder / "locks").glob("*.lock"):
        try:
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:  # its run has ended meanwhile
            continue
        locked = {line.strip() for line in lines}
        # Nobody else may write what a run reads or writes, nor read what it writes.
        files = outputs | inputs if file.name.endswith(".output.lock") else outputs
        if locked & files:
            refusing.add(file)
    return refusing


def _is_held(study: str, folder: Path) -> bool | None:
    """Return whether a process holds the lock of a study; None if this user cannot open the lock
    file.
    """
    try:
        with _create_lock(study, folder).acquire(timeout=0):
            return False
    except Timeout:
        return True
    except OSError:
        return None


def _is_process(pid: int, start: float) -> bool:
    """Return whether another process of this machine still exists; False for this process, which
    knows its locks.

    Args:
        pid: Number of the process.
        start: Start of the process in seconds since 1970; a later process with the same number has
            another start.
    """
    # This process knows its locks from the lock objects.
    if pid == os.getpid():
        return False
    try:
        process = psutil.Process(pid)
        is_same = abs(process.create_time() - start) < START_TOLERANCE
        return is_same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _find_processes(folder: Path) -> list[int]:
    """Return the numbers of Snakemake's processes in a folder on this machine, without this process
    and its parents.
    """
    this = psutil.Process()
    # Snakemake starts itself again for jobs, so that parents are the same run.
    known = {this.pid, *(parent.pid for parent in this.parents())}
    processes = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        if process.pid in known or process.info["cwd"] != str(folder):
            continue
        command = process.info["cmdline"] or []
        # The program, an interpreter's script, `python -m snakemake`, or what our commands start.
        words = command[:3]
        if RUN_SNAKEMAKE in words or "snakemake" in (Path(word).name for word in words):
            processes.append(process.pid)
    return processes


def _create_lock(study: str, folder: Path) -> BaseFileLock:
    """Return the lock of a study, not yet acquired."""
    return build_lock(folder / "waltz" / f"{study}.lock")


def _get_record_file(study: str, folder: Path) -> Path:
    """Return the path of the JSON record of a study's last run."""
    return folder / "waltz" / f"{study}.json"
