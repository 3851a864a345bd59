"""MM-SHAP of the answers of one decoder on one shard of a group of data sets."""

from waltz.attribution.decoder_rows import attribute_answers
from waltz.attribution.stored_rows import StepSettings
from waltz.core.files.group_files import Shard, list_dataset_files, write_results
from waltz.core.files.result_cache import get_cache_file
from waltz.core.jobs.devices import describe_device
from waltz.core.jobs.model_jobs import open_model_job
from waltz.core.schema import ATTRIBUTION
from waltz.model_registry import ModelSpec
from waltz.models.decoders import load_decoder

params, inputs, output = snakemake.params, snakemake.input, snakemake.output
settings = StepSettings(**params.settings)
shard = Shard(int(snakemake.wildcards.shard), params.shards)

with open_model_job(snakemake) as device:
    decoder = load_decoder(ModelSpec(**params.model), device)
    results = attribute_answers(
        decoder,
        list_dataset_files(params.datasets, inputs.rows, inputs.images),
        settings,
        get_cache_file(output.rows),
        shard.items,
    )
    facts = {
        "model": params.model,
        "settings": {**settings.estimation, "value": settings.value},
        "seed": settings.seed,
        "shard": str(shard),
        **decoder.describe_forward_pass(),
        **describe_device(device),
    }
    write_results({"rows": (output.rows, ATTRIBUTION)}, output.run, results, **facts)
