"""The logger of a run: texts as they are, a line a minute off a terminal, options that Snakemake
cannot read.
"""

import io
import os
import pty
import subprocess
import sys
import threading
from logging import LogRecord
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from snakemake_logger_plugin_waltz import LogHandler
from snakemake_logger_plugin_waltz.progress_lines import ProgressLines

ROOT = Path(__file__).parents[2]


@pytest.fixture
def build_logger(monkeypatch):
    """Return a function that builds a logger without a terminal, with the output that it writes."""
    handlers = []

    def build(**changes):
        output = io.StringIO()
        monkeypatch.setattr(sys, "stderr", output)
        settings = {
            "printshellcmds": False,
            "quiet": None,
            "verbose": False,
            "show_failed_logs": False,
        }
        settings |= {
            "nocolor": True,
            "debug_dag": False,
            "stdout": False,
            "dryrun": False,
            **changes,
        }
        handlers.append(LogHandler(SimpleNamespace(**settings), None))
        return handlers[-1], output

    yield build
    for handler in handlers:
        handler.close()


def emit(handler, event=None, message="", **values):
    record = LogRecord("snakemake", 20, __file__, 1, message, None, None)
    record.__dict__.update({"event": event, **values} if event else values)
    handler.emit(record)


def start_job(handler, job=1, **wildcards):
    values = {"rule_name": "align", "rule_msg": "m [x] :key:", "reason": "r [x] :key:"}
    emit(
        handler, LogEvent.JOB_INFO, jobid=job, wildcards=wildcards, threads=1, **values
    )


NAME = "models/[x]/[/bold]/:key:/" + "long/" * 40 + "end"


def test_names_of_a_failed_job_are_shown_as_they_are(tmp_path, build_logger):
    log = tmp_path / "[x] :key:" / "a:b.log"
    log.parent.mkdir()
    log.write_text("waltz: [bold]why[/bold] [/] :key:\n")
    handler, output = build_logger()
    emit(handler, LogEvent.RUN_INFO, stats={"align": 1, "total": 1})
    start_job(handler, model=NAME)
    failure = "SLURM-job [x] ran out of :memory:"
    emit(
        handler,
        LogEvent.JOB_ERROR,
        jobid=1,
        rule_msg=failure,
        log=[str(log), "gone.log"],
    )
    for text in (
        f"model: {NAME}\n",
        f"message: {failure}\n",
        f"log file {log}:\n",
        "waltz: [bold]why[/bold] [/] :key:\n",
        "cannot be read: No",
    ):
        assert text in output.getvalue()
    assert "Traceback" not in output.getvalue()


def test_jobs_of_a_verbose_run_are_listed_with_their_texts(build_logger):
    handler, output = build_logger(verbose=True)
    start_job(handler, model=NAME)
    emit(handler, LogEvent.JOB_FINISHED, job_id=1)
    assert output.getvalue().count(f"model: {NAME}\n") == 2
    assert "message: m [x] :key:\n" in output.getvalue()
    handler, output = build_logger(verbose=True, dryrun=True)
    start_job(handler, model=NAME)
    assert "reason: r [x] :key:\n" in output.getvalue()


@pytest.mark.parametrize(
    "message", [f"Complete log(s): /a:b/{NAME}", f"waltz: {NAME}: no such file"]
)
def test_messages_are_shown_as_they_are(build_logger, message):
    handler, output = build_logger()
    emit(handler, message=message)
    emit(handler, LogEvent.ERROR, message=message)
    assert output.getvalue().count(f"{message}\n") == 2


def test_a_dry_run_shows_only_reasons_that_name_a_change(build_logger):
    handler, output = build_logger(dryrun=True)
    reasons = (
        "code has changed since last execution:\n        align, table",
        "input files updated by another job:\n        all, table",
        "output files have to be generated:\n        align",
    )
    head = "Reasons:\n    (check individual jobs above for details)"
    emit(handler, message="\n    ".join([head, *reasons]))
    assert output.getvalue() == "code has changed since last execution: align, table\n"


def test_a_workflow_with_odd_names_is_begun(build_logger):
    handler, output = build_logger()
    emit(
        handler,
        LogEvent.WORKFLOW_STARTED,
        workflow_id=uuid4(),
        snakefile="[x]/Snakefile",
    )
    emit(handler, message="Creating conda environment envs/[x].yaml...")
    assert "Traceback" not in output.getvalue()


