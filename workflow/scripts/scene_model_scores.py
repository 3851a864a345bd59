"""Measure the committed scene models on held-out scenes of the study's seed."""

from pathlib import Path

from waltz.core.devices import lease_device
from waltz.core.job_records import log_job, show_progress
from waltz.core.records import write_records
from waltz.core.schema import SceneScoreRecord
from waltz.scenes.model_scores import measure_models

params = snakemake.params

with (
    log_job(snakemake.log[0]),
    lease_device(0, snakemake.threads),
    show_progress(len(params.models), "model", "scores") as bar,
):
    folders = {
        name: Path(weights).parent
        for name, weights in zip(params.models, snakemake.input.weights, strict=True)
    }
    rows: list[SceneScoreRecord] = []
    for model_rows in measure_models(folders, params.seed, params.held_out):
        rows += model_rows
        bar.update(1)
    write_records(snakemake.output.scores, rows, SceneScoreRecord)
