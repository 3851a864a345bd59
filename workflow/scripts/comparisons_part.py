"""Paired comparisons of models that are compared in one table, on one group of data sets."""

from waltz.core.files.group_files import RunRecords
from waltz.core.intervals import Resampling
from waltz.core.jobs.records import log_job
from waltz.core.records import write_records
from waltz.core.schema import ComparisonRecord, EvaluationRecord
from waltz.evaluation.metrics.summary import build_comparison_records

params = snakemake.params

with log_job(snakemake.log[0]):
    scores = RunRecords(snakemake.input.scores, EvaluationRecord, params.runs)
    resampling = Resampling(**params.resampling)
    comparisons = build_comparison_records(
        scores, params.profiles, resampling, params.controls
    )
    write_records(snakemake.output.comparisons, comparisons, ComparisonRecord)
