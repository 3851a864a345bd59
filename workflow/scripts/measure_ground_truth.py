"""Measure T-SHAP of rulers and of built games, whose share of text is known."""

from waltz.core.files.group_files import list_dataset_files
from waltz.core.intervals import Resampling
from waltz.core.jobs.model_jobs import open_model_job
from waltz.core.records import write_records
from waltz.core.schema import MeasurementRecord
from waltz.measures.ground_truth import (
    GroundTruthSettings,
    measure_games,
    measure_rulers,
)
from waltz.model_registry import ModelSpec
from waltz.models.encoders.kinds.ruler import load_ruler

params, inputs = snakemake.params, snakemake.input

with open_model_job(snakemake) as device:
    rows = measure_games([(4, 4), (4, 8), (8, 4), (3, 8), (5, 7)])
    rows += measure_rulers(
        [load_ruler(ModelSpec(**model), device) for model in params.encoders],
        list_dataset_files(params.datasets, inputs.rows, inputs.images),
        GroundTruthSettings(**params.settings),
        params.seed,
        Resampling(**params.resampling),
    )
    write_records(snakemake.output.rows, rows, MeasurementRecord)
