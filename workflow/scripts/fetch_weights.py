"""Fetch one file of weights."""

from pathlib import Path

from waltz.core.downloads.transfer import DownloadRequest, fetch
from waltz.core.jobs.records import log_job

params = snakemake.params
target = Path(snakemake.output.file)
url, checksum = params.origin
advice = f"put a copy to {target} and run `snakemake --touch {target}`"

with log_job(snakemake.log[0]):
    file = DownloadRequest(
        url.get_secret_value(), checksum, advice, largest=params.largest
    )
    fetch(file, target, Path(params.lock), Path(params.cache))
