"""One accelerator for one job."""

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

LOCK_FOLDER = Path(tempfile.gettempdir()) / "waltz-gpu-locks"
POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Device:
    """Where a job computes.

    Attributes:
        name: A torch device: `cpu`, `cuda:0`.
        threads: CPU threads that the job may use.
        why: How the choice was made, for the run record.
    """

    name: str
    threads: int
    why: str


def describe_device(device: Device) -> dict[str, str | int]:
    """What a run record says of where a job computed."""
    return {"device": device.name, "device_choice": device.why, "threads": device.threads}


@contextmanager
def lease_device(gpus: int, threads: int) -> Iterator[Device]:
    """Hold one GPU, or the CPU where none is asked for or to be seen.

    A scheduler's choice is honoured: in a Slurm job the visible devices are the job's own and need no
    lock, and `CUDA_VISIBLE_DEVICES` unset means that it was given none. Elsewhere a file lock for each
    visible GPU keeps two local jobs apart; a job waits until one is free.

    Args:
        gpus: What Snakemake granted (`resources.gpu`): 0 means CPU.
        threads: What Snakemake granted; torch is set to it.
    """
    import torch

    torch.set_num_threads(threads)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    scheduled = "SLURM_JOB_ID" in os.environ
    seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if gpus == 0 or seen == 0 or (scheduled and visible is None):
        why = "no GPU was asked for" if gpus == 0 else "no GPU is visible"
        yield Device("cpu", threads, why)
    elif scheduled:
        yield Device("cuda:0", threads, "given by the scheduler")
    else:
        ids = visible.split(",")[:seen] if visible else [str(index) for index in range(seen)]
        with _lease_free_gpu(ids) as index:
            yield Device(f"cuda:{index}", threads, f"leased GPU {ids[index]}")


@contextmanager
def _lease_free_gpu(ids: Sequence[str]) -> Iterator[int]:
    LOCK_FOLDER.mkdir(mode=0o777, parents=True, exist_ok=True)
    locks = [FileLock(LOCK_FOLDER / f"{gpu.strip()}.lock") for gpu in ids]
    while True:
        for index, lock in enumerate(locks):
            try:
                lock.acquire(timeout=0)
            except Timeout:
                continue
            try:
                yield index
            finally:
                lock.release()
            return
        time.sleep(POLL_SECONDS)
