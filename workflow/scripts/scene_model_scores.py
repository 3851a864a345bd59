"""Measure the committed scene models on held-out scenes of the study's seed."""

from dataclasses import asdict
from pathlib import Path

from waltz.core.devices import lease_device
from waltz.core.files import parquet
from waltz.core.job_records import log_job, show_progress
from waltz.core.schema import SCENE_SCORES
from waltz.scenes.training.recipes import is_sufficient, measure_model

params = snakemake.params

with (
    log_job(snakemake.log[0]),
    lease_device(0, snakemake.threads),
    show_progress(len(params.models), "model", "scores") as bar,
):
    rows = []
    for name, weights in zip(params.models, snakemake.input.weights, strict=True):
        for metric, found in measure_model(name, Path(weights).parent, params.seed, params.held_out).items():
            enough = is_sufficient(name, metric, found.value)
            rows.append({"model": name, "metric": metric, **asdict(found), "enough": enough})
        bar.update(1)
    parquet.write_rows(snakemake.output.scores, rows, SCENE_SCORES)
