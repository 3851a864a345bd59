"""Self-consistency tests of one shard of a group of data sets with one decoder."""

from waltz.consistency.edit_tests.tests import EditTestRun, run_tests
from waltz.core.files.group_files import Shard, list_dataset_files, write_results
from waltz.core.files.result_cache import get_cache_file
from waltz.core.jobs.devices import describe_device
from waltz.core.jobs.model_jobs import open_model_job
from waltz.core.schema import CONSISTENCY
from waltz.model_registry import ModelSpec
from waltz.models.decoders import load_decoder
from waltz.models.text.classifier import load_classifier

params, inputs, output = snakemake.params, snakemake.input, snakemake.output
shard = Shard(int(snakemake.wildcards.shard), params.shards)
run = EditTestRun(
    **params.settings, cache=get_cache_file(output.rows), shard=shard.items
)

with open_model_job(snakemake) as device:
    # Without a helper, the decoder edits and compares texts itself.
    decoder = helper = load_decoder(ModelSpec(**params.model), device)
    if params.helper:
        helper = load_decoder(ModelSpec(**params.helper), device)
    judge = None
    if params.judge:
        judge = load_classifier(ModelSpec(**params.judge), device)
    datasets = list_dataset_files(params.datasets, inputs.rows, inputs.get("images"))
    results = run_tests(decoder, helper, judge, datasets, run)
    facts = {
        "model": params.model,
        "helper": params.helper,
        "judge": params.judge,
        "seed": run.seed,
        "seeds": run.seeds,
        "tokens": run.tokens,
        "edits": run.edits,
        "shard": str(shard),
        **decoder.describe_forward_pass(),
        **describe_device(device),
    }
    write_results({"rows": (output.rows, CONSISTENCY)}, output.run, results, **facts)
