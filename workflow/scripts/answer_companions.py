"""Perceptual score of one encoder's answers, and their accuracy without one modality, on a group's
questions.
"""

from waltz.attribution.answer_companions import (
    AnswerCompanionSettings,
    compute_answer_companions,
)
from waltz.core.files.group_files import list_dataset_files
from waltz.core.files.result_cache import get_cache_file
from waltz.core.intervals import Resampling
from waltz.core.jobs.model_jobs import open_model_job
from waltz.core.records import write_records
from waltz.core.schema import MetricRecord
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder

params, inputs, output = snakemake.params, snakemake.input, snakemake.output

with open_model_job(snakemake) as device:
    records = compute_answer_companions(
        load_encoder(ModelSpec(**params.model), device),
        list_dataset_files(params.datasets, inputs.rows, inputs.images),
        get_cache_file(output.rows),
        AnswerCompanionSettings(**params.settings),
        Resampling(**params.resampling),
    )
    write_records(output.rows, records, MetricRecord)
