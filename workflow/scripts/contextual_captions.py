"""Build the contextual captions of CV-Probes, one for each annotation of the chosen images."""

import time
from functools import partial

from waltz.core.devices import describe_device, lease_device
from waltz.core.files import parquet
from waltz.core.job_records import log_job, write_record
from waltz.core.schema import PROBE_CAPTIONS
from waltz.foils.cv_probes import build_study_captions
from waltz.model_registry import ModelSpec
from waltz.models.decoders.language_model import load, reply_to

output, params = snakemake.output, snakemake.params

with (
    log_job(snakemake.log[0]),
    lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device,
):
    start = time.perf_counter()
    frames = [
        row
        for file in snakemake.input.rows
        for row in parquet.read_table(file).to_pylist()
    ]
    specs = [ModelSpec(**model) for model in params.model]
    generate = partial(reply_to, load(specs[0], device)) if specs else None
    rows, facts = build_study_captions(
        frames, params.settings, params.seed, generate, specs[0].name if specs else ""
    )
    parquet.write_rows(output.captions, rows, PROBE_CAPTIONS)
    facts |= {
        "instrument": "cv-probes",
        "model": params.model,
        "seed": params.seed,
        **describe_device(device),
    }
    seconds = round(time.perf_counter() - start, 3)
    write_record(
        output.run, rows_in=len(frames), rows_out=len(rows), seconds=seconds, **facts
    )
