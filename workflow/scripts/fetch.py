"""Fetch one raw file from the user's own path, a local copy, a file of an archive, or the network."""

from pathlib import Path

from waltz.core.files.archives import extract_member
from waltz.core.files.downloads import get_archive_member, provide_raw_file
from waltz.core.job_records import log_job

file, target = snakemake.params.file, Path(snakemake.output.raw)

with log_job(snakemake.log[0]):
    if snakemake.input.get("archive"):
        extract_member(Path(snakemake.input.archive), get_archive_member(file["url"]), target)
    else:
        lock, cache = Path(snakemake.params.lock), Path(snakemake.params.cache)
        provide_raw_file(file, target, lock, cache, snakemake.params.largest)
