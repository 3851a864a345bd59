"""Self-consistency tests of one shard of a group of data sets with one decoder."""

from waltz.consistency.edit_tests.tests import EditTestRun, run_tests
from waltz.core.devices import describe_device, lease_device
from waltz.core.files.group_files import list_dataset_files, write_results
from waltz.core.files.result_cache import get_cache_file
from waltz.core.job_records import log_job
from waltz.core.schema import CONSISTENCY
from waltz.model_registry import ModelSpec
from waltz.models.decoders import load_decoder
from waltz.models.text.classifier import load_classifier

params, inputs, output = snakemake.params, snakemake.input, snakemake.output
shard = int(snakemake.wildcards.shard)

with (
    log_job(snakemake.log[0]),
    lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device,
):
    decoder = load_decoder(ModelSpec(**params.model), device)
    helper = (
        load_decoder(ModelSpec(**params.helper), device) if params.helper else decoder
    )
    judge = load_classifier(ModelSpec(**params.judge), device) if params.judge else None
    datasets = list_dataset_files(params.datasets, inputs.rows, inputs.get("images"))
    run = EditTestRun(
        **params.settings,
        cache=get_cache_file(output.rows),
        shard=slice(shard, None, params.shards),
    )
    results = run_tests(decoder, helper, judge, datasets, run)
    facts = {"model": params.model, "helper": params.helper, "judge": params.judge}
    facts |= {"seed": run.seed, "seeds": run.seeds}
    facts |= {"tokens": run.tokens, "edits": run.edits}
    facts |= {
        "shard": f"{shard + 1} of {params.shards}",
        **decoder.describe_forward_pass(),
    }
    facts |= describe_device(device)
    write_results({"rows": (output.rows, CONSISTENCY)}, output.run, results, **facts)
