"""One declared table: our numbers beside the printed ones."""

from waltz.core.job_log import log_job
from waltz.reporting.run_compatibility import check_compatible, read_run_facts
from waltz.reporting.tables.build_table import build_table
from waltz.reporting.tables.compare_to_paper import StudyFacts
from waltz.reporting.tables.declarations import TABLES
from waltz.reporting.tables.output import write_table

given, params = snakemake.input, snakemake.params

with log_job(snakemake.log[0]):
    declaration = TABLES[snakemake.wildcards.table]
    check_compatible([run for file in given.runs for run in read_run_facts(file)], params.profiles)
    files = {kind: given[kind] if isinstance(given[kind], list) else [given[kind]] for kind in params.kinds}
    cells = build_table(declaration, files, given.printed, params.profiles, StudyFacts(**params.study))
    write_table(declaration, cells, snakemake.output)
