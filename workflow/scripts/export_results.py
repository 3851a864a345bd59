"""Write the metrics of the models as records of Every Eval Ever."""

import time
from pathlib import Path

from waltz.core.jobs.records import log_job, write_record
from waltz.export.results import ResultSettings, export_results

inputs, output = snakemake.input, snakemake.output

with log_job(snakemake.log[0]):
    started = time.monotonic()
    settings = ResultSettings(**snakemake.params.settings)
    facts = export_results(
        Path(inputs.metrics),
        list(inputs.records),
        settings,
        Path(output.results),
        int(time.time()),
    )
    write_record(output.run, seconds=time.monotonic() - started, **facts)
