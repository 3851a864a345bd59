"""Whether the runs behind numbers belong together."""

from waltz.core.job_log import log_job
from waltz.reporting.run_compatibility import check_alike, made, write_made

with log_job(snakemake.log[0]):
    runs = made(snakemake.input.records)
    check_alike(runs, snakemake.params.profiles)
    write_made(snakemake.output.runs, runs)
