"""Read one raw file as a benchmark: items with votes, and single annotations where there are any."""

import time

from waltz.benchmark.items import read_benchmark_items
from waltz.core.jobs.records import log_job, write_record
from waltz.core.records import write_records
from waltz.core.schema import AnnotationRecord, ItemRecord

with log_job(snakemake.log[0]):
    start = time.monotonic()
    items, annotations, unusable = read_benchmark_items(
        snakemake.input.raw,
        form=snakemake.params.format,
        dataset=snakemake.wildcards.dataset,
        source=snakemake.params.source,
        columns=snakemake.params.columns,
        annotations=snakemake.input.get("annotations"),
        valid_votes=snakemake.params.valid_votes,
    )
    write_records(snakemake.output.pairs, items, ItemRecord)
    write_records(snakemake.output.annotations, annotations, AnnotationRecord)
    write_record(
        snakemake.output.run,
        rows_in=len(items) + unusable.total(),
        rows_out=len(items),
        seconds=time.monotonic() - start,
        unusable=unusable,
    )
