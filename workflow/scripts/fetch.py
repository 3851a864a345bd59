"""Fetch one raw file, or listed images: the user's own, a local copy, a file of an archive, or from
the network.
"""

from pathlib import Path

from waltz.core.downloads.transfer import provide_raw_file
from waltz.core.downloads.urls import get_archive_member
from waltz.core.files.archives import extract_member
from waltz.core.jobs.records import log_job
from waltz.sources.listed_images import fetch_listed_images

file, target = snakemake.params.file, Path(snakemake.output.raw)

with log_job(snakemake.log[0]):
    lock, cache = Path(snakemake.params.lock), Path(snakemake.params.cache)
    if snakemake.input.get("archive"):
        extract_member(
            Path(snakemake.input.archive),
            get_archive_member(file["url"].get_secret_value()),
            target,
        )
    elif "listed" in file:
        fetch_listed_images(
            Path(snakemake.input.user_path), file.get("local"), target, lock, cache
        )
    else:
        provide_raw_file(file, target, lock, cache, snakemake.params.largest)
