"""Jobs that run a model: a log file, and GPUs or the CPU to compute on."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from waltz.core.jobs.devices import Device, lease_device
from waltz.core.jobs.records import log_job


@contextmanager
def open_model_job(snakemake: Any) -> Iterator[Device]:
    """Log a job of Snakemake as `log_job` does, and lease the device that Snakemake granted to it.

    Args:
        snakemake: The object that Snakemake gives to scripts.
    """
    gpus = snakemake.resources.get("gpu", 0)
    with log_job(snakemake.log[0]), lease_device(gpus, snakemake.threads) as device:
        yield device
