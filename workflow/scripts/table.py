"""Build one declared table: our numbers next to the paper values."""

from waltz.core.jobs.records import log_job
from waltz.reporting.run_records import check_compatible, read_run_facts
from waltz.reporting.tables.best import read_significance_tests
from waltz.reporting.tables.build_table import build_table_cells, write_table
from waltz.reporting.tables.declarations import TABLES
from waltz.reporting.tables.numbers import StudyFacts

inputs, params = snakemake.input, snakemake.params

with log_job(snakemake.log[0]):
    declaration = TABLES[snakemake.wildcards.table]
    check_compatible(read_run_facts(inputs.runs), params.profiles)
    files = {}
    for kind in params.kinds:
        # An input of a single file has no list.
        is_single = isinstance(inputs[kind], str)
        files[kind] = [inputs[kind]] if is_single else list(inputs[kind])
    cells = build_table_cells(
        declaration, files, inputs.printed, params.profiles, StudyFacts(**params.study)
    )
    write_table(
        declaration,
        cells,
        read_significance_tests(inputs.comparisons, params.study["confidence"]),
        snakemake.output,
    )
