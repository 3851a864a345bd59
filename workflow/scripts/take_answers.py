"""Take an encoder's answers out of the archive that they come in."""

from pathlib import Path

from waltz.core.files.archives import extract_member
from waltz.core.jobs.records import log_job

with log_job(snakemake.log[0]):
    extract_member(
        Path(snakemake.input.archive),
        snakemake.params.member,
        Path(snakemake.output.file),
    )
