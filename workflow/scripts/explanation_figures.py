"""Draw a few answers of one decoder above their explanations, and before and after edits."""

from waltz.core.jobs.model_jobs import open_model_job
from waltz.model_registry import ModelSpec
from waltz.models.decoders import load_decoder
from waltz.reporting.figures.explanations import (
    draw_edited_explanations,
    draw_explanations,
    make_image_renderer,
    read_explanation_tables,
)
from waltz.reporting.figures.figure_files import open_dataset_images, save_examples

inputs, params = snakemake.input, snakemake.params

with (
    open_model_job(snakemake) as device,
    open_dataset_images(params.datasets, inputs.get("images") or []) as load_image,
):
    # The decoder draws images as it reads them; a language model reads none.
    decoder = None
    if inputs.get("images"):
        decoder = load_decoder(ModelSpec(**params.model), device)
    tables = read_explanation_tables(inputs, params.model["name"], params.datasets)
    draw = draw_edited_explanations if inputs.get("edited") else draw_explanations
    render_image = make_image_renderer(decoder, load_image)
    figures = draw(
        tables,
        params.model["name"],
        params.profiles,
        params.n_examples,
        params.seed,
        render_image,
    )
    save_examples(snakemake.output.figures, figures)
