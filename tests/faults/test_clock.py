"""A clock that is set back between two runs, faked inside the processes alone."""

import shutil

import pytest

from workflow_checkout import TARGET, Checkout


class SetBack(Checkout):
    """A checkout whose processes see yesterday."""

    def command(self, study: str) -> list[str]:
        return ["faketime", "-f", "-1d", *super().command(study)]


def test_a_clock_that_is_set_back_changes_nothing(fresh, undisturbed):
    if shutil.which("faketime") is None:
        pytest.skip("faketime is not installed")
    fresh.snakemake("results/tiny/benchmark/own-counting.parquet")
    SetBack(fresh.folder).snakemake(TARGET)
    assert fresh.parquet() == undisturbed.parquet()
    assert "Nothing to be done" in fresh.snakemake("--dry-run", TARGET)
    assert "Nothing to be done" in SetBack(fresh.folder).snakemake("--dry-run", TARGET)
