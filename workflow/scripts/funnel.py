"""Count the candidates of each instrument after each step."""

from waltz.benchmark.statistics import count_funnel
from waltz.core.jobs.records import log_job
from waltz.core.records import read_records, write_records
from waltz.core.schema import FilteredRecord, FunnelRecord, ItemRecord

with log_job(snakemake.log[0]):
    records = []
    for instrument, candidates_file, items_file in zip(
        snakemake.params.instruments,
        snakemake.input.balanced,
        snakemake.input.pairs,
        strict=True,
    ):
        candidates = list(read_records(candidates_file, FilteredRecord))
        items = list(read_records(items_file, ItemRecord))
        records += count_funnel(instrument, candidates, items)
    write_records(snakemake.output.funnel, records, FunnelRecord)
