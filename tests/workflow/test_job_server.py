"""Jobs of the real workflow in forks of the job server."""

import pytest

from workflow_runs.checkout import Checkout

pytestmark = pytest.mark.workflow

NOTE = """
import sys
open("forks.txt", "a").write(f"{'multiprocessing.forkserver' in ' '.join(sys.orig_argv)}\\n")
"""
TABLES = (
    "results/tiny/reporting/tables/thesis-A.2.csv",
    "results/tiny/reporting/tables/thesis-3.4.csv",
)


@pytest.mark.parametrize(("least", "forked"), [(1, "True"), (30, "False")])
def test_jobs_of_a_large_run_are_forked_and_give_the_same(
    fresh: Checkout, tiny_run: Checkout, least, forked
):
    server = "workflow/waltz/snakemake_compat.py"
    fresh.edit(server, "LEAST_JOBS = 30", f"LEAST_JOBS = {least}")
    fresh.edit(
        "Snakefile", "fork_scripts(workflow)", "fork_scripts(workflow).wait(300)"
    )
    script = fresh.folder / "workflow/scripts/table.py"
    script.write_text(script.read_text() + NOTE)
    fresh.snakemake(*TABLES)
    assert (fresh.folder / "forks.txt").read_text().splitlines() == [forked, forked]
    for table in TABLES:
        assert (fresh.folder / table).read_bytes() == (
            tiny_run.folder / table
        ).read_bytes()
