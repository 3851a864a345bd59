"""All cells of all tables, and how many of the printed ones are reproduced."""

from pathlib import Path

from waltz.core.atomic import write_text
from waltz.core.job import job
from waltz.reporting.reproduction import summary, summary_csv, summary_markdown
from waltz.reporting.tables import from_csv, to_csv

with job(snakemake.log[0]):
    cells = [cell for file in snakemake.input.tables for cell in from_csv(Path(file).read_text(encoding="utf-8"))]
    counts = summary(cells)
    write_text(snakemake.output.cells, to_csv(cells))
    write_text(snakemake.output.counts, summary_csv(counts))
    write_text(snakemake.output.md, summary_markdown(counts))
