"""T-SHAP and CC-SHAP where there is nothing to find."""

from functools import partial

from waltz.core.devices import lease_device
from waltz.core.files import parquet
from waltz.core.files.group_files import list_dataset_files
from waltz.core.intervals import Resampling
from waltz.core.job_records import log_job
from waltz.core.schema import MEASURES
from waltz.measures.controls import measure_decoder_controls, measure_encoder_controls
from waltz.model_registry import ModelSpec
from waltz.models.decoders import load_decoder
from waltz.models.encoders import load_encoder

params, given = snakemake.params, snakemake.input

with log_job(snakemake.log[0]), lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device:
    datasets = list_dataset_files(params.datasets, given.rows, given.images)
    common = {"seed": params.seed, "how": Resampling(params.resamples, params.confidence, params.seed)}
    encoders = {entry["name"]: partial(load_encoder, ModelSpec(**entry), device) for entry in params.encoders}
    own = {key: params.settings[key] for key in ("sample", "evaluations", "repeats", "random_sample")}
    rows = measure_encoder_controls(encoders, datasets, **own, **common)
    decoders = [load_decoder(ModelSpec(**entry), device) for entry in params.decoders]
    own = {"sample": params.settings["decoder_sample"]} | {
        key: params.settings[key] for key in ("permutations", "tokens")
    }
    rows += measure_decoder_controls(decoders, datasets, **own, **common)
    parquet.write_rows(snakemake.output.rows, rows, MEASURES)
