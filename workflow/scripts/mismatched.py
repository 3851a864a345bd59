"""Build a data set that pairs the texts of images with the texts of other images."""

import time

from waltz.core.files import parquet
from waltz.core.jobs.records import log_job, write_record
from waltz.core.records import write_records
from waltz.core.schema import ItemRecord
from waltz.evaluation.items import build_mismatched_items

params, settings = snakemake.params, snakemake.params.settings

with log_job(snakemake.log[0]):
    start = time.perf_counter()
    rows = []
    for file in snakemake.input.rows:
        rows += parquet.read_table(file).to_pylist()
    items, unusable = build_mismatched_items(
        snakemake.wildcards.aligned,
        rows,
        settings["size"],
        params.seed,
        settings.get("choice"),
    )
    write_records(snakemake.output.pairs, items, ItemRecord)
    write_record(
        snakemake.output.run,
        rows_in=len(rows),
        rows_out=len(items),
        seconds=round(time.perf_counter() - start, 3),
        unusable=dict(unusable),
        seed=params.seed,
    )
