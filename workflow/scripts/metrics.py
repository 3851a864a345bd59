"""Every metric of every model on every data set, and the paired comparisons of models."""

from waltz.core.files import parquet
from waltz.core.files.group_files import read_run_rows
from waltz.core.intervals import Resampling
from waltz.core.job_records import log_job
from waltz.core.schema import COMPARISONS, EVALUATION, METRICS
from waltz.evaluation.metrics.summary import build_comparison_rows

params = snakemake.params

with log_job(snakemake.log[0]):
    scores = read_run_rows(snakemake.input.scores, EVALUATION, params.runs)
    metrics = [
        row
        for file in snakemake.input.parts
        for row in parquet.read_rows(file, METRICS)
    ]
    comparisons = [
        row
        for file in snakemake.input.comparisons
        for row in parquet.read_rows(file, COMPARISONS)
    ]
    parts = {
        (model, dataset): part
        for part, runs in params.parts.items()
        for model, dataset in runs
    }
    resampling = Resampling(**params.resampling)
    comparisons += build_comparison_rows(scores, params.profiles, resampling, parts)
    parquet.write_rows(snakemake.output.metrics, metrics, METRICS)
    parquet.write_rows(snakemake.output.comparisons, comparisons, COMPARISONS)
