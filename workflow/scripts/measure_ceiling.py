"""Agreement of attributions of one output that are drawn twice, which bounds CC-SHAP."""

from waltz.core.devices import lease_device
from waltz.core.files import parquet
from waltz.core.files.group_files import list_dataset_files
from waltz.core.intervals import Resampling
from waltz.core.job_records import log_job
from waltz.core.schema import MEASURES
from waltz.measures.ceiling import measure_ceiling
from waltz.model_registry import ModelSpec
from waltz.models.decoders import load_decoder

params, given = snakemake.params, snakemake.input

with log_job(snakemake.log[0]), lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device:
    how = Resampling(params.resamples, params.confidence, params.seed)
    datasets = list_dataset_files(params.datasets, given.rows, given.images)
    rows = [
        row
        for model in params.models
        for row in measure_ceiling(
            load_decoder(ModelSpec(**model), device), datasets, seed=params.seed, how=how, **params.settings
        )
    ]
    parquet.write_rows(snakemake.output.rows, rows, MEASURES)
