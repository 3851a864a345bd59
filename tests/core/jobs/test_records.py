"""Run records of jobs, their logs, and the errors that they show in one line."""

import errno
import json
import logging
import os

import pytest

from waltz.core.errors import UserError
from waltz.core.jobs.records import log_job, show_progress, write_record


def test_a_user_error_is_one_line_without_traceback(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop, log_job(tmp_path / "logs" / "a.log"):
        raise UserError("a.json: id 'x': field 'foil' is missing")
    assert stop.value.code == 1
    assert capsys.readouterr().err == "waltz: a.json: id 'x': field 'foil' is missing\n"
    assert "Traceback" not in (tmp_path / "logs" / "a.log").read_text()


def test_a_fault_of_the_program_leaves_its_traceback_in_the_log(tmp_path, capsys):
    log = tmp_path / "a.log"
    with pytest.raises(SystemExit):
        _fail_in_a_job(log)
    assert "traceback in" in capsys.readouterr().err
    text = log.read_text()
    assert "so far" in text
    assert "KeyError: 'missing'" in text


def _fail_in_a_job(log):
    with log_job(log):
        logging.getLogger("waltz").info("so far")
        _ = {}["missing"]


def test_the_log_has_the_progress_of_a_job_once_a_minute(tmp_path, monkeypatch, capsys):
    log = tmp_path / "a.log"
    with log_job(log), show_progress(4, "item", "clip [x]") as bar:
        for seconds in (20.0, 61.0, 100.0, 125.0):
            monkeypatch.setattr(
                bar, "_time", lambda seconds=seconds: bar.start_t + seconds
            )
            bar.update(1)
    lines = [line.partition(": ")[2] for line in log.read_text().splitlines()]
    assert [line.partition(", ")[0] for line in lines] == [
        "clip [x]: 0 of 4 items",
        "clip [x]: 2 of 4 items",
        "clip [x]: 4 of 4 items",
    ]
    assert lines[1].endswith("01:01 so far, 01:01 left")
    assert capsys.readouterr() == ("", "")


def test_the_progress_of_an_unknown_number_has_no_time_left(tmp_path):
    with log_job(tmp_path / "a.log"), show_progress(0, "generation", "gemma"):
        pass
    assert "gemma: 0 of ? generations" in (tmp_path / "a.log").read_text()


def test_a_run_record_contains_the_facts_and_the_environment(tmp_path):
    write_record(
        tmp_path / "a.run.json",
        rows_in=2,
        rows_out=4,
        seconds=1.5,
        model={"name": "tiny"},
    )
    record = json.loads((tmp_path / "a.run.json").read_text())
    assert (record["rows_in"], record["rows_out"], record["wall_seconds"]) == (
        2,
        4,
        1.5,
    )
    assert record["model"] == {"name": "tiny"}
    assert record["packages"]["pyarrow"]
    assert record["peak_memory_mb"] > 10


def test_control_characters_in_an_id_are_escaped(tmp_path, capsys):
    with pytest.raises(SystemExit), log_job(tmp_path / "a.log"):
        raise UserError("a.json: id 'x\x1b[2J\x00\u202ey\n': é and 🦓 stay")
    assert (
        capsys.readouterr().err
        == "waltz: a.json: id 'x\\x1b[2J\\x00\\u202ey\\n': é and 🦓 stay\n"
    )


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "no space is left"),
        (errno.EROFS, "the file system is read-only"),
        (errno.EACCES, "permission"),
    ],
)
def test_errors_of_the_system_about_files_are_one_line_without_traceback(
    tmp_path, capsys, number, message
):
    with pytest.raises(SystemExit), log_job(tmp_path / "a.log"):
        raise OSError(number, os.strerror(number), "results/a.parquet")
    assert f"waltz: results/a.parquet: {message}" in capsys.readouterr().err
    assert "Traceback" not in (tmp_path / "a.log").read_text()


def test_other_errors_of_the_system_are_faults_of_the_program(tmp_path, capsys):
    with pytest.raises(SystemExit), log_job(tmp_path / "a.log"):
        raise OSError(errno.EPIPE, "Broken pipe")
    assert "traceback in" in capsys.readouterr().err


def test_logs_and_tracebacks_hold_no_secret(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("WALTZ_API_KEY", "it-is-secret")

    def fail():
        logging.getLogger("urllib3").warning(
            "Retrying after error: /a?token=%s", "it-is-secret"
        )
        raise ValueError(
            "Max retries exceeded with url: /a?token=other-secret; Bearer it-is-secret"
        )

    with pytest.raises(SystemExit), log_job(tmp_path / "a.log"):
        fail()
    text = (tmp_path / "a.log").read_text() + capsys.readouterr().err
    assert "Traceback" in text
    assert "<WALTZ_API_KEY>" in text
    assert "secret" not in text.replace("hold_no_secret", "")  # the name of this test
