"""All cells of all tables, and how many of the printed ones are reproduced."""

from pathlib import Path

from waltz.core.files.atomic import write_text
from waltz.core.job_log import log_job
from waltz.reporting.tables.cells import from_csv, to_csv
from waltz.reporting.tables.reproduction import summary, summary_csv, summary_markdown

with log_job(snakemake.log[0]):
    cells = [cell for file in snakemake.input.tables for cell in from_csv(Path(file).read_text(encoding="utf-8"))]
    counts = summary(cells)
    write_text(snakemake.output.cells, to_csv(cells))
    write_text(snakemake.output.counts, summary_csv(counts))
    write_text(snakemake.output.md, summary_markdown(counts))
