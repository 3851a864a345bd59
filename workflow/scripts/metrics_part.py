"""Every metric of the models of one kind on one group of data sets."""

from waltz.core.files import parquet
from waltz.core.files.group_files import RunRecords
from waltz.core.intervals import Resampling
from waltz.core.jobs.records import log_job
from waltz.core.records import read_records, write_records
from waltz.core.schema import (
    EvaluationRecord,
    ItemRecord,
    MetricRecord,
    ProbeRecord,
)
from waltz.evaluation.metrics.summary import build_metric_records
from waltz.evaluation.vqa import select_vqa_items

params = snakemake.params

with log_job(snakemake.log[0]):
    scores = RunRecords(snakemake.input.scores, EvaluationRecord, params.runs)
    probes = []
    for file in snakemake.input.probes:
        probes += read_records(file, ProbeRecord)
    questions = {}
    for (name, entry), file in zip(
        params.questions.items(), snakemake.input.questions, strict=True
    ):
        rows = parquet.read_table(file).to_pylist()
        questions[name], _ = select_vqa_items(
            name, rows, entry["size"], params.seed, entry.get("choice")
        )
    groups = {}
    for name, file in zip(params.pairs, snakemake.input.pairs, strict=True):
        groups[name] = {
            item.item_id: item.group
            for item in read_records(file, ItemRecord)
            if item.group is not None
        }
    resampling = Resampling(**params.resampling)
    metrics = build_metric_records(
        scores,
        params.profiles,
        resampling,
        averaged=params.averaged,
        probes=probes,
        questions=questions,
        groups=groups,
    )
    write_records(snakemake.output.metrics, metrics, MetricRecord)
