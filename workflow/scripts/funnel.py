"""Count the candidates of each instrument after each step."""

from waltz.benchmark.statistics import count_funnel
from waltz.core.files import parquet
from waltz.core.job_records import log_job
from waltz.core.schema import BENCHMARK, FILTERED, FUNNEL

with log_job(snakemake.log[0]):
    rows = []
    for instrument, candidates_file, items_file in zip(
        snakemake.params.instruments, snakemake.input.balanced, snakemake.input.pairs, strict=True
    ):
        candidates = parquet.read(candidates_file, FILTERED).to_pylist()
        rows += count_funnel(instrument, candidates, parquet.read(items_file, BENCHMARK).to_pylist())
    parquet.write(snakemake.output.funnel, parquet.build_table(rows, FUNNEL), FUNNEL)
