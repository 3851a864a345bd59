"""Draw the traces of all self-consistency tests of a few items of one decoder."""

from waltz.core.files.group_files import read_runs
from waltz.core.jobs.records import log_job
from waltz.core.schema import CONSISTENCY
from waltz.reporting.figures.figure_files import open_dataset_images, save_examples
from waltz.reporting.figures.traces import draw_traces

inputs, params = snakemake.input, snakemake.params

with (
    log_job(snakemake.log[0]),
    open_dataset_images(params.datasets, inputs.get("images") or []) as load_image,
):
    images = load_image if inputs.get("images") else None
    runs = [(params.model, dataset) for dataset in params.datasets]
    tables = {
        dataset: table
        for (_, dataset), table in read_runs(inputs.tests, CONSISTENCY, runs).items()
    }
    figures = draw_traces(
        tables, params.model, params.profiles, params.n_examples, params.seed, images
    )
    save_examples(snakemake.output.traces, figures)
