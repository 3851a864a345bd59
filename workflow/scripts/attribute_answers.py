"""MM-SHAP of the answers of one decoder on one shard of a group of data sets."""

from waltz.attribution.decoder_rows import attribute_answers
from waltz.attribution.stored_rows import StepSettings
from waltz.core.devices import describe_device, lease_device
from waltz.core.files.group_files import list_dataset_files, write_results
from waltz.core.files.result_cache import get_cache_file
from waltz.core.job_records import log_job
from waltz.core.schema import ATTRIBUTION
from waltz.model_registry import ModelSpec
from waltz.models.decoders import load_decoder

params, inputs, output = snakemake.params, snakemake.input, snakemake.output
settings = StepSettings(**params.settings)
shard = int(snakemake.wildcards.shard)

with (
    log_job(snakemake.log[0]),
    lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device,
):
    decoder = load_decoder(ModelSpec(**params.model), device)
    results = attribute_answers(
        decoder,
        list_dataset_files(params.datasets, inputs.rows, inputs.images),
        settings,
        get_cache_file(output.rows),
        slice(shard, None, params.shards),
    )
    estimation = {**settings.estimation, "value": settings.value}
    facts = {"model": params.model, "settings": estimation, "seed": settings.seed}
    facts |= {
        "shard": f"{shard + 1} of {params.shards}",
        **decoder.describe_forward_pass(),
    }
    facts |= describe_device(device)
    write_results({"rows": (output.rows, ATTRIBUTION)}, output.run, results, **facts)
