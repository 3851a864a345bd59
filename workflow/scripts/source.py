"""Read one source in its upstream format."""

import time
from pathlib import Path

from waltz.core.files import parquet
from waltz.core.job_records import log_job, write_record
from waltz.sources.listed_images import reject_unlisted
from waltz.sources.readers import read_source

params = snakemake.params

with log_job(snakemake.log[0]):
    start = time.perf_counter()
    files = dict(zip(params.names, snakemake.input.raw, strict=True))
    rows, layout = read_source(params.format, files, snakemake.wildcards.source)
    if listed := snakemake.input.get("listed"):
        rows = reject_unlisted(rows, Path(listed))
    total, rejected = parquet.write_rows(snakemake.output.rows, rows, layout)
    write_record(
        snakemake.output.run,
        rows_in=total,
        rows_out=total - rejected,
        seconds=round(time.perf_counter() - start, 3),
        source=snakemake.wildcards.source,
        format=params.format,
        rejected=rejected,
    )
