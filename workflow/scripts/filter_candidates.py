"""Grammaticality, entailment and ranking of one instrument's candidates."""

import time

from waltz.core.devices import describe_device, lease_device
from waltz.core.files import parquet
from waltz.core.files.result_cache import get_cache_file
from waltz.core.job_records import log_job, show_progress, write_record
from waltz.core.schema import CANDIDATES, FILTERED
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
    candidates = parquet.read_rows(snakemake.input.candidates, CANDIDATES)
    models = load_filter_models(params.models, device)
    cache = get_cache_file(output.filtered)
    with show_progress(len(candidates), "text", instrument) as bar:
        rows, close = filter_candidates(
            candidates, models, params.filters, params.grammaticality, cache, bar.update
        )
    parquet.write_rows(output.filtered, rows, FILTERED)
    facts = {name: params[name] for name in ("filters", "grammaticality", "models")}
    facts |= {
        "instrument": instrument,
        "close_to_a_threshold": close,
        **describe_device(device),
    }
    kept, seconds = (
        sum(row["kept"] for row in rows),
        round(time.perf_counter() - start, 3),
    )
    write_record(
        output.run, rows_in=len(candidates), rows_out=kept, seconds=seconds, **facts
    )
