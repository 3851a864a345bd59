"""Validation statistics and word frequencies of every data set."""

from dataclasses import asdict

from waltz.benchmark.statistics import compute_validation_statistics, count_frequencies
from waltz.core.files import parquet
from waltz.core.intervals import Resampling
from waltz.core.job_records import log_job
from waltz.core.schema import ANNOTATIONS, BENCHMARK, FREQUENCIES, STATISTICS

params = snakemake.params

with log_job(snakemake.log[0]):
    resampling = Resampling(**params.resampling)
    statistics, counts = [], []
    for dataset, items_file, annotations_file in zip(
        params.datasets, snakemake.input.pairs, snakemake.input.annotations, strict=True
    ):
        items = parquet.read_rows(items_file, BENCHMARK)
        annotations = parquet.read_rows(annotations_file, ANNOTATIONS)
        measures = compute_validation_statistics(
            dataset, items, annotations, resampling
        )
        statistics += [
            {"dataset": dataset, "metric": metric, **asdict(measure)}
            for metric, measure in measures.items()
        ]
        counts += [{"dataset": dataset, **row} for row in count_frequencies(items)]
    parquet.write_rows(snakemake.output.statistics, statistics, STATISTICS)
    parquet.write_rows(snakemake.output.frequencies, counts, FREQUENCIES)
