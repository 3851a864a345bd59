"""Select the items of one instrument among its candidates."""

import logging

from waltz.benchmark.items import select_candidates
from waltz.core.files import parquet
from waltz.core.job_records import log_job
from waltz.core.schema import FILTERED

with log_job(snakemake.log[0]):
    rows = parquet.read(snakemake.input.filtered, FILTERED).to_pylist()
    selected = select_candidates(rows, snakemake.params.settings, snakemake.params.seed)
    parquet.write(snakemake.output.balanced, parquet.build_table(selected, FILTERED), FILTERED)
    logging.info("%d of %d candidates are items", sum(row["kept"] for row in selected), len(selected))
