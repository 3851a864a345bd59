"""What all attributions say together: shares of text, ablations, companions, the verbs of CV-Probes."""

from waltz.attribution.summary import build_ablation_rows, build_share_rows, build_verb_rows
from waltz.core.files import parquet
from waltz.core.files.group_files import read_runs
from waltz.core.intervals import Resampling
from waltz.core.job_records import log_job
from waltz.core.schema import ATTRIBUTION, CONDITIONS, EVALUATION, METRICS, SHARES

params = snakemake.params

with log_job(snakemake.log[0]):
    how = Resampling(params.resamples, params.confidence, params.seed)
    probes = {
        name: parquet.read_rows(file, CONDITIONS)
        for name, file in zip(params.probes, snakemake.input.probes, strict=True)
    }
    metrics = [row for file in snakemake.input.companions for row in parquet.read_rows(file, METRICS)]
    found = []
    scored = read_runs(snakemake.input.scores, EVALUATION, params.runs)
    for (model, dataset), table in read_runs(snakemake.input.rows, ATTRIBUTION, params.runs).items():
        rows, scores = table.to_pylist(), scored[model, dataset].to_pylist()
        found += build_share_rows(model, dataset, rows, scores, how)
        if dataset in probes:
            metrics += build_verb_rows(model, rows, scores, probes[dataset], how)
        elif model not in params.answering:
            metrics += build_ablation_rows(model, dataset, rows, how)
    parquet.write_rows(snakemake.output.shares, found, SHARES)
    parquet.write_rows(snakemake.output.metrics, metrics, METRICS)
