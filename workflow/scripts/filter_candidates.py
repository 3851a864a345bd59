"""Grammaticality, entailment and ranking of one instrument's candidates."""

import time
from dataclasses import asdict

from waltz.core.files.result_cache import get_cache_file
from waltz.core.jobs.devices import describe_device
from waltz.core.jobs.model_jobs import open_model_job
from waltz.core.jobs.records import show_progress, write_record
from waltz.core.records import read_records, write_records
from waltz.core.schema import CandidateRecord, FilteredRecord
from waltz.filters.pipeline import filter_candidates, load_filter_models

output, params = snakemake.output, snakemake.params
instrument = snakemake.wildcards.instrument

with open_model_job(snakemake) as device:
    start = time.perf_counter()
    candidates = list(read_records(snakemake.input.candidates, CandidateRecord))
    models = load_filter_models(params.models, device)
    cache = get_cache_file(output.filtered)
    with show_progress(len(candidates), "text", instrument) as bar:
        records, close = filter_candidates(
            candidates, models, params.filters, params.grammaticality, cache, bar.update
        )
    write_records(output.filtered, records, FilteredRecord)
    write_record(
        output.run,
        rows_in=len(candidates),
        rows_out=sum(record.kept for record in records),
        seconds=round(time.perf_counter() - start, 3),
        instrument=instrument,
        filters=params.filters,
        grammaticality=params.grammaticality,
        models=params.models,
        close_to_a_threshold=list(map(asdict, close)),
        **describe_device(device),
    )
