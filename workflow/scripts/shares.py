"""Summarize all attributions: shares of text, ablations, companion measures, and the verbs of
CV-Probes.
"""

from waltz.attribution.summary import (
    SHARE_COLUMNS,
    build_ablation_records,
    build_share_records,
    build_verb_records,
    compute_player_share,
)
from waltz.core.files.group_files import read_runs
from waltz.core.intervals import Resampling
from waltz.core.jobs.records import log_job
from waltz.core.records import (
    build_frame,
    convert_to_records,
    read_records,
    write_records,
)
from waltz.core.schema import (
    ATTRIBUTION,
    EVALUATION,
    AttributionRecord,
    EvaluationRecord,
    MetricRecord,
    ProbeRecord,
    ShareRecord,
)

params = snakemake.params

with log_job(snakemake.log[0]):
    resampling = Resampling(**params.resampling)
    probes = {
        name: list(read_records(file, ProbeRecord))
        for name, file in zip(params.probes, snakemake.input.probes, strict=True)
    }
    # Companion measures come first; ablations and verbs follow from the attributions below.
    metrics = []
    for file in snakemake.input.companions:
        metrics += read_records(file, MetricRecord)
    shares = []
    # Tables take less memory than records, so one run at a time is turned into records.
    scored = read_runs(snakemake.input.scores, EVALUATION, params.runs)
    for (model, dataset), table in read_runs(
        snakemake.input.rows, ATTRIBUTION, params.runs
    ).items():
        attributions = list(convert_to_records(table, AttributionRecord))
        scores = list(convert_to_records(scored[model, dataset], EvaluationRecord))
        frame = build_frame(table.select(SHARE_COLUMNS))
        frame["player_share"] = list(map(compute_player_share, attributions))
        shares += build_share_records(model, dataset, frame, scores, resampling)
        if dataset in probes:
            metrics += build_verb_records(
                model, attributions, scores, probes[dataset], resampling
            )
        elif model not in params.answering:
            metrics += build_ablation_records(model, dataset, attributions, resampling)
    write_records(snakemake.output.shares, shares, ShareRecord)
    write_records(snakemake.output.metrics, metrics, MetricRecord)
