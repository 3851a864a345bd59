"""Train one scene model from scratch, measure it, and write it with its card."""

import logging
import time
from pathlib import Path

from waltz.core.devices import lease_device
from waltz.core.files.atomic import write_text
from waltz.core.job_records import log_job, show_progress
from waltz.scenes.training.recipes import RECIPES, measure_model, render_card, save_model, train_model

name = snakemake.wildcards.scene_model
folder = Path(snakemake.output.model)

with (
    log_job(snakemake.log[0]),
    lease_device(0, snakemake.threads),
    show_progress(RECIPES[name].steps, "step", name) as bar,
):

    def show_step(step: int, loss: float) -> None:
        """Move the bar, and log a loss now and then."""
        bar.update(1)
        if step % 100 == 0:
            logging.info("step %d: loss %.3f", step, loss)

    begun = time.process_time()
    start = Path(snakemake.input.start[0]) if snakemake.input.start else None
    network, words = train_model(name, start, show_step)
    seconds = time.process_time() - begun
    save_model(network, words, folder)
    parameters = sum(weights.numel() for weights in network.parameters())
    scores = measure_model(name, folder, snakemake.params.seed, snakemake.params.held_out)
    text = render_card(name, type(network).__name__, parameters, seconds, scores, snakemake.params.seed)
    write_text(folder / "README.md", text)
