"""Ctrl-C in a command that runs Snakemake: Snakemake ends by itself, and jobs show no traceback."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from waltz.core.job_records import log_job
from waltz.snakemake_compat import HIDE_INTERRUPTS

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
COMMAND = """
import pathlib
from waltz.cli.run.checkout import start_snakemake
start_snakemake([], pathlib.Path.cwd())
"""


def test_snakemake_ends_by_itself_and_releases_its_lock(tmp_path):
    (tmp_path / "snakemake.py").write_text(SNAKEMAKE)
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{WORKFLOW}"},
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    lock = tmp_path / "lock"
    while not lock.exists():
        assert process.poll() is None
        time.sleep(0.05)
    for _ in range(3):  # pressed again and again, by somebody without patience
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.1)
    process.wait(30)
    assert not lock.exists()


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
