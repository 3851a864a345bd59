"""Two runs of one study at once, and the lock of a run that is gone."""

import os
import signal
import time

import pytest

from workflow_runs.checkout import TARGET, list_user_messages

pytestmark = pytest.mark.faults


def halted(checkout):
    """A run that holds its study and does not move."""
    running = checkout.start(TARGET)
    deadline = time.monotonic() + 60
    while not (checkout.folder / ".snakemake/waltz/tiny.json").exists():
        assert running.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    running.send_signal(signal.SIGSTOP)
    return running


def test_the_second_says_who_runs_it_and_the_first_goes_on(fresh, undisturbed):
    running = halted(fresh)
    output = fresh.snakemake(TARGET, check=False)
    (line,) = list_user_messages(output)
    assert f"study tiny is being run by another snakemake (process {running.pid} on" in line
    assert "Directory cannot be locked" in output
    running.send_signal(signal.SIGCONT)
    assert running.wait() == 0
    assert fresh.parquet() == undisturbed.parquet()
    assert "waltz: " not in fresh.snakemake("--dry-run", TARGET)


def test_the_lock_of_a_dead_run_differs_from_a_live_one(fresh, undisturbed):
    running = halted(fresh)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    output = fresh.snakemake(TARGET, check=False)
    (line,) = list_user_messages(output)
    assert f"the last run of study tiny (process {running.pid} on" in line
    assert line.endswith("was killed and left its lock; run: snakemake --unlock")
    fresh.snakemake("--unlock")
    fresh.snakemake(TARGET)
    assert fresh.parquet() == undisturbed.parquet()
