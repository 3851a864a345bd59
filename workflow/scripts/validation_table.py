"""Table A.2: validation statistics beside the printed ones."""

from waltz.core import parquet
from waltz.core.job import job
from waltz.core.schema import STATISTICS
from waltz.reporting.declarations import VALIDATION
from waltz.reporting.output import write_table
from waltz.reporting.published import read_published
from waltz.reporting.tables import join, validation_cells

params = snakemake.params

with job(snakemake.log[0]):
    printed = read_published(snakemake.input.printed)
    rows = parquet.read(snakemake.input.statistics, STATISTICS).to_pylist()
    cells = []
    for profile in params.profiles:
        measured = validation_cells(rows, printed, profile)
        cells += join(VALIDATION, profile, measured, printed, "not built in this study", params.confidence)
    write_table(VALIDATION, cells, snakemake.output)
