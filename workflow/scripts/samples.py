"""Draw a few attributed items of one encoder, for every data set of a group."""

from waltz.core.files.group_files import read_runs
from waltz.core.jobs.model_jobs import open_model_job
from waltz.core.schema import ATTRIBUTION
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder
from waltz.reporting.figures.explanations import draw_encoder_examples
from waltz.reporting.figures.figure_files import open_dataset_images, save_examples

inputs, params = snakemake.input, snakemake.params

with (
    open_model_job(snakemake) as device,
    open_dataset_images(params.datasets, inputs.images) as load_image,
):
    encoder = load_encoder(ModelSpec(**params.model), device)
    runs = [(encoder.spec.name, dataset) for dataset in params.datasets]
    tables = {
        dataset: table
        for (_, dataset), table in read_runs(inputs.rows, ATTRIBUTION, runs).items()
    }
    figures = draw_encoder_examples(
        tables, encoder, params.profiles, params.n_examples, params.seed, load_image
    )
    save_examples(snakemake.output.figures, figures)
