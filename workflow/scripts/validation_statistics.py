"""Validation statistics and word frequencies of every data set."""

from dataclasses import asdict

from waltz.benchmark.statistics import compute_validation_statistics, count_frequencies
from waltz.core.files import parquet
from waltz.core.job_records import log_job
from waltz.core.schema import ANNOTATIONS, BENCHMARK, FREQUENCIES, STATISTICS

params = snakemake.params

with log_job(snakemake.log[0]):
    statistics, counts = [], []
    for dataset, items_file, annotations_file in zip(
        params.datasets, snakemake.input.pairs, snakemake.input.annotations, strict=True
    ):
        items = parquet.read(items_file, BENCHMARK).to_pylist()
        annotations = parquet.read(annotations_file, ANNOTATIONS).to_pylist()
        measures = compute_validation_statistics(
            dataset,
            items,
            annotations,
            resamples=params.resamples,
            confidence=params.confidence,
            seed=params.seed,
        )
        statistics += [
            {"dataset": dataset, "metric": metric, **asdict(measure)} for metric, measure in measures.items()
        ]
        counts += [{"dataset": dataset, **row} for row in count_frequencies(items)]
    parquet.write(snakemake.output.statistics, parquet.build_table(statistics, STATISTICS), STATISTICS)
    parquet.write(snakemake.output.frequencies, parquet.build_table(counts, FREQUENCIES), FREQUENCIES)
