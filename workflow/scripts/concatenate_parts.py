"""Put the parts of a stage's numbers together."""

from waltz.core import schema
from waltz.core.files import parquet
from waltz.core.job_records import log_job

with log_job(snakemake.log[0]):
    for name, layout in snakemake.params.layouts.items():
        layout = getattr(schema, layout)
        rows = [row for file in snakemake.input[name] for row in parquet.read(file, layout).to_pylist()]
        parquet.write(snakemake.output[name], parquet.build_table(rows, layout), layout)
