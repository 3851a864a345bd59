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
    metrics = [row for file in snakemake.input.parts for row in parquet.read(file, METRICS).to_pylist()]
    comparisons = build_comparison_rows(
        scores, params.profiles, Resampling(params.resamples, params.confidence, params.seed)
    )
    parquet.write(snakemake.output.metrics, parquet.build_table(metrics, METRICS), METRICS)
    parquet.write(snakemake.output.comparisons, parquet.build_table(comparisons, COMPARISONS), COMPARISONS)
