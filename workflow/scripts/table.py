"""Build one declared table: our numbers next to the paper values."""

from waltz.core.job_records import log_job
from waltz.reporting.run_records import check_compatible, read_run_facts
from waltz.reporting.tables.best import read_significance_tests
from waltz.reporting.tables.build_table import build_table_cells, write_table
from waltz.reporting.tables.declarations import TABLES
from waltz.reporting.tables.numbers import StudyFacts

inputs, params = snakemake.input, snakemake.params

with log_job(snakemake.log[0]):
    declaration = TABLES[snakemake.wildcards.table]
    check_compatible(read_run_facts(inputs.runs), params.profiles)
    files = {
        kind: inputs[kind] if isinstance(inputs[kind], list) else [inputs[kind]]
        for kind in params.kinds
    }
    cells = build_table_cells(
        declaration, files, inputs.printed, params.profiles, StudyFacts(**params.study)
    )
    write_table(
        declaration,
        cells,
        read_significance_tests(inputs.comparisons, params.study["confidence"]),
        snakemake.output,
    )
