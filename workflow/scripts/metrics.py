"""Every metric of every model on every data set, and the paired comparisons of models."""

from waltz.core import parquet
from waltz.core.job import job
from waltz.core.measure import Resampling
from waltz.core.model_schema import COMPARISONS, EVALUATION, METRICS
from waltz.evaluation.summary import comparison_rows

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
