"""Whose run of a study it is, told by a lock that ends with its process."""

import os
import signal
import subprocess
import sys

import pytest

from waltz.core import run_lock

HOLDING = """
import sys, time
from pathlib import Path
from waltz.core.holding import hold
hold("small", Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def other(tmp_path):
    """Another process that runs the study."""
    path = os.pathsep.join(filter(None, sys.path))
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_nothing_is_said_of_a_study_that_nobody_runs(tmp_path):
    assert list(run_lock.describe_other_run("small", tmp_path)) == []


def test_a_run_that_goes_on_is_named(tmp_path, other):
    (line,) = run_lock.describe_other_run("small", tmp_path)
    assert line.startswith(f"study small is being run by another snakemake (process {other.pid} on ")
    assert list(run_lock.describe_other_run("large", tmp_path)) == []


def test_a_second_run_beside_it_leaves_it_the_lock(tmp_path, other):
    run_lock.hold_study("small", tmp_path)
    (line,) = run_lock.describe_other_run("small", tmp_path)
    assert f"process {other.pid} " in line


def test_a_killed_run_is_told_from_one_that_goes_on_and_from_one_that_ended(tmp_path, other):
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert list(run_lock.describe_other_run("small", tmp_path)) == []
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "0.input.lock").touch()
    (line,) = run_lock.describe_other_run("small", tmp_path)
    assert f"(process {other.pid} on " in line
    assert line.endswith("was killed and holds nothing any more: snakemake --unlock")
