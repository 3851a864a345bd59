"""Summarize all attributions: shares of text, ablations, companion measures, and the verbs of
CV-Probes.
"""

from waltz.attribution.summary import (
    SHARE_COLUMNS,
    build_ablation_rows,
    build_share_records,
    build_verb_rows,
)
from waltz.core.files import parquet
from waltz.core.files.group_files import read_runs
from waltz.core.intervals import Resampling
from waltz.core.job_records import log_job
from waltz.core.records import build_frame, build_records, write_records
from waltz.core.schema import (
    ATTRIBUTION,
    CONDITIONS,
    EVALUATION,
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
    # Tables take less memory than records, so one run at a time is turned into records.
    scored = read_runs(snakemake.input.scores, EVALUATION, params.runs)
    for (model, dataset), table in read_runs(
        snakemake.input.rows, ATTRIBUTION, params.runs
    ).items():
        rows = table.to_pylist()
        scores = list(build_records(scored[model, dataset], EvaluationRecord))
        attributions = build_frame(table.select(SHARE_COLUMNS))
        shares += build_share_records(model, dataset, attributions, scores, resampling)
        if dataset in probes:
            metrics += build_verb_rows(model, rows, scores, probes[dataset], resampling)
        elif model not in params.answering:
            metrics += build_ablation_rows(model, dataset, rows, resampling)
    write_records(snakemake.output.shares, shares, ShareRecord)
    parquet.write_rows(snakemake.output.metrics, metrics, METRICS)
