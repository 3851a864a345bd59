"""Take an encoder's answers out of the archive that they come in."""

from pathlib import Path

from waltz.core.archives import take_member
from waltz.core.job import job

with job(snakemake.log[0]):
    take_member(Path(snakemake.input.archive), snakemake.params.member, Path(snakemake.output.file))
