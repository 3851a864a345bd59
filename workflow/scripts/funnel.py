"""How many candidates of each instrument each step leaves."""

from waltz.benchmark.funnel import count_funnel
from waltz.core.files import parquet
from waltz.core.job_log import log_job
from waltz.core.schema import BENCHMARK, FILTERED, FUNNEL

with log_job(snakemake.log[0]):
    rows = []
    for instrument, chosen, pairs in zip(
        snakemake.params.instruments, snakemake.input.chosen, snakemake.input.pairs, strict=True
    ):
        candidates = parquet.read(chosen, FILTERED).to_pylist()
        rows += count_funnel(instrument, candidates, parquet.read(pairs, BENCHMARK).to_pylist())
    parquet.write(snakemake.output.funnel, parquet.build_table(rows, FUNNEL), FUNNEL)
