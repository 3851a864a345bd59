"""Prompt one decoder with one shard of the questions of the data sets of a group."""

from waltz.core.files.group_files import Shard, list_dataset_files, write_results
from waltz.core.files.result_cache import get_cache_file
from waltz.core.jobs.devices import describe_device
from waltz.core.jobs.model_jobs import open_model_job
from waltz.core.schema import EVALUATION
from waltz.evaluation.decoder_tasks import prompt_datasets
from waltz.evaluation.settings import PromptingSettings
from waltz.model_registry import ModelSpec
from waltz.models.decoders import load_decoder

params, inputs, output = snakemake.params, snakemake.input, snakemake.output
settings = PromptingSettings(**params.settings)
shard = Shard(int(snakemake.wildcards.shard), params.shards)

with open_model_job(snakemake) as device:
    decoder = load_decoder(ModelSpec(**params.model), device)
    results = prompt_datasets(
        decoder,
        list_dataset_files(params.datasets, inputs.rows, inputs.get("images")),
        get_cache_file(output.scores),
        settings,
        shard.items,
    )
    outputs = {"scores": (output.scores, EVALUATION.with_position())}
    facts = {
        "model": params.model,
        "profiles": settings.profiles,
        "seed": settings.seed,
        "shard": str(shard),
        **decoder.describe_forward_pass(),
        **describe_device(device),
    }
    write_results(outputs, output.run, results, **facts)
