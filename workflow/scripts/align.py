"""Score the texts of the data sets of a group with one encoder."""

from waltz.core.files.group_files import list_dataset_files, write_results
from waltz.core.files.result_cache import get_cache_file
from waltz.core.jobs.devices import describe_device
from waltz.core.jobs.model_jobs import open_model_job
from waltz.core.schema import EVALUATION
from waltz.evaluation.alignment import score_datasets
from waltz.evaluation.settings import ScoringSettings
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder

params, inputs, output = snakemake.params, snakemake.input, snakemake.output
settings = ScoringSettings(**params.settings)

with open_model_job(snakemake) as device:
    results = score_datasets(
        load_encoder(ModelSpec(**params.model), device),
        list_dataset_files(params.datasets, inputs.rows, inputs.images),
        get_cache_file(output.scores),
        settings,
    )
    facts = {
        "model": params.model,
        "profiles": settings.profiles,
        "seed": settings.seed,
        **describe_device(device),
    }
    write_results({"scores": (output.scores, EVALUATION)}, output.run, results, **facts)
