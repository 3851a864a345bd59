"""Take an encoder's answers out of the archive that they come in."""

from pathlib import Path

from waltz.core.files.archives import take_member
from waltz.core.job_log import job

with job(snakemake.log[0]):
    take_member(Path(snakemake.input.archive), snakemake.params.member, Path(snakemake.output.file))
