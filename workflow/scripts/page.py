"""The index page of a study."""

from waltz.core.job import job
from waltz.reporting.construction import Construction
from waltz.reporting.page import write_page

given = snakemake.input

with job(snakemake.log[0]):
    built = (
        Construction(
            given.funnel, given.statistics, given.printed, given.get("oracle") or None, given.get("audit") or None
        )
        if given.get("funnel")
        else None
    )
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
        built,
    )
