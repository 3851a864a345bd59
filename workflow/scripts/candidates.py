"""All candidates of one instrument from the rows of its source."""

import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from waltz.core.devices import lease_device
from waltz.core.files import parquet
from waltz.core.job_records import log_job, show_progress, write_record
from waltz.core.schema import CANDIDATES
from waltz.foils.candidates import MakerOptions, build_candidate_rows, build_candidates, select_splits
from waltz.model_registry import ModelSpec

params = snakemake.params
instrument = snakemake.wildcards.instrument
settings = params.settings


with log_job(snakemake.log[0]), lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device:
    start = time.perf_counter()
    rows = pq.read_table(snakemake.input.rows).to_pylist()
    if "splits" in settings:
        rows = select_splits(rows, settings["splits"], f"instruments.{instrument}.splits")
    cache = Path(snakemake.output.candidates).parent / ".store" / instrument
    refusals: Counter[str] = Counter()
    with show_progress(len(rows), "slot", instrument) as bar:
        options = MakerOptions()
        if params.model:
            from waltz.foils.masked_proposals import load_proposer

            limits = {**params.proposals, "most_tokens": settings.get("most_tokens")}
            options = load_proposer(
                ModelSpec(**params.model[0]), device, cache_folder=cache, on_progress=bar.update, **limits
            )
        outcomes = build_candidates(instrument, rows, options)
        candidates = build_candidate_rows(outcomes, instrument, refusals)
        count, rejected = parquet.write_rows(snakemake.output.candidates, candidates, CANDIDATES)
    write_record(
        snakemake.output.run,
        rows_in=len(rows),
        rows_out=count,
        seconds=round(time.perf_counter() - start, 3),
        instrument=instrument,
        rejected=rejected,
        refused=dict(sorted(refusals.items(), key=lambda entry: (-entry[1], entry[0]))),
        settings=settings,
        model=params.model[0] if params.model else None,
        proposals=params.proposals,
        device=device.name,
        device_choice=device.reason,
    )
