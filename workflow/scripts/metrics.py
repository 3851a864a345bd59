"""Every metric of every model on every data set, and the paired comparisons of models."""

from waltz.core import parquet
from waltz.core.job import job
from waltz.core.schema import COMPARISONS, CONDITIONS, EVALUATION, METRICS
from waltz.evaluation.metrics import Resampling
from waltz.evaluation.summary import summarised

params = snakemake.params

with job(snakemake.log[0]):
    scores = {
        run: parquet.read(file, EVALUATION).to_pylist()
        for run, file in zip(map(tuple, params.runs), snakemake.input.scores, strict=True)
    }
    probes = {
        name: parquet.read(file, CONDITIONS).to_pylist()
        for name, file in zip(params.probes, snakemake.input.probes, strict=True)
    }
    how = Resampling(params.resamples, params.confidence, params.seed)
    metrics, comparisons = summarised(scores, probes, params.profiles, how)
    parquet.write(snakemake.output.metrics, parquet.to_table(metrics, METRICS), METRICS)
    parquet.write(snakemake.output.comparisons, parquet.to_table(comparisons, COMPARISONS), COMPARISONS)
