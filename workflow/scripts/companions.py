"""EMAP and perceptual score of one encoder on every data set of pairs in a group."""

from waltz.attribution.companions import CompanionSettings, compute_encoder_companions
from waltz.core.files.group_files import list_dataset_files
from waltz.core.intervals import Resampling
from waltz.core.jobs.model_jobs import open_model_job
from waltz.core.records import write_records
from waltz.core.schema import MetricRecord
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder

params, inputs = snakemake.params, snakemake.input

with open_model_job(snakemake) as device:
    records = compute_encoder_companions(
        load_encoder(ModelSpec(**params.model), device),
        list_dataset_files(params.datasets, inputs.rows, inputs.images),
        CompanionSettings(**params.settings),
        Resampling(**params.resampling),
    )
    write_records(snakemake.output.rows, records, MetricRecord)
