"""Lock of a running study, which ends with its process."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from waltz.core.errors import UserError
from waltz.core.jobs import run_lock
from waltz.core.jobs.interrupts import RUN_SNAKEMAKE

HOLDER = """
import sys, time
from pathlib import Path
from waltz.core.jobs.run_lock import hold_study
folder = Path(sys.argv[1])
hold_study("small", folder, locks=folder.glob("locks/*.lock"))
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


@pytest.fixture
def lock_file(tmp_path):
    """A lock file of Snakemake."""
    file = tmp_path / "locks" / "0.output.lock"
    file.parent.mkdir()
    file.write_text("results/small.parquet\n")
    return file


def change_record(folder, **changes):
    file = folder / "waltz" / "small.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait()


def describe(folder, study="small", output="results/small.parquet"):
    return run_lock.describe_refusal(study, [], [output], folder)


def test_a_run_that_goes_on_is_described_with_its_process(
    tmp_path, lock_file, other_run
):
    line = describe(tmp_path)
    assert line.startswith(
        f"study small is being run by another snakemake (process {other_run.pid} on "
    )
    assert line.endswith("; wait for it, or stop it")
    assert describe(tmp_path, study="large") == line
    with pytest.raises(UserError, match=f"--unlock: .*process {other_run.pid} on"):
        run_lock.check_unlocking(tmp_path)


def test_a_second_run_takes_the_lock_when_the_first_has_ended(
    tmp_path, other_run, monkeypatch
):
    monkeypatch.setattr(run_lock, "POLL_SECONDS", 0.01)
    run_lock.hold_study("small", tmp_path)
    assert (
        f"process {other_run.pid} " in run_lock.read_last_run("small", tmp_path).owner
    )
    kill(other_run)
    deadline = time.monotonic() + 60
    while (
        f"process {os.getpid()} " not in run_lock.read_last_run("small", tmp_path).owner
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert run_lock.read_last_run("small", tmp_path).goes_on


def test_a_run_whose_lock_files_are_gone_still_refuses_a_second_one(
    tmp_path, lock_file, other_run
):
    run_lock.check_study_is_free("small", tmp_path, has_other_targets=True)
    run_lock.check_study_is_free("large", tmp_path)
    lock_file.unlink()
    with pytest.raises(UserError, match=f"process {other_run.pid} on"):
        run_lock.check_study_is_free("small", tmp_path, has_other_targets=True)


def test_a_killed_run_is_unlocked(tmp_path, lock_file, other_run):
    kill(other_run)
    line = describe(tmp_path)
    assert f"(process {other_run.pid} on " in line
    assert line.endswith("was killed and left its lock; run: snakemake --unlock")
    run_lock.check_unlocking(tmp_path)


def test_beside_another_run_only_the_lock_of_the_killed_one_is_removed(
    tmp_path, lock_file, other_run
):
    kill(other_run)
    run_lock.hold_study("large", tmp_path)
    assert describe(tmp_path).endswith(
        f"was killed and left its lock; run: rm {lock_file}"
    )
    run_lock._locks.pop().release()
    (tmp_path / "locks" / "1.output.lock").write_text("results/large.parquet\n")
    assert describe(tmp_path).endswith(
        f"was killed and left its lock; run: rm {lock_file}"
    )


def test_a_later_lock_file_of_the_same_name_is_not_that_of_the_killed_run(
    tmp_path, lock_file, other_run
):
    kill(other_run)
    os.utime(lock_file, ns=(1, 1))
    line = describe(tmp_path)
    assert "killed" not in line
    assert line.startswith(
        f"files of study small are locked by a run without a record ({lock_file}); make sure that"
    )
    assert (
        run_lock.build_unlock_command(
            run_lock.read_last_run("small", tmp_path), tmp_path
        )
        == ""
    )


def test_a_run_of_another_machine_is_never_called_killed(
    tmp_path, lock_file, other_run
):
    kill(other_run)
    change_record(tmp_path, host="elsewhere")
    line = describe(tmp_path)
    assert f"(process {other_run.pid} on elsewhere, since " in line
    assert "or was killed there, which cannot be seen from here" in line
    assert line.endswith(f"only where that machine is gone, run: rm {lock_file}")
    assert "--unlock" not in line
    assert (
        run_lock.build_unlock_command(
            run_lock.read_last_run("small", tmp_path), tmp_path
        )
        == ""
    )
    lock_file.unlink()
    assert run_lock.list_going_on(tmp_path) == []


def test_the_number_of_an_ended_process_may_be_that_of_another(
    tmp_path, lock_file, other_run
):
    kill(other_run)
    change_record(tmp_path, pid=os.getppid())
    assert run_lock.read_last_run("small", tmp_path).was_killed


def test_a_process_whose_lock_has_been_removed_still_goes_on(
    tmp_path, lock_file, other_run
):
    (tmp_path / "waltz" / "small.lock").unlink()
    assert describe(tmp_path).endswith("; wait for it, or stop it")
    other_run.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, other_run.pid, os.WEXITED | os.WNOWAIT)
    assert psutil.Process(other_run.pid).status() == psutil.STATUS_ZOMBIE
    assert run_lock.read_last_run("small", tmp_path).was_killed


