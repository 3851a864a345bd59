"""Select the items of one instrument among its candidates."""

import logging

from waltz.benchmark.balance import BalanceLimits
from waltz.benchmark.items import select_candidates
from waltz.core.jobs.records import log_job
from waltz.core.records import read_records, write_records
from waltz.core.schema import FilteredRecord

with log_job(snakemake.log[0]):
    candidates = list(read_records(snakemake.input.filtered, FilteredRecord))
    limits = BalanceLimits(**snakemake.params.settings)
    selected = select_candidates(candidates, limits, snakemake.params.seed)
    write_records(snakemake.output.balanced, selected, FilteredRecord)
    logging.info(
        "%d of %d candidates are items",
        sum(candidate.kept for candidate in selected),
        len(selected),
    )
