"""Measure the agreement between two attributions of the same output, which is the ceiling of
CC-SHAP.
"""

from waltz.core.files.group_files import list_dataset_files
from waltz.core.intervals import Resampling
from waltz.core.jobs.model_jobs import open_model_job
from waltz.core.records import write_records
from waltz.core.schema import MeasurementRecord
from waltz.measures.ceiling import CeilingSettings, measure_ceiling
from waltz.model_registry import ModelSpec
from waltz.models.decoders import load_decoder

params, inputs = snakemake.params, snakemake.input

with open_model_job(snakemake) as device:
    resampling = Resampling(**params.resampling)
    datasets = list_dataset_files(params.datasets, inputs.rows, inputs.images)
    settings = CeilingSettings(**params.settings)
    rows = []
    for model in params.decoders:
        decoder = load_decoder(ModelSpec(**model), device)
        rows += measure_ceiling(decoder, datasets, settings, params.seed, resampling)
    write_records(snakemake.output.rows, rows, MeasurementRecord)
