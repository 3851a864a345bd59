"""Merge the shards of one model on one group of data sets."""

from waltz.core import schema
from waltz.core.files.group_files import merge_shards
from waltz.core.jobs.records import log_job

inputs, output = snakemake.input, snakemake.output
layout = getattr(schema, snakemake.params.layout)
order = snakemake.params.get("order") or sorted(
    layout.key, key=lambda name: name != "profile"
)

with log_job(snakemake.log[0]):
    merge_shards(inputs.rows, inputs.runs, output.rows, output.run, layout, order)
