"""Measure bias and error of T-SHAP from few evaluations, against exact values."""

from functools import partial

from waltz.core.files.group_files import list_dataset_files
from waltz.core.intervals import Resampling
from waltz.core.jobs.model_jobs import open_model_job
from waltz.core.records import write_records
from waltz.core.schema import MeasurementRecord
from waltz.measures.bias import BiasSettings, measure_bias
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder

params, inputs = snakemake.params, snakemake.input

with open_model_job(snakemake) as device:
    # Encoders are passed as functions that load them, since each random network needs untouched
    # weights.
    encoders = {
        entry["name"]: partial(load_encoder, ModelSpec(**entry), device)
        for entry in params.encoders
    }
    rows = measure_bias(
        encoders,
        list_dataset_files(params.datasets, inputs.rows, inputs.images),
        BiasSettings(**params.settings),
        params.seed,
        Resampling(**params.resampling),
    )
    write_records(snakemake.output.rows, rows, MeasurementRecord)
