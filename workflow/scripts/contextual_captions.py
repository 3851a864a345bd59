"""Build the contextual captions of CV-Probes, one for each annotation of the chosen images."""

import time
from functools import partial

from waltz.core.devices import describe_device, lease_device
from waltz.core.job_records import log_job, write_record
from waltz.core.records import read_records, write_records
from waltz.core.schema import ProbeCaptionRecord
from waltz.foils.cv_probes import build_study_captions
from waltz.model_registry import ModelSpec
from waltz.models.decoders.language_model import load, reply_to
from waltz.sources.records import FrameRecord

output, params = snakemake.output, snakemake.params

with (
    log_job(snakemake.log[0]),
    lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device,
):
    start = time.perf_counter()
    frames: list[FrameRecord] = []
    for file in snakemake.input.rows:
        frames += read_records(file, FrameRecord)
    specs = [ModelSpec(**model) for model in params.model]
    generate = partial(reply_to, load(specs[0], device)) if specs else None
    model = specs[0].name if specs else ""
    captions, caption_facts = build_study_captions(
        frames, params.seed, generate, model, **params.settings
    )
    write_records(output.captions, captions, ProbeCaptionRecord)
    facts = {
        **vars(caption_facts),
        "instrument": "cv-probes",
        "model": params.model,
        "seed": params.seed,
        **describe_device(device),
    }
    seconds = round(time.perf_counter() - start, 3)
    write_record(
        output.run,
        rows_in=len(frames),
        rows_out=len(captions),
        seconds=seconds,
        **facts,
    )
