"""The index page of a study."""

from waltz.core.job import job
from waltz.reporting.page import write_page

with job(snakemake.log[0]):
    write_page(
        snakemake.output.page,
        snakemake.params.study,
        snakemake.params.sources,
        snakemake.input.tables,
        snakemake.input.figures,
        snakemake.input.records,
        snakemake.input.read,
        snakemake.input.faults,
        snakemake.input.scores,
    )
