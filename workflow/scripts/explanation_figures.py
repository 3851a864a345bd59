"""Draw a few answers of one decoder above their explanations, and before and after edits."""

from contextlib import ExitStack

from waltz.core.devices import lease_device
from waltz.core.files.group_files import read_runs
from waltz.core.job_records import log_job
from waltz.core.schema import ATTRIBUTION, CC_SHAP, EDITED
from waltz.model_registry import ModelSpec
from waltz.models.decoders import load_decoder
from waltz.reporting.figures.explanations import ExplanationTables, draw_edits, draw_explanations, make_image_loader
from waltz.reporting.figures.figure_files import save_examples
from waltz.sources.images import load_image, open_images

params, given = snakemake.params, snakemake.input
PARTS = {
    "contributions": ATTRIBUTION,
    "cc_shap": CC_SHAP,
    "edited": EDITED,
    "edited_contributions": ATTRIBUTION,
}

with (
    log_job(snakemake.log[0]),
    lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device,
    ExitStack() as stack,
):
    decoder = load_decoder(ModelSpec(**params.model), device) if given.get("images") else None
    runs = [(params.model["name"], dataset) for dataset in params.datasets]
    tables = {name: read_runs(given[name], layout, runs) for name, layout in PARTS.items() if given.get(name)}
    found = {run[1]: ExplanationTables(**{name: tables[name][run] for name in tables}) for run in runs}
    sources = {
        dataset: stack.enter_context(open_images(file))
        for dataset, file in zip(params.datasets, given.get("images") or [], strict=False)
    }
    see = make_image_loader(decoder, lambda dataset, name: load_image(sources[dataset], name))
    figures = draw_edits if given.get("edited") else draw_explanations
    save_examples(
        snakemake.output.figures,
        (
            drawn
            for profile in params.profiles
            for drawn in figures(found, params.model["name"], profile, params.most, params.seed, see)
        ),
    )
