"""Answer the questions of the data sets of a group with one encoder that has an answering head."""

from waltz.core.files.group_files import list_dataset_files, write_results
from waltz.core.files.result_cache import get_cache_file
from waltz.core.jobs.devices import describe_device
from waltz.core.jobs.model_jobs import open_model_job
from waltz.core.schema import EVALUATION
from waltz.evaluation.encoder_vqa import answer_datasets
from waltz.evaluation.settings import AnsweringSettings
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder
from waltz.models.encoders.vqa import AnsweringEncoder

params, inputs, output = snakemake.params, snakemake.input, snakemake.output
settings = AnsweringSettings(**params.settings)

with open_model_job(snakemake) as device:
    encoder: AnsweringEncoder = load_encoder(ModelSpec(**params.model), device)
    results = answer_datasets(
        encoder,
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
