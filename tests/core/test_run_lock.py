"""Lock of a running study, which ends with its process."""

import os
import signal
import subprocess
import sys

import pytest

from waltz.core import run_lock

HOLDER = """
import sys, time
from pathlib import Path
from waltz.core.run_lock import hold_study
hold_study("small", Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def other_run(tmp_path):
    """Another process that runs the study."""
    path = os.pathsep.join(filter(None, sys.path))
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_study_without_a_run_has_no_description(tmp_path):
    assert list(run_lock.describe_other_run("small", tmp_path)) == []


def test_a_run_that_goes_on_is_described_with_its_process(tmp_path, other_run):
    (line,) = run_lock.describe_other_run("small", tmp_path)
    assert line.startswith(f"study small is being run by another snakemake (process {other_run.pid} on ")
    assert list(run_lock.describe_other_run("large", tmp_path)) == []


def test_a_second_run_does_not_take_the_lock(tmp_path, other_run):
    run_lock.hold_study("small", tmp_path)
    (line,) = run_lock.describe_other_run("small", tmp_path)
    assert f"process {other_run.pid} " in line


def test_a_killed_run_is_described_if_it_left_a_lock_of_snakemake(tmp_path, other_run):
    other_run.send_signal(signal.SIGKILL)
    other_run.wait()
    assert list(run_lock.describe_other_run("small", tmp_path)) == []
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "0.input.lock").touch()
    (line,) = run_lock.describe_other_run("small", tmp_path)
    assert f"(process {other_run.pid} on " in line
    assert line.endswith("was killed and left its lock; run: snakemake --unlock")


@pytest.mark.parametrize(
    "content", ["", "{", "[" * 10**5, "[]", "{}", '{"pid": 1, "host": "a", "since": "x", "files": [], "targets": []}']
)
def test_a_damaged_record_is_that_of_no_run(tmp_path, content):
    run_lock.hold_study("small", tmp_path)
    (tmp_path / "waltz" / "small.json").write_text(content)
    assert run_lock.read_last_run("small", tmp_path) is None
    assert list(run_lock.describe_other_run("small", tmp_path)) == []
