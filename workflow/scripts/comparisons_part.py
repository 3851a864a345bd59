"""Paired comparisons of models that are compared in one table, on one group of data sets."""

from waltz.core.files import parquet
from waltz.core.files.group_files import read_run_rows
from waltz.core.intervals import Resampling
from waltz.core.job_records import log_job
from waltz.core.schema import COMPARISONS, EVALUATION
from waltz.evaluation.metrics.summary import build_comparison_rows

params = snakemake.params

with log_job(snakemake.log[0]):
    scores = read_run_rows(snakemake.input.scores, EVALUATION, params.runs)
    resampling = Resampling(**params.resampling)
    comparisons = build_comparison_rows(scores, params.profiles, resampling)
    parquet.write_rows(snakemake.output.comparisons, comparisons, COMPARISONS)
