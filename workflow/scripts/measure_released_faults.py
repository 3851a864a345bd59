"""Measure the effect of each deviation of the released code from the definitions."""

from waltz.core.files.group_files import list_dataset_files
from waltz.core.intervals import Resampling
from waltz.core.jobs.model_jobs import open_model_job
from waltz.core.records import write_records
from waltz.core.schema import MeasurementRecord
from waltz.measures.released_faults import FaultSettings, measure_released_faults
from waltz.model_registry import ModelSpec
from waltz.models.decoders import load_decoder
from waltz.models.encoders import load_encoder

params, inputs = snakemake.params, snakemake.input

with open_model_job(snakemake) as device:
    rows = measure_released_faults(
        [load_encoder(ModelSpec(**model), device) for model in params.encoders],
        [load_decoder(ModelSpec(**model), device) for model in params.decoders],
        list_dataset_files(params.datasets, inputs.rows, inputs.images),
        FaultSettings(**params.settings),
        params.seed,
        Resampling(**params.resampling),
    )
    write_records(snakemake.output.rows, rows, MeasurementRecord)
