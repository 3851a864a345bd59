"""Measure the committed scene models on held-out scenes of the study's seed."""

from pathlib import Path

from waltz.core.jobs.model_jobs import open_model_job
from waltz.core.jobs.records import show_progress
from waltz.core.records import write_records
from waltz.core.schema import SceneScoreRecord
from waltz.scenes.model_scores import measure_models

params = snakemake.params

with (
    open_model_job(snakemake),
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
