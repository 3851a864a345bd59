"""Compute the shares of each instrument's candidates that the scenes' oracle confirms."""

from functools import partial

from waltz.benchmark.oracle import build_candidate_groups, compute_oracle_shares
from waltz.core.files import parquet
from waltz.core.intervals import Resampling
from waltz.core.job_records import log_job, show_progress
from waltz.core.schema import FILTERED, ORACLE
from waltz.scenes.sampling import draw_scenes
from waltz.scenes.writers.files import find_scene

params = snakemake.params

with (
    log_job(snakemake.log[0]),
    show_progress(len(params.instruments), "instrument", "oracle") as bar,
):
    graphs = draw_scenes(**params.scenes)
    rows = []
    for instrument, candidates_file in zip(
        params.instruments, snakemake.input.balanced, strict=True
    ):
        rows += compute_oracle_shares(
            instrument,
            parquet.read_rows(candidates_file, FILTERED),
            partial(find_scene, graphs=graphs),
            build_candidate_groups(params.grammaticality),
            Resampling(**params.resampling),
        )
        bar.update(1)
    parquet.write_rows(snakemake.output.shares, rows, ORACLE)
