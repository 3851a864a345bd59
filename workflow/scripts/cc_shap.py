"""CC-SHAP of one shard of a group of data sets with one decoder, and its attributions."""

from pathlib import Path

from waltz.consistency.cc_shap.rows import CCShapRun, explain_datasets
from waltz.core.devices import describe_device, lease_device
from waltz.core.files.group_files import list_dataset_files, write_results
from waltz.core.files.result_cache import get_cache_file
from waltz.core.job_records import log_job
from waltz.core.schema import ATTRIBUTION, CC_SHAP
from waltz.model_registry import ModelSpec
from waltz.models.decoders import load_decoder

params, inputs, output = snakemake.params, snakemake.input, snakemake.output
shard = int(snakemake.wildcards.shard)

with (
    log_job(snakemake.log[0]),
    lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device,
):
    decoder = load_decoder(ModelSpec(**params.model), device)
    datasets = list_dataset_files(params.datasets, inputs.rows, inputs.get("images"))
    cache = get_cache_file(output.rows, Path(output.rows).parents[2])
    run = CCShapRun(
        **params.settings, cache=cache, shard=slice(shard, None, params.shards)
    )
    results = explain_datasets(decoder, datasets, run)
    explained = {"cc_shap": run.cc_shap, "tokens": run.tokens}
    facts = {
        "model": params.model,
        "settings": explained,
        "seeds": run.seeds,
        **describe_device(device),
    }
    facts |= {
        "shard": f"{shard + 1} of {params.shards}",
        **decoder.describe_forward_pass(),
    }
    outputs = {
        "rows": (output.rows, CC_SHAP),
        "contributions": (output.contributions, ATTRIBUTION),
    }
    write_results(outputs, output.run, results, **facts)
