"""Compute how often captions of CV-Probes are true of their images, by the scenes' oracle."""

from functools import partial

from waltz.benchmark.oracle import compute_condition_shares
from waltz.core.files import parquet
from waltz.core.intervals import Resampling
from waltz.core.job_records import log_job
from waltz.core.schema import CONDITIONS, ORACLE
from waltz.scenes.sampling import draw_scenes
from waltz.scenes.writers.files import find_scene

params = snakemake.params

with log_job(snakemake.log[0]):
    graphs = draw_scenes(**params.scenes)
    rows = compute_condition_shares(
        parquet.read_rows(snakemake.input.probes, CONDITIONS),
        partial(find_scene, graphs=graphs),
        Resampling(**params.resampling),
    )
    parquet.write_rows(snakemake.output.shares, rows, ORACLE)
