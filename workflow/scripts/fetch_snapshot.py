"""Fetch one model of the hub at the commit of the lock file."""

from pathlib import Path

from waltz.core.jobs.records import log_job
from waltz.models.hub import fetch_snapshot

with log_job(snakemake.log[0]):
    fetch_snapshot(
        snakemake.params.repository,
        Path(snakemake.output.folder),
        Path(snakemake.params.lock),
    )
