"""Measure the reliability of T-SHAP and CC-SHAP over seeds, masks, grids and prompts."""

from waltz.core.files.group_files import list_dataset_files
from waltz.core.intervals import Resampling
from waltz.core.jobs.model_jobs import open_model_job
from waltz.core.records import write_records
from waltz.core.schema import MeasurementRecord
from waltz.measures.reliability import ReliabilitySettings, measure_reliability
from waltz.model_registry import ModelSpec
from waltz.models.decoders import load_decoder
from waltz.models.encoders import load_encoder

params, inputs = snakemake.params, snakemake.input

with open_model_job(snakemake) as device:
    rows = measure_reliability(
        [load_encoder(ModelSpec(**entry), device) for entry in params.encoders],
        [load_decoder(ModelSpec(**entry), device) for entry in params.decoders],
        list_dataset_files(params.datasets, inputs.rows, inputs.images),
        ReliabilitySettings(**params.settings),
        params.seed,
        Resampling(**params.resampling),
    )
    write_records(snakemake.output.rows, rows, MeasurementRecord)
