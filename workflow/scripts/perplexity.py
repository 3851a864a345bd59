"""Score the captions and foils of the data sets of a group with one language model."""

from waltz.core.files.group_files import list_dataset_files, write_results
from waltz.core.files.result_cache import get_cache_file
from waltz.core.jobs.devices import describe_device
from waltz.core.jobs.model_jobs import open_model_job
from waltz.core.schema import EVALUATION
from waltz.evaluation.perplexity import score_datasets
from waltz.evaluation.settings import LikelihoodSettings
from waltz.model_registry import ModelSpec
from waltz.models.text.causal import load_causal_model

params, output = snakemake.params, snakemake.output
settings = LikelihoodSettings(**params.settings)

with open_model_job(snakemake) as device:
    model = load_causal_model(ModelSpec(**params.model), device)
    results = score_datasets(
        model,
        list_dataset_files(params.datasets, snakemake.input.rows),
        get_cache_file(output.scores),
        settings,
    )
    facts = {
        "model": params.model,
        "profiles": settings.profiles,
        "seed": settings.seed,
        "tokens_per_batch": settings.tokens_per_batch,
        "shares_prefixes": model.reads_trees,
        "shares_prefixes_reason": model.reason,
        **describe_device(device),
    }
    write_results({"scores": (output.scores, EVALUATION)}, output.run, results, **facts)
