"""Deviations of the released code from the definitions, switched on one by one."""

from waltz.core.devices import lease_device
from waltz.core.files import parquet
from waltz.core.files.group_files import list_dataset_files
from waltz.core.intervals import Resampling
from waltz.core.job_records import log_job
from waltz.core.schema import MEASURES
from waltz.measures.released_faults import measure_released_faults
from waltz.model_registry import ModelSpec
from waltz.models.decoders import load_decoder
from waltz.models.encoders import load_encoder

params, given = snakemake.params, snakemake.input

with log_job(snakemake.log[0]), lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device:
    rows = measure_released_faults(
        [load_encoder(ModelSpec(**model), device) for model in params.encoders],
        [load_decoder(ModelSpec(**model), device) for model in params.decoders],
        list_dataset_files(params.datasets, given.rows, given.images),
        how=Resampling(params.resamples, params.confidence, params.seed),
        seed=params.seed,
        **params.settings,
    )
    parquet.write_rows(snakemake.output.rows, rows, MEASURES)
