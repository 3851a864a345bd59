"""Collect the cells of all tables, and count how many paper values are reproduced."""

from waltz.core.files.atomic import write_text
from waltz.core.jobs.records import log_job
from waltz.reporting.tables.cells import (
    format_csv,
    format_summary_csv,
    format_summary_markdown,
    read_cells,
    summarize_verdicts,
)

with log_job(snakemake.log[0]):
    cells = read_cells(snakemake.input.tables)
    counts = summarize_verdicts(cells)
    write_text(snakemake.output.cells, format_csv(cells))
    write_text(snakemake.output.counts, format_summary_csv(counts))
    write_text(snakemake.output.md, format_summary_markdown(counts))
