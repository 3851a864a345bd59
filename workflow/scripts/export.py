"""Write the benchmark as a Hugging Face data set and in VALSE's layout."""

import time
from pathlib import Path

from waltz.core.job_records import log_job, write_record
from waltz.export.folder import export_benchmark

inputs, params, output = dict(snakemake.input.items()), dict(snakemake.params.items()), snakemake.output

with log_job(snakemake.log[0]):
    started = time.monotonic()
    facts = export_benchmark(inputs, params, Path(output.dataset), Path(output.valse))
    write_record(output.run, seconds=time.monotonic() - started, **facts)
