"""Fetch one file of weights."""

from pathlib import Path

from waltz.core.files.downloads import fetch
from waltz.core.job_records import log_job

target = Path(snakemake.output.file)
url, checksum = snakemake.params.origin

with log_job(snakemake.log[0]):
    fetch(
        url,
        target,
        checksum,
        Path(snakemake.params.lock),
        Path(snakemake.params.cache),
        f"put a copy to {target} and run `snakemake --touch {target}`",
        largest=snakemake.params.largest,
    )
