"""Read one raw file as a benchmark: items with votes, and single annotations where there are any."""

from waltz.benchmark.items import read_items
from waltz.core.files import parquet
from waltz.core.job_records import log_job
from waltz.core.schema import ANNOTATIONS, BENCHMARK

with log_job(snakemake.log[0]):
    items, annotations = read_items(
        snakemake.input.raw,
        form=snakemake.params.format,
        dataset=snakemake.wildcards.dataset,
        source=snakemake.params.source,
        annotations=snakemake.input.get("annotations"),
        valid_votes=snakemake.params.valid_votes,
    )
    parquet.write_rows(snakemake.output.pairs, items, BENCHMARK)
    parquet.write_rows(snakemake.output.annotations, annotations, ANNOTATIONS)
