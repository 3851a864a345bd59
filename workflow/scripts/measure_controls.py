"""Measure the null controls: T-SHAP and CC-SHAP on data without an effect to find."""

from functools import partial

from waltz.core.files.group_files import list_dataset_files
from waltz.core.intervals import Resampling
from waltz.core.jobs.model_jobs import open_model_job
from waltz.core.records import write_records
from waltz.core.schema import MeasurementRecord
from waltz.measures.controls import (
    ControlSettings,
    measure_decoder_controls,
    measure_encoder_controls,
)
from waltz.model_registry import ModelSpec
from waltz.models.decoders import load_decoder
from waltz.models.encoders import load_encoder

params, inputs = snakemake.params, snakemake.input

with open_model_job(snakemake) as device:
    datasets = list_dataset_files(params.datasets, inputs.rows, inputs.images)
    resampling = Resampling(**params.resampling)
    settings = ControlSettings(**params.settings)
    # Models are passed as functions that load them, since each random network needs untouched
    # weights.
    encoders = {
        entry["name"]: partial(load_encoder, ModelSpec(**entry), device)
        for entry in params.encoders
    }
    rows = measure_encoder_controls(
        encoders, datasets, settings, params.seed, resampling
    )
    decoders = {
        entry["name"]: partial(load_decoder, ModelSpec(**entry), device)
        for entry in params.decoders
    }
    rows += measure_decoder_controls(
        decoders, datasets, settings, params.seed, resampling
    )
    write_records(snakemake.output.rows, rows, MeasurementRecord)
