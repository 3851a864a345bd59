"""Lease of GPUs to a job, so that jobs of all users of a machine share its GPUs without conflicts."""

import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from filelock import BaseFileLock, Timeout

from waltz.core.errors import UserError
from waltz.core.files.locks import build_lock

LOCK_FOLDER = Path("/tmp/waltz-gpu-locks")
"""Folder of the lock files of all users of this machine; it does not depend on `TMPDIR`, which
users may change.
"""
SHARED_PERMISSIONS = 0o1777
"""Permissions of the folder (octal, with sticky bit): every user creates lock files and deletes
only their own.
"""
POLL_SECONDS = 0.5
"""Seconds between two attempts to lease GPUs."""
VISIBLE = "CUDA_VISIBLE_DEVICES"
"""Environment variable that lists the GPUs that CUDA shows to a process."""


@dataclass(frozen=True)
class Device:
    """Device that a job computes on.

    Attributes:
        name: A torch device: `cpu`, or `cuda:0`, the first of the GPUs that this process sees.
        threads: CPU threads that the job may use.
        reason: Reason for the choice, for the run record.
    """

    name: str
    threads: int
    reason: str


def describe_device(device: Device) -> dict[str, str | int]:
    """Return the entries of a run record about the device."""
    return {
        "device": device.name,
        "device_choice": device.reason,
        "threads": device.threads,
    }


@contextmanager
def lease_device(gpus: int, threads: int) -> Iterator[Device]:
    """Lease GPUs and hide all others from this process, or lease the CPU if no GPU is requested or
    visible.

    One file lock per visible GPU keeps the jobs of all users of a machine apart; a job waits until
    as many GPUs as it requests are free. `CUDA_VISIBLE_DEVICES` then lists the leased GPUs. It is
    set before CUDA starts and is not restored, because CUDA reads it once per process. A process
    that leases again therefore shares its own GPUs. A Slurm job without that variable has no GPU.

    Args:
        gpus: Number of GPUs that Snakemake granted (`resources.gpu`); 0 means CPU.
        threads: Number of threads that Snakemake granted; torch is set to it.
    Raises:
        UserError: Some GPUs are visible, but fewer than requested, or their locks cannot be
            written.
    """
    import torch

    torch.set_num_threads(threads)
    # Without GPUs, the job computes on the CPU and needs no lock.
    if gpus == 0:
        yield Device("cpu", threads, "no GPU was asked for")
        return
    # A job never gets fewer GPUs than it requested: its model would not fit into them.
    job = os.environ.get("SLURM_JOB_ID", "")
    ids = _list_visible_gpus(is_slurm=bool(job))
    if not ids:
        yield Device("cpu", threads, "no GPU is visible")
        return
    if len(ids) < gpus:
        raise UserError(
            f"the job's model needs {gpus} GPUs (got {len(ids)}: {VISIBLE}={','.join(ids)}); show it more, or set"
            " models.NAME.gpus in the study where fewer are large enough"
        )
    # CUDA has read the variable already, so the process keeps the GPUs that it leased.
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        ids = ids[:gpus]
    with _lease_free_gpus(gpus, ids, job) as leased:
        # CUDA numbers the visible GPUs from 0.
        os.environ[VISIBLE] = ",".join(leased)
        # By default, convolutions such as patch embeddings multiply float32 with the digits of TF32.
        torch.backends.cudnn.allow_tf32 = False
        yield Device("cuda:0", threads, f"leased GPU {', '.join(leased)}")


def _list_visible_gpus(is_slurm: bool) -> list[str]:
    """Return the ids of the GPUs that this process may use: those in `CUDA_VISIBLE_DEVICES`, or all
    if it is unset.
    """
    import torch

    visible = os.environ.get(VISIBLE)
    if is_slurm and visible is None:
        return []
    # The driver's library counts, unlike `is_available`, which would start CUDA.
    count = torch.cuda.device_count()
    if not visible:
        return [str(index) for index in range(count)]
    return [gpu.strip() for gpu in visible.split(",")][:count]


@contextmanager
def _lease_free_gpus(count: int, ids: Sequence[str], job: str) -> Iterator[list[str]]:
    """Wait until `count` of the GPUs are free, lock them, and yield their ids.

    Slurm numbers the GPUs of each job from 0, so the lock files of a Slurm job contain the id of
    the job.
    """
    _open_lock_folder()
    prefix = f"slurm-{job}-" if job else ""
    locks = {gpu: _get_lock(LOCK_FOLDER / f"{prefix}{gpu}.lock") for gpu in ids}
    while True:
        # Locks of too few GPUs are released at the end of the block, so that two jobs never wait
        # for each other.
        with ExitStack() as held:
            leased: list[str] = []
            for gpu, lock in locks.items():
                if _acquire(lock, held):
                    leased.append(gpu)
                if len(leased) == count:
                    yield leased
                    return
        time.sleep(POLL_SECONDS)


def _acquire(lock: BaseFileLock, held: ExitStack) -> bool:
    """Try to acquire a lock until the stack ends, and return whether it was free.

    Raises:
        UserError: The lock file cannot be written: another user does not permit it, or it is a link
            or folder.
    """
    try:
        held.enter_context(lock.acquire(timeout=0))
    except Timeout:
        return False
    except OSError as error:
        raise UserError(
            f"{lock.lock_file}: cannot be locked ({error.strerror}); its owner or root should delete it"
        ) from None
    return True


@cache
def _get_lock(file: Path) -> BaseFileLock:
    """Return the lock of a GPU: the same object for each call, so that a process can acquire it
    again.
    """
    return build_lock(file, mode=0o666)


def _open_lock_folder() -> None:
    """Create the folder of the lock files with the permissions of `/tmp`: every user writes and
    deletes only own files.

    An existing folder may belong to another user: links are not followed, and permissions are
    changed only if the folder belongs to this user.

    Raises:
        UserError: The path is not a folder, or its permissions differ and only another user can
            change them.
    """
    LOCK_FOLDER.parent.mkdir(parents=True, exist_ok=True)
    try:
        LOCK_FOLDER.mkdir(exist_ok=False)
    except FileExistsError:
        pass
    except OSError as error:
        raise UserError(
            f"{LOCK_FOLDER}: cannot be created ({error.strerror}); let root create it"
        ) from None

    try:
        # A link in /tmp could be another person's, and lead anywhere.
        folder = os.open(LOCK_FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except PermissionError:
        raise _build_folder_error() from None
    except OSError:
        raise UserError(
            f"{LOCK_FOLDER}: is a link or file, not a folder; its owner or root should delete it"
        ) from None

    # Permissions are read and changed through the open folder, which nobody can exchange meanwhile.
    try:
        status = os.fstat(folder)
        if stat.S_IMODE(status.st_mode) == SHARED_PERMISSIONS:
            return
        if status.st_uid != os.geteuid():
            raise _build_folder_error()
        os.fchmod(folder, SHARED_PERMISSIONS)
    finally:
        os.close(folder)


def _build_folder_error() -> UserError:
    """Return the error about permissions that this user cannot change."""
    return UserError(
        f"{LOCK_FOLDER}: cannot share the locks of GPUs; its owner or root should run `chmod 1777 {LOCK_FOLDER}`"
    )
