"""Summarize all attributions: shares of text, ablations, companion measures, and the verbs of
CV-Probes.
"""

from waltz.attribution.summary import (
    build_ablation_rows,
    build_share_records,
    build_verb_rows,
)
from waltz.core.files import parquet
from waltz.core.files.group_files import read_run_records, read_runs
from waltz.core.intervals import Resampling
from waltz.core.job_records import log_job
from waltz.core.records import write_records
from waltz.core.schema import (
    ATTRIBUTION,
    CONDITIONS,
    METRICS,
    EvaluationRecord,
    ShareRecord,
)

params = snakemake.params

with log_job(snakemake.log[0]):
    resampling = Resampling(**params.resampling)
    probes = {
        name: parquet.read_rows(file, CONDITIONS)
        for name, file in zip(params.probes, snakemake.input.probes, strict=True)
    }
    # Companion measures come first; ablations and verbs follow from the attributions below.
    metrics = [
        row
        for file in snakemake.input.companions
        for row in parquet.read_rows(file, METRICS)
    ]
    shares = []
    scored = read_run_records(snakemake.input.scores, EvaluationRecord, params.runs)
    for (model, dataset), table in read_runs(
        snakemake.input.rows, ATTRIBUTION, params.runs
    ).items():
        rows, scores = table.to_pylist(), scored[model, dataset]
        shares += build_share_records(
            model, dataset, table.to_pandas(), scores, resampling
        )
        if dataset in probes:
            metrics += build_verb_rows(model, rows, scores, probes[dataset], resampling)
        elif model not in params.answering:
            metrics += build_ablation_rows(model, dataset, rows, resampling)
    write_records(snakemake.output.shares, shares, ShareRecord)
    parquet.write_rows(snakemake.output.metrics, metrics, METRICS)
