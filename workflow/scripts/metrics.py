"""Every metric of every model on every data set, and the paired comparisons of models."""

from waltz.core.files import parquet
from waltz.core.intervals import Resampling
from waltz.core.job_log import job
from waltz.core.result_schema import COMPARISONS, EVALUATION, METRICS
from waltz.evaluation.metrics.summary import comparison_rows

params = snakemake.params

with job(snakemake.log[0]):
    scores = {
        tuple(run): parquet.read(file, EVALUATION).to_pylist()
        for run, file in zip(params.runs, snakemake.input.scores, strict=True)
    }
    metrics = [row for file in snakemake.input.parts for row in parquet.read(file, METRICS).to_pylist()]
    comparisons = comparison_rows(scores, params.profiles, Resampling(params.resamples, params.confidence, params.seed))
    parquet.write(snakemake.output.metrics, parquet.to_table(metrics, METRICS), METRICS)
    parquet.write(snakemake.output.comparisons, parquet.to_table(comparisons, COMPARISONS), COMPARISONS)
