"""Validation statistics and word frequencies of every data set."""

from waltz.benchmark.statistics import compute_validation_statistics, count_frequencies
from waltz.core.intervals import Resampling
from waltz.core.jobs.records import log_job
from waltz.core.records import read_records, write_records
from waltz.core.schema import (
    AnnotationRecord,
    FrequencyRecord,
    ItemRecord,
    StatisticRecord,
)

params = snakemake.params

with log_job(snakemake.log[0]):
    resampling = Resampling(**params.resampling)
    statistics, counts = [], []
    for dataset, items_file, annotations_file in zip(
        params.datasets, snakemake.input.pairs, snakemake.input.annotations, strict=True
    ):
        items = list(read_records(items_file, ItemRecord))
        annotations = list(read_records(annotations_file, AnnotationRecord))
        measures = compute_validation_statistics(
            dataset, items, annotations, resampling
        )
        for metric, measure in measures.items():
            statistics.append(
                StatisticRecord(dataset=dataset, metric=metric, measure=measure)
            )
        counts += count_frequencies(dataset, items)
    write_records(snakemake.output.statistics, statistics, StatisticRecord)
    write_records(snakemake.output.frequencies, counts, FrequencyRecord)
