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


def check_runs_of_two_tables(fresh: Checkout, tiny_run: Checkout, forked: str) -> None:
    """Run the jobs of two tables, and check that each ran in a fork or not, with the same result."""
    script = fresh.folder / "workflow/scripts/table.py"
    script.write_text(script.read_text() + NOTE)
    fresh.snakemake(*TABLES)
    assert (fresh.folder / "forks.txt").read_text().splitlines() == [forked, forked]
    for table in TABLES:
        written = (fresh.folder / table).read_bytes()
        assert written == (tiny_run.folder / table).read_bytes()


def test_jobs_of_a_large_run_are_forked_and_give_the_same(
    fresh: Checkout, tiny_run: Checkout
):
    fresh.edit(
        "workflow/waltz/snakemake_compat.py", "LEAST_JOBS = 30", "LEAST_JOBS = 1"
    )
    # Jobs that start before the server is ready are not forked.
    fresh.edit(
        "Snakefile", "fork_scripts(workflow)", "fork_scripts(workflow).wait(300)"
    )
    check_runs_of_two_tables(fresh, tiny_run, forked="True")


def test_jobs_of_a_small_run_start_interpreters(fresh: Checkout, tiny_run: Checkout):
    check_runs_of_two_tables(fresh, tiny_run, forked="False")
