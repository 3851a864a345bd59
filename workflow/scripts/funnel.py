"""Count the candidates of each instrument after each step."""

from waltz.benchmark.statistics import count_funnel
from waltz.core.files import parquet
from waltz.core.job_records import log_job
from waltz.core.schema import BENCHMARK, FILTERED, FUNNEL

with log_job(snakemake.log[0]):
    rows = []
    for instrument, candidates_file, items_file in zip(
        snakemake.params.instruments,
        snakemake.input.balanced,
        snakemake.input.pairs,
        strict=True,
    ):
        candidates = parquet.read_rows(candidates_file, FILTERED)
        rows += count_funnel(
            instrument, candidates, parquet.read_rows(items_file, BENCHMARK)
        )
    parquet.write_rows(snakemake.output.funnel, rows, FUNNEL)
