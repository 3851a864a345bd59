"""Draw the traces of all self-consistency tests of a few items of one decoder."""

from contextlib import ExitStack

import numpy as np

from waltz.core.files.group_files import read_runs
from waltz.core.job_records import log_job
from waltz.core.schema import CONSISTENCY
from waltz.reporting.figures.figure_files import save_examples
from waltz.reporting.figures.traces import draw_traces
from waltz.sources.images import load_image, open_images

params, given = snakemake.params, snakemake.input

with log_job(snakemake.log[0]), ExitStack() as stack:
    runs = [(params.model, dataset) for dataset in params.datasets]
    tables = {dataset: table for (_, dataset), table in read_runs(given.tests, CONSISTENCY, runs).items()}
    sources = {
        dataset: stack.enter_context(open_images(file))
        for dataset, file in zip(params.datasets, given.get("images") or [], strict=False)
    }

    def load(dataset, name):
        """The image of an item as pixels."""
        return np.asarray(load_image(sources[dataset], name))

    drawn = (
        one
        for profile in params.profiles
        for one in draw_traces(tables, params.model, profile, params.most, params.seed, load)
    )
    save_examples(snakemake.output.traces, drawn)
