"""Compute how often captions of CV-Probes are true of their images, by the scenes' oracle."""

from functools import partial

from waltz.benchmark.oracle import compute_condition_shares
from waltz.core.intervals import Resampling
from waltz.core.jobs.records import log_job
from waltz.core.records import read_records, write_records
from waltz.core.schema import OracleRecord, ProbeRecord
from waltz.scenes.sampling import draw_scenes
from waltz.scenes.writers.files import find_scene

params = snakemake.params

with log_job(snakemake.log[0]):
    graphs = draw_scenes(**params.scenes)
    records = compute_condition_shares(
        list(read_records(snakemake.input.probes, ProbeRecord)),
        partial(find_scene, graphs=graphs),
        Resampling(**params.resampling),
    )
    write_records(snakemake.output.shares, records, OracleRecord)
