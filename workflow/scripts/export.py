"""Write the benchmark as a Hugging Face data set and in VALSE's layout."""

import time
from pathlib import Path

from waltz.core.jobs.records import log_job, write_record
from waltz.export.folder import ExportInputs, ExportSettings, export_benchmark

inputs, output = snakemake.input, snakemake.output

with log_job(snakemake.log[0]):
    started = time.monotonic()
    files = ExportInputs(
        benchmark=list(inputs.benchmark),
        rows=list(inputs.rows),
        raw=list(inputs.raw),
        images=list(inputs.images),
        funnel=inputs.funnel or None,
        audit=inputs.audit or None,
    )
    settings = ExportSettings(**snakemake.params.settings)
    facts = export_benchmark(files, settings, Path(output.dataset), Path(output.valse))
    write_record(output.run, seconds=time.monotonic() - started, **facts)
