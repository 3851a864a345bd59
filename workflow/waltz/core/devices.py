"""Lease of one accelerator to one job."""

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
    """Device that a job computes on.

    Attributes:
        name: A torch device: `cpu`, `cuda:0`.
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
    """Lease one GPU, or the CPU if no GPU is requested or visible.

    In a Slurm job the visible devices belong to the job and need no lock; if `CUDA_VISIBLE_DEVICES` is not set, the
    job has no GPU. Elsewhere one file lock per visible GPU keeps local jobs apart; a job waits until a GPU is free.

    Args:
        gpus: Number of GPUs that Snakemake granted (`resources.gpu`); 0 means CPU.
        threads: Number of threads that Snakemake granted; torch is set to it.
    """
    import torch

    torch.set_num_threads(threads)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    scheduled = "SLURM_JOB_ID" in os.environ
    visible_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if gpus == 0 or visible_gpus == 0 or (scheduled and visible is None):
        reason = "no GPU was asked for" if gpus == 0 else "no GPU is visible"
        yield Device("cpu", threads, reason)
    elif scheduled:
        yield Device("cuda:0", threads, "given by the scheduler")
    else:
        ids = visible.split(",")[:visible_gpus] if visible else [str(index) for index in range(visible_gpus)]
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
