"""Whether the runs behind numbers belong together."""

from waltz.core.job_log import job
from waltz.reporting.run_compatibility import check_alike, made, write_made

with job(snakemake.log[0]):
    runs = made(snakemake.input.records)
    check_alike(runs, snakemake.params.profiles)
    write_made(snakemake.output.runs, runs)
