"""Audit the paper values: can each be a share of its items, and does it agree with others."""

from pathlib import Path

from waltz.core.files.atomic import write_text
from waltz.core.job_records import log_job
from waltz.reporting.tables.paper_audit import audit_paper_tables, format_audit

with log_job(snakemake.log[0]):
    write_text(snakemake.output.cells, format_audit(audit_paper_tables(Path(snakemake.input.published[0]).parent)))
