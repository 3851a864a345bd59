"""Every metric of every model on every data set, and the paired comparisons of models."""

from waltz.core.files.group_files import RunRecords
from waltz.core.intervals import Resampling
from waltz.core.jobs.records import log_job
from waltz.core.records import read_records, write_records
from waltz.core.schema import ComparisonRecord, EvaluationRecord, MetricRecord
from waltz.evaluation.metrics.summary import (
    build_comparison_records,
    build_overall_comparisons,
)

params = snakemake.params

with log_job(snakemake.log[0]):
    scores = RunRecords(snakemake.input.scores, EvaluationRecord, params.runs)
    metrics, comparisons = [], []
    for file in snakemake.input.parts:
        metrics += read_records(file, MetricRecord)
    for file in snakemake.input.comparisons:
        comparisons += read_records(file, ComparisonRecord)
    parts = {}
    for part, runs in params.parts.items():
        for model, dataset in runs:
            parts[model, dataset] = part
    resampling = Resampling(**params.resampling)
    comparisons += build_comparison_records(
        scores, params.profiles, resampling, params.controls, parts
    )
    comparisons += build_overall_comparisons(
        comparisons, scores, resampling, params.controls
    )
    write_records(snakemake.output.metrics, metrics, MetricRecord)
    write_records(snakemake.output.comparisons, comparisons, ComparisonRecord)
