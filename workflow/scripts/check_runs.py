"""Refuse numbers whose runs are not compatible, and write the facts of all runs."""

from waltz.core.jobs.records import log_job
from waltz.reporting.run_records import (
    check_compatible,
    collect_run_facts,
    forget_versions,
    write_run_facts,
)

with log_job(snakemake.log[0]):
    runs = collect_run_facts(snakemake.input.records)
    if snakemake.params.stored_versions == "reuse":
        runs = forget_versions(runs)
    check_compatible(runs, snakemake.params.profiles)
    write_run_facts(snakemake.output.runs, runs)
