"""List the places where a source's images lie, relative to the list."""

import os
from pathlib import Path

from waltz.core.files.atomic import write_text
from waltz.core.jobs.records import log_job

listed = Path(snakemake.output.listed)

with log_job(snakemake.log[0]):
    write_text(
        listed,
        "".join(
            f"{os.path.relpath(part, listed.parent)}\n"
            for part in snakemake.input.parts
        ),
    )
