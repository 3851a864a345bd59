"""Build the contextual captions of CV-Probes, one for each annotation of the chosen images."""

import time
from functools import partial

from waltz.core.jobs.devices import describe_device
from waltz.core.jobs.model_jobs import open_model_job
from waltz.core.jobs.records import write_record
from waltz.core.records import read_records, write_records
from waltz.core.schema import ProbeCaptionRecord
from waltz.foils.cv_probes import build_study_captions
from waltz.model_registry import ModelSpec
from waltz.models.decoders.language_model import load_language_model, reply_to
from waltz.sources.records import FrameRecord

output, params = snakemake.output, snakemake.params

with open_model_job(snakemake) as device:
    start = time.perf_counter()
    frames: list[FrameRecord] = []
    for file in snakemake.input.rows:
        frames += read_records(file, FrameRecord)
    specs = [ModelSpec(**model) for model in params.model]
    generate = (
        partial(reply_to, load_language_model(specs[0], device)) if specs else None
    )
    model = specs[0].name if specs else ""
    captions, caption_facts = build_study_captions(
        frames, params.seed, generate, model, **params.settings
    )
    write_records(output.captions, captions, ProbeCaptionRecord)
    write_record(
        output.run,
        rows_in=len(frames),
        rows_out=len(captions),
        seconds=round(time.perf_counter() - start, 3),
        instrument="cv-probes",
        model=params.model,
        seed=params.seed,
        **vars(caption_facts),
        **describe_device(device),
    )
