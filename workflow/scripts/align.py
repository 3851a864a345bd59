"""Score the texts of the data sets of a group with one encoder."""

from waltz.core.devices import describe_device, lease_device
from waltz.core.files.group_files import list_dataset_files, write_results
from waltz.core.files.result_cache import get_cache_file
from waltz.core.job_records import log_job
from waltz.core.schema import EVALUATION
from waltz.evaluation.alignment import score_datasets
from waltz.evaluation.settings import ScoringSettings
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder

params, output = snakemake.params, snakemake.output
settings = ScoringSettings(**params.settings)

with (
    log_job(snakemake.log[0]),
    lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device,
):
    datasets = list_dataset_files(
        params.datasets, snakemake.input.rows, snakemake.input.images
    )
    results = score_datasets(
        load_encoder(ModelSpec(**params.model), device),
        datasets,
        get_cache_file(output.scores),
        settings,
    )
    facts = {
        "model": params.model,
        "profiles": settings.profiles,
        "seed": settings.seed,
    }
    facts |= describe_device(device)
    write_results({"scores": (output.scores, EVALUATION)}, output.run, results, **facts)
