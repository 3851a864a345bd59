"""Compute the shares of each instrument's candidates that the scenes' oracle confirms."""

from functools import partial

from waltz.benchmark.oracle import build_candidate_groups, compute_oracle_shares
from waltz.core.intervals import Resampling
from waltz.core.jobs.records import log_job, show_progress
from waltz.core.records import read_records, write_records
from waltz.core.schema import FilteredRecord, OracleRecord
from waltz.scenes.sampling import draw_scenes
from waltz.scenes.writers.files import find_scene

params = snakemake.params

with (
    log_job(snakemake.log[0]),
    show_progress(len(params.instruments), "instrument", "oracle") as bar,
):
    graphs = draw_scenes(**params.scenes)
    records = []
    for instrument, candidates_file in zip(
        params.instruments, snakemake.input.balanced, strict=True
    ):
        records += compute_oracle_shares(
            instrument,
            list(read_records(candidates_file, FilteredRecord)),
            partial(find_scene, graphs=graphs),
            build_candidate_groups(params.grammaticality),
            Resampling(**params.resampling),
        )
        bar.update(1)
    write_records(snakemake.output.shares, records, OracleRecord)
