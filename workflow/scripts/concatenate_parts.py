"""Merge the parts of a stage's numbers into one file."""

from waltz.core import schema
from waltz.core.files import parquet
from waltz.core.jobs.records import log_job

with log_job(snakemake.log[0]):
    for name, layout in snakemake.params.layouts.items():
        layout = getattr(schema, layout)
        rows = [
            row
            for file in snakemake.input[name]
            for row in parquet.read_rows(file, layout)
        ]
        parquet.write_rows(snakemake.output[name], rows, layout)
