"""One declared table: our numbers beside the printed ones."""

from waltz.core.job_log import log_job
from waltz.reporting.run_compatibility import check_alike, read_made
from waltz.reporting.tables.build_table import make_table
from waltz.reporting.tables.compare_to_paper import Study
from waltz.reporting.tables.declarations import TABLES
from waltz.reporting.tables.output import write_table

given, params = snakemake.input, snakemake.params

with log_job(snakemake.log[0]):
    declaration = TABLES[snakemake.wildcards.table]
    check_alike([run for file in given.runs for run in read_made(file)], params.profiles)
    files = {kind: given[kind] if isinstance(given[kind], list) else [given[kind]] for kind in params.kinds}
    cells = make_table(declaration, files, given.printed, params.profiles, Study(**params.study))
    write_table(declaration, cells, snakemake.output)
