"""Answers of one recorded model to the data sets of a group."""

from waltz.core.files.group_files import write_results
from waltz.core.jobs.records import log_job
from waltz.core.schema import EVALUATION
from waltz.evaluation.recorded_answers import import_answers
from waltz.model_registry import ModelSpec

params, output = snakemake.params, snakemake.output

with log_job(snakemake.log[0]):
    results = import_answers(
        snakemake.input.records,
        ModelSpec(**params.model),
        params.datasets,
        params.profiles,
    )
    facts = {"model": params.model, "profiles": params.profiles}
    write_results({"scores": (output.scores, EVALUATION)}, output.run, results, **facts)
