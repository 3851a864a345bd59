"""Measure T-SHAP under choices that papers leave open, and compare the rankings."""

from waltz.core.files.group_files import list_dataset_files
from waltz.core.intervals import Resampling
from waltz.core.jobs.model_jobs import open_model_job
from waltz.core.records import write_records
from waltz.core.schema import MeasurementRecord
from waltz.measures.multiverse import MultiverseSettings, measure_multiverse
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder

params, inputs = snakemake.params, snakemake.input

with open_model_job(snakemake) as device:
    rows = measure_multiverse(
        [load_encoder(ModelSpec(**model), device) for model in params.encoders],
        list_dataset_files(params.datasets, inputs.rows, inputs.images),
        MultiverseSettings(**params.settings),
        params.seed,
        Resampling(**params.resampling),
    )
    write_records(snakemake.output.rows, rows, MeasurementRecord)
