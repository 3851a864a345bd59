"""Train one scene model from scratch, measure it, and write it with its card."""

from pathlib import Path

from waltz.core.devices import lease_device
from waltz.core.job_records import log_job, show_progress
from waltz.scenes.training.recipes import RECIPES, build_model

inputs, params, name = snakemake.input, snakemake.params, snakemake.wildcards.scene_model

with (
    log_job(snakemake.log[0]),
    lease_device(0, snakemake.threads),
    show_progress(RECIPES[name].steps, "step", name) as bar,
):
    start = Path(inputs.start[0]) if inputs.start else None
    folder = Path(snakemake.output.model)
    build_model(name, start, folder, params.seed, params.held_out, report=lambda step, loss: bar.update(1))
