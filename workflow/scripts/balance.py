"""Select the items of one instrument among its candidates."""

import logging

from waltz.benchmark.items import select_candidates
from waltz.core.files import parquet
from waltz.core.job_records import log_job
from waltz.core.schema import FILTERED

with log_job(snakemake.log[0]):
    rows = parquet.read_rows(snakemake.input.filtered, FILTERED)
    selected = select_candidates(rows, snakemake.params.settings, snakemake.params.seed)
    parquet.write_rows(snakemake.output.balanced, selected, FILTERED)
    logging.info(
        "%d of %d candidates are items",
        sum(row["kept"] for row in selected),
        len(selected),
    )
