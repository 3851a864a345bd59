"""MM-SHAP of one shard of a group of data sets with one encoder: of its scores, or of its answers."""

from waltz.attribution.encoder_rows import attribute_datasets, attribute_questions
from waltz.attribution.stored_rows import StepSettings
from waltz.core.files.group_files import Shard, list_dataset_files, write_results
from waltz.core.files.result_cache import get_cache_file
from waltz.core.jobs.devices import describe_device
from waltz.core.jobs.model_jobs import open_model_job
from waltz.core.schema import ATTRIBUTION
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder

ATTRIBUTE = {"scores": attribute_datasets, "answers": attribute_questions}

params, inputs, output = snakemake.params, snakemake.input, snakemake.output
settings = StepSettings(**params.settings)
shard = Shard(int(snakemake.wildcards.shard), params.shards)

with open_model_job(snakemake) as device:
    attribute = ATTRIBUTE[params.explained]
    results = attribute(
        load_encoder(ModelSpec(**params.model), device),
        list_dataset_files(params.datasets, inputs.rows, inputs.images),
        settings,
        get_cache_file(output.rows),
        shard.items,
    )
    facts = {
        "model": params.model,
        "settings": settings.estimation,
        "seed": settings.seed,
        "shard": str(shard),
        **describe_device(device),
    }
    write_results({"rows": (output.rows, ATTRIBUTION)}, output.run, results, **facts)
