"""CC-SHAP of one shard of a group of data sets with one decoder, and its attributions; with the
results of the tests, the attributions before and after counterfactual edits.
"""

from pathlib import Path

from waltz.consistency.cc_shap.rows import (
    CCShapRun,
    CCShapSettings,
    explain_datasets,
    explain_edits,
)
from waltz.core.files.group_files import (
    Shard,
    list_dataset_files,
    read_runs,
    write_results,
)
from waltz.core.files.result_cache import get_cache_file
from waltz.core.jobs.devices import describe_device
from waltz.core.jobs.model_jobs import open_model_job
from waltz.core.schema import ATTRIBUTION, CC_SHAP, CONSISTENCY, EDITED
from waltz.model_registry import ModelSpec
from waltz.models.decoders import load_decoder

params, inputs, output = snakemake.params, snakemake.input, snakemake.output
shard = Shard(int(snakemake.wildcards.shard), params.shards)
cache = get_cache_file(output.rows, Path(output.rows).parents[2])
settings = dict(params.settings)
cc_shap = settings.pop("cc_shap")
run = CCShapRun(
    **settings, cc_shap=CCShapSettings(**cc_shap), cache=cache, shard=shard.items
)

with open_model_job(snakemake) as device:
    tests = {}
    if inputs.get("tests"):
        runs = [(params.model["name"], dataset) for dataset in params.datasets]
        tables = read_runs([inputs.tests], CONSISTENCY, runs)
        tests = {dataset: tables[model, dataset] for model, dataset in runs}
    decoder = load_decoder(ModelSpec(**params.model), device)
    datasets = list_dataset_files(params.datasets, inputs.rows, inputs.get("images"))
    if tests:
        results, layout = explain_edits(decoder, datasets, run, tests), EDITED
    else:
        results, layout = explain_datasets(decoder, datasets, run), CC_SHAP
    outputs = {
        "rows": (output.rows, layout),
        "contributions": (output.contributions, ATTRIBUTION),
    }
    facts = {
        "model": params.model,
        "settings": {"cc_shap": cc_shap, "tokens": run.tokens},
        "seeds": run.seeds,
        "shard": str(shard),
        **decoder.describe_forward_pass(),
        **describe_device(device),
    }
    write_results(outputs, output.run, results, **facts)
