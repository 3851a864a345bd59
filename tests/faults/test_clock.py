"""A clock that is set back between two runs, faked inside the processes alone."""

import shutil
from pathlib import Path

import pytest

from workflow_runs.checkout import TARGET, Checkout

pytestmark = pytest.mark.faults

TRUE_WAITS = Path(__file__).parent / "true_waits"
"""Holds the module that Python imports at its start."""


class SetBack(Checkout):
    """A checkout whose processes see yesterday."""

    def command(self, study: str) -> list[str]:
        return ["faketime", "-f", "-1d", *super().command(study)]

    @staticmethod
    def environment(**changes: str) -> dict[str, str]:
        """Waits are by the monotonic clock, which nobody sets back: it stays true."""
        untouched = {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1"}
        return Checkout.environment(**untouched, PYTHONPATH=str(TRUE_WAITS), **changes)


def test_a_clock_that_is_set_back_is_reported_and_the_run_continues_when_it_is_right(
    fresh, undisturbed
):
    if shutil.which("faketime") is None:
        pytest.skip("faketime is not installed")
    fresh.snakemake("results/tiny/benchmark/own-counting.parquet")
    output = SetBack(fresh.folder).snakemake(TARGET, check=False)
    assert "older modification time" in output
    assert "clock skew" in output
    assert "Traceback" not in output
    fresh.snakemake(TARGET)
    assert fresh.parquet() == undisturbed.parquet()
    assert "Nothing to be done" in fresh.snakemake("--dry-run", TARGET)
