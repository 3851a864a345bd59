"""Select and review the captions of CV-Probes, and build the four conditions."""

import time

from waltz.benchmark.cv_probes import (
    build_conditions,
    build_probe_captions,
    count_rejections,
    read_plain_captions,
)
from waltz.core.files.result_cache import get_cache_file
from waltz.core.jobs.devices import describe_device
from waltz.core.jobs.model_jobs import open_model_job
from waltz.core.jobs.records import show_progress, write_record
from waltz.core.records import read_records, write_records
from waltz.core.schema import ProbeCaptionRecord, ProbeRecord
from waltz.filters.pipeline import load_filter_models, score_grammaticality

inputs, output, params = snakemake.input, snakemake.output, snakemake.params

with open_model_job(snakemake) as device:
    start = time.perf_counter()
    contextual = list(read_records(inputs.contextual, ProbeCaptionRecord))
    written = read_plain_captions(inputs, contextual)
    texts = {caption.caption for caption in contextual if caption.caption}
    cache = get_cache_file(output.probes)
    with show_progress(2 * len(texts), "text", "cv-probes") as bar:
        scores = score_grammaticality(
            texts, load_filter_models(params.models, device), cache, bar.update
        )
    captions, checker = build_probe_captions(
        contextual, written, scores, inputs.get("checks"), params.scenes
    )
    items = build_conditions(captions)
    write_records(output.captions, captions, ProbeCaptionRecord)
    write_records(output.probes, items, ProbeRecord)
    write_record(
        output.run,
        rows_in=len(captions),
        rows_out=len(items),
        seconds=round(time.perf_counter() - start, 3),
        instrument="cv-probes",
        captions=count_rejections(captions),
        checker=checker,
        models=params.models,
        **describe_device(device),
    )
