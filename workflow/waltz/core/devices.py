"""Lease of accelerators to one job."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from waltz.core.errors import UserError

LOCK_FOLDER = Path("/tmp/waltz-gpu-locks")
"""Folder of the locks of all people on this machine, wherever their temporary files are."""
POLL_SECONDS = 0.5
VISIBLE = "CUDA_VISIBLE_DEVICES"


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
    return {"device": device.name, "device_choice": device.reason, "threads": device.threads}


@contextmanager
def lease_device(gpus: int, threads: int) -> Iterator[Device]:
    """Lease GPUs and hide all others from this process, or lease the CPU if no GPU is requested or visible.

    One file lock per visible GPU keeps the jobs of all people on a machine apart; a job waits until as many as it
    requests are free. `CUDA_VISIBLE_DEVICES` is then set to those, before CUDA starts, and stays so: CUDA reads it once
    per process. A process that leases again therefore shares its own GPUs. In a Slurm job without that variable, the
    job has no GPU.

    Args:
        gpus: Number of GPUs that Snakemake granted (`resources.gpu`); 0 means CPU.
        threads: Number of threads that Snakemake granted; torch is set to it.
    Raises:
        UserError: Some GPUs are visible, but fewer than requested, or their locks cannot be written.
    """
    import torch

    torch.set_num_threads(threads)
    visible = os.environ.get(VISIBLE)
    job = os.environ.get("SLURM_JOB_ID", "")
    # Counted by the driver's library, unlike `is_available`, which would start CUDA.
    count = 0 if gpus == 0 or (job and visible is None) else torch.cuda.device_count()
    if count == 0:
        yield Device("cpu", threads, "no GPU was asked for" if gpus == 0 else "no GPU is visible")
        return
    ids = [gpu.strip() for gpu in visible.split(",")][:count] if visible else [str(index) for index in range(count)]
    if len(ids) < gpus:
        raise UserError(
            f"the job's model needs {gpus} GPUs (got {len(ids)}: {VISIBLE}={','.join(ids)}); show it more, or set"
            " models.NAME.gpus in the study where fewer are large enough"
        )
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        ids = ids[:gpus]
    with _lease_free_gpus(gpus, ids, job) as leased:
        os.environ[VISIBLE] = ",".join(leased)
        yield Device("cuda:0", threads, f"leased GPU {', '.join(leased)}")


@contextmanager
def _lease_free_gpus(count: int, ids: Sequence[str], job: str) -> Iterator[list[str]]:
    """Lock some of the GPUs, all at once; a Slurm job numbers its own GPUs from 0, so that its locks bear its id."""
    _open_lock_folder()
    prefix = f"slurm-{job}-" if job else ""
    locks = {gpu: FileLock(LOCK_FOLDER / f"{prefix}{gpu}.lock", mode=0o666, is_singleton=True) for gpu in ids}
    while True:
        with ExitStack() as held:
            leased: list[str] = []
            for gpu, lock in locks.items():
                try:
                    held.enter_context(lock.acquire(timeout=0))
                except Timeout:
                    continue
                except PermissionError as error:
                    raise UserError(
                        f"{lock.lock_file}: cannot be locked; its owner or root should delete it"
                    ) from error
                leased.append(gpu)
                if len(leased) == count:
                    yield leased
                    return
        time.sleep(POLL_SECONDS)


def _open_lock_folder() -> None:
    """Create the folder of the locks with the permissions of `/tmp`: all people write, and delete only their own."""
    LOCK_FOLDER.mkdir(parents=True, exist_ok=True)
    with suppress(PermissionError):  # the owner is another person
        LOCK_FOLDER.chmod(0o1777)
    if not os.access(LOCK_FOLDER, os.W_OK):
        raise UserError(
            f"{LOCK_FOLDER}: cannot write the locks of GPUs; its owner or root should run `chmod 1777 {LOCK_FOLDER}`"
        )
