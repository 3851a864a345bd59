"""Build all candidates of one instrument from the rows of its source."""

import time
from collections import Counter

from waltz.core.files.result_cache import get_cache_file
from waltz.core.jobs.devices import describe_device
from waltz.core.jobs.model_jobs import open_model_job
from waltz.core.jobs.records import show_progress, write_record
from waltz.core.records import write_records
from waltz.core.schema import CandidateRecord
from waltz.foils.candidates import (
    MakerOptions,
    build_candidate_records,
    build_candidates,
    read_source_rows,
    select_splits,
)
from waltz.model_registry import ModelSpec

output, params = snakemake.output, snakemake.params
instrument = snakemake.wildcards.instrument

with open_model_job(snakemake) as device:
    start = time.perf_counter()
    rows = select_splits(
        read_source_rows(snakemake.input.rows),
        params.settings.get("splits"),
        instrument,
    )
    refusals: Counter[str] = Counter()
    with show_progress(len(rows), "slot", instrument) as bar:
        options = MakerOptions()
        # Only instruments whose foils a masked language model proposes have a model, so it is
        # imported here.
        if params.model:
            from waltz.foils.masked_proposals import ProposalSettings, load_proposer

            options = load_proposer(
                ModelSpec(**params.model[0]),
                device,
                ProposalSettings(
                    **params.proposals, most_tokens=params.settings.get("most_tokens")
                ),
                get_cache_file(output.candidates),
                bar.update,
            )
        candidates = build_candidate_records(
            build_candidates(instrument, rows, options), instrument, refusals
        )
        count, rejected = write_records(output.candidates, candidates, CandidateRecord)
    write_record(
        output.run,
        rows_in=len(rows),
        rows_out=count,
        seconds=round(time.perf_counter() - start, 3),
        instrument=instrument,
        rejected=rejected,
        refused=dict(refusals.most_common()),
        settings=params.settings,
        model=next(iter(params.model), None),
        proposals=params.proposals,
        **describe_device(device),
    )
