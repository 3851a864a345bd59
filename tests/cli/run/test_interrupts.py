"""Ctrl-C in a command that runs Snakemake: Snakemake ends by itself, and jobs show no traceback."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from waltz.core.jobs.interrupts import HIDE_INTERRUPTS, delay_interrupts
from waltz.core.jobs.records import log_job

WORKFLOW = Path(__file__).parents[3] / "workflow"
SNAKEMAKE = """
import pathlib, signal, time
pathlib.Path("lock").touch()
try:
    time.sleep(60)
except KeyboardInterrupt:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(1)  # subprocess.run would kill it after 0.25 s
    pathlib.Path("lock").unlink()
"""
IMPORTS = 'import pathlib, time; pathlib.Path("lock").touch(); time.sleep(60)'
COMMAND = """
import pathlib
from waltz.cli.run.checkout import start_snakemake
start_snakemake([], pathlib.Path.cwd())
"""


@pytest.fixture(autouse=True)
def heed_interrupts():
    """Let interrupts reach tests and their processes, also where a shell without job control runs
    the tests in the background and ignores them.
    """
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


def start_command(folder, snakemake):
    """Start a command of waltz with a program in place of Snakemake, and wait for file `lock`."""
    (folder / "snakemake.py").write_text(snakemake)
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder}:{WORKFLOW}"},
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (folder / "lock").exists():
        assert process.poll() is None
        time.sleep(0.05)
    return process


def test_snakemake_ends_by_itself_and_releases_its_lock(tmp_path):
    process = start_command(tmp_path, SNAKEMAKE)
    for _ in range(3):  # pressed again and again, by somebody without patience
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.1)
    process.communicate(timeout=30)
    assert not (tmp_path / "lock").exists()


def test_snakemake_that_still_imports_shows_no_traceback(tmp_path):
    process = start_command(tmp_path, IMPORTS)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert "time.sleep" not in errors  # a line of Snakemake's traceback


def test_interrupts_wait_for_the_end_of_the_block():
    steps = []

    def run_block():
        with delay_interrupts():
            # To this thread: one of the others, as a worker of the tests has, would not delay it.
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            steps.append("interrupted")

    with pytest.raises(KeyboardInterrupt):
        run_block()
    assert steps == ["interrupted"]


@pytest.mark.parametrize("code", ["raise KeyboardInterrupt", "raise ValueError"])
def test_scripts_show_tracebacks_of_faults_alone(tmp_path, code):
    (tmp_path / "script.py").write_text(HIDE_INTERRUPTS + code + "\n")
    result = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(WORKFLOW)},
        capture_output=True,
        text=True,
    )
    assert result.returncode != 0
    assert ("Traceback" in result.stderr) == ("ValueError" in code)


def test_a_job_that_is_stopped_says_so_in_its_log(tmp_path, capsys):
    log = tmp_path / "job.log"
    with pytest.raises(SystemExit), log_job(log):
        raise KeyboardInterrupt
    assert "stopped by Ctrl-C" in log.read_text()
    assert not capsys.readouterr().err
