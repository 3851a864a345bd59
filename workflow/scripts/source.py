"""Read one source in its upstream format."""

import time
from pathlib import Path

from waltz.core.jobs.records import log_job, write_record
from waltz.core.records import write_records
from waltz.sources.listed_images import reject_unlisted
from waltz.sources.readers import read_source

params = snakemake.params

with log_job(snakemake.log[0]):
    start = time.perf_counter()
    files = dict(zip(params.names, snakemake.input.raw, strict=True))
    rows, record_type = read_source(params.format, files, snakemake.wildcards.source)
    if listed := snakemake.input.get("listed"):
        rows = reject_unlisted(rows, Path(listed))
    total, rejected = write_records(snakemake.output.rows, rows, record_type)
    write_record(
        snakemake.output.run,
        rows_in=total,
        rows_out=total - rejected,
        seconds=round(time.perf_counter() - start, 3),
        source=snakemake.wildcards.source,
        format=params.format,
        rejected=rejected,
    )
