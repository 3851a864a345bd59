"""Fetch one model of the hub into the hub's cache."""

from pathlib import Path

from waltz.core.jobs.records import log_job
from waltz.models.hub import fetch_to_cache

wildcards = snakemake.wildcards

with log_job(snakemake.log[0]):
    marker, only_tokenizer = (
        Path(snakemake.output.marker),
        snakemake.params.only_tokenizer,
    )
    fetch_to_cache(
        wildcards.path, wildcards.commit, marker, only_tokenizer=only_tokenizer
    )
