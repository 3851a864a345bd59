"""Grammaticality, entailment and ranking of one instrument's candidates."""

import time
from dataclasses import asdict

from waltz.core.devices import describe_device, lease_device
from waltz.core.files.result_cache import get_cache_file
from waltz.core.job_records import log_job, show_progress, write_record
from waltz.core.records import read_records, write_records
from waltz.core.schema import CandidateRecord, FilteredRecord
from waltz.filters.pipeline import filter_candidates, load_filter_models

output, params, instrument = (
    snakemake.output,
    snakemake.params,
    snakemake.wildcards.instrument,
)

with (
    log_job(snakemake.log[0]),
    lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device,
):
    start = time.perf_counter()
    candidates = list(read_records(snakemake.input.candidates, CandidateRecord))
    models = load_filter_models(params.models, device)
    cache = get_cache_file(output.filtered)
    with show_progress(len(candidates), "text", instrument) as bar:
        records, close = filter_candidates(
            candidates, models, params.filters, params.grammaticality, cache, bar.update
        )
    write_records(output.filtered, records, FilteredRecord)
    facts = {name: params[name] for name in ("filters", "grammaticality", "models")}
    facts |= {
        "instrument": instrument,
        "close_to_a_threshold": list(map(asdict, close)),
        **describe_device(device),
    }
    write_record(
        output.run,
        rows_in=len(candidates),
        rows_out=sum(record.kept for record in records),
        seconds=round(time.perf_counter() - start, 3),
        **facts,
    )