class Clock:
    """A clock that is set by hand."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


def test_a_line_has_done_total_failed_and_time_left():
    clock = Clock()
    lines = ProgressLines(lambda _: None, clock)
    lines.start(12)
    lines.count_start(1, "align clip/pairs")
    lines.count_start(2, "align clip/own")
    clock.seconds = 60
    expected = "2 running (align clip/pairs, align clip/own), time left unknown"
    assert lines.describe() == f"0 of 12 jobs done, 0 failed, {expected}"
    lines.count_end(1, is_done=True)
    lines.count_end(2, is_done=False)
    clock.seconds = 360
    # one in 360 s, ten are left
    assert (
        lines.describe()
        == "1 of 12 jobs done, 1 failed, 0 running, about 1 h 0 min left"
    )
    lines.count_start(2, "align clip/own")
    lines.count_end(2, is_done=True)
    for job in range(3, 8):
        lines.count_start(job, f"align {job}")
    assert lines.describe().startswith(
        "2 of 12 jobs done, 0 failed, 5 running (align 3, align 4, align 5 and 2 more), "
    )
    clock.seconds = 366
    for job in range(3, 12):
        lines.count_end(job, is_done=True)
    assert lines.describe().endswith(", about 1 min left")
    lines.stop()


def test_lines_come_at_their_times_until_the_run_ends():
    printed = []
    two_lines = threading.Event()

    def print_line(line):
        printed.append(line)
        if len(printed) == 2:
            two_lines.set()

    lines = ProgressLines(print_line, seconds=0.01)
    lines.start(3)
    assert two_lines.wait(60)
    lines.stop()
    lines._thread.join(60)
    assert not lines._thread.is_alive()
    assert printed[0].endswith(
        "  0 of 3 jobs done, 0 failed, 0 running, time left unknown"
    )


def test_events_are_counted_without_a_terminal(monkeypatch, build_logger):
    monkeypatch.setenv("FORCE_COLOR", "1")
    handler, output = build_logger()
    lines = handler.event_handler.lines
    emit(handler, LogEvent.RUN_INFO, stats={"align": 4, "total": 4})
    for job in (1, 2, 3):
        start_job(handler, job, model="clip", group="pairs")
    emit(handler, LogEvent.JOB_FINISHED, job_id=1)
    emit(handler, LogEvent.JOB_ERROR, jobid=2, rule_msg=None, log=[])
    assert lines.describe().startswith(
        "1 of 4 jobs done, 1 failed, 1 running (align clip/pairs), about "
    )
    emit(
        handler,
        LogEvent.GROUP_ERROR,
        groupid="g",
        aux_logs=[],
        job_error_info=[{"jobid": 3, "log": []}],
    )
    assert lines.describe().startswith("1 of 4 jobs done, 2 failed, 0 running, ")
    # No bars, whatever FORCE_COLOR says.
    assert "Workflow Progress" not in output.getvalue()
    handler.close()
    assert lines._is_stopped.is_set()


def test_a_terminal_has_bars_instead(monkeypatch, build_logger):
    main, terminal = pty.openpty()
    with os.fdopen(main), os.fdopen(terminal, "w") as file:
        monkeypatch.setattr(io, "StringIO", lambda: file)
        monkeypatch.setenv("TERM", "xterm")
        assert build_logger()[0].event_handler.lines is None
        monkeypatch.setenv("TERM", "dumb")
        assert build_logger()[0].event_handler.lines is not None


def test_the_logger_imports_nothing_of_waltz():
    # Snakemake imports it before the Snakefile, which says from which checkout to import waltz
    program = "import sys, snakemake_logger_plugin_waltz; print([n for n in sys.modules if n.split('.')[0] == 'waltz'])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}
    command = [sys.executable, "-c", program]
    assert (
        subprocess.run(command, env=environment, capture_output=True, text=True).stdout
        == "[]\n"
    )


def test_a_missing_study_file_is_one_line():
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--dry-run",
        "--configfile",
        "no.yaml",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert result.returncode == 1
    message = (
        "waltz: no.yaml: cannot be read: No such file or directory; check the path"
    )
    assert result.stderr.splitlines()[1:] == [message]