@pytest.mark.skipif(os.getuid() == 0, reason="root may open every file")
def test_a_lock_that_cannot_be_opened_is_not_judged(tmp_path, lock_file, other_run):
    kill(other_run)
    (tmp_path / "waltz" / "small.lock").chmod(0o000)
    assert not run_lock.read_last_run("small", tmp_path).is_visible
    assert "--unlock" not in describe(tmp_path)


def test_unlocking_is_refused_while_a_run_elsewhere_may_go_on(
    tmp_path, lock_file, other_run
):
    kill(other_run)
    change_record(tmp_path, host="elsewhere")
    with pytest.raises(
        UserError, match=f"--unlock: .* on elsewhere, .* run: rm {lock_file}"
    ):
        run_lock.check_unlocking(tmp_path)
    lock_file.unlink()
    run_lock.check_unlocking(tmp_path)


def test_an_older_record_names_no_lock_files(tmp_path, lock_file, other_run):
    kill(other_run)
    file = tmp_path / "waltz" / "small.json"
    record = json.loads(file.read_text())
    record.pop("locks")
    file.write_text(json.dumps(record))
    assert "without a record" in describe(tmp_path)


@pytest.mark.parametrize("arguments", [["-m", "snakemake"], ["-c", RUN_SNAKEMAKE]])
def test_a_run_without_a_record_is_found_among_the_processes(tmp_path, arguments):
    checkout = tmp_path / "checkout"
    folder = checkout / ".snakemake"
    (folder / "locks").mkdir(parents=True)
    (folder / "locks" / "0.output.lock").write_text("results/small.parquet\n")
    program = checkout / "snakemake.py"
    program.write_text("import time; print(flush=True); time.sleep(60)")
    with subprocess.Popen(
        [sys.executable, *arguments], cwd=checkout, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        line = describe(folder)
        process.kill()
    assert line.endswith(
        f"and snakemake runs in this folder (process {process.pid}); wait for it"
    )


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[" * 10**5,
        "[]",
        "{}",
        '{"pid": 1, "host": "a", "since": "x", "files": [], "targets": []}',
        '{"pid": 1, "host": "a", "since": "2026-01-01 00:00:00", "files": [], "targets": [], "locks": 1}',
        '{"pid": -5, "host": "a", "since": "2026-01-01 00:00:00", "files": [], "targets": []}',
        '{"pid": 1, "host": "a", "since": "2026-01-01 00:00:00", "files": [], "targets": [],'
        ' "locks": {"a\\u0000b": 1}}',
    ],
)
def test_a_damaged_record_is_that_of_no_run(tmp_path, content):
    run_lock.hold_study("small", tmp_path)
    (tmp_path / "waltz" / "small.json").write_text(content)
    assert run_lock.read_last_run("small", tmp_path) is None
    assert run_lock.list_study_runs(tmp_path) == []


def test_a_run_whose_study_file_has_a_name_that_is_not_utf8_is_recorded(tmp_path):
    file = os.fsdecode(b"/home/m\xfcller/study.yaml")
    run_lock.hold_study("small", tmp_path, files=[file])
    assert run_lock.read_last_run("small", tmp_path).files == (file,)
