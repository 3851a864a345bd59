"""Write the report page of a study."""

from pathlib import Path

from waltz.core.jobs.records import log_job
from waltz.reporting.page.report import read_report, write_report

page = Path(snakemake.output.page)

with log_job(snakemake.log[0]):
    report = read_report(
        dict(snakemake.input.items()),
        dict(snakemake.params.items()),
        page.parent.parent,
    )
    write_report(page, report)
