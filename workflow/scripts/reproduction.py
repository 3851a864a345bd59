"""Collect the cells of all tables, and count how many paper values are reproduced."""

from pathlib import Path

from waltz.core.files.atomic import write_text
from waltz.core.job_records import log_job
from waltz.reporting.tables.cells import (
    format_csv,
    format_summary_csv,
    format_summary_markdown,
    parse_csv,
    summarize_verdicts,
)

with log_job(snakemake.log[0]):
    cells = [cell for file in snakemake.input.tables for cell in parse_csv(Path(file).read_text(encoding="utf-8"))]
    counts = summarize_verdicts(cells)
    write_text(snakemake.output.cells, format_csv(cells))
    write_text(snakemake.output.counts, format_summary_csv(counts))
    write_text(snakemake.output.md, format_summary_markdown(counts))
