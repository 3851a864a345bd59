"""Write the metrics of the models as records of Every Eval Ever."""

import time
from pathlib import Path

from waltz.core.job_records import log_job, write_record
from waltz.export.results import export_results

inputs, params, output = dict(snakemake.input.items()), dict(snakemake.params.items()), snakemake.output

with log_job(snakemake.log[0]):
    started = time.monotonic()
    facts = export_results(inputs, params, Path(output.results), int(time.time()))
    write_record(output.run, seconds=time.monotonic() - started, **facts)
