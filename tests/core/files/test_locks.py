"""Locks of files, also on file systems that have none."""

import errno
import fcntl
import logging
import os
import subprocess
import sys

import pytest
from filelock import Timeout

from waltz.core.errors import UserError
from waltz.core.files import locks
from waltz.core.jobs import devices, run_lock

HOLDER = """
import errno, fcntl, os, sys, time
from pathlib import Path

def refuse(*_):
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

fcntl.flock = refuse
from waltz.core.jobs.run_lock import hold_study
hold_study("small", Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture(params=[errno.ENOLCK, errno.EOPNOTSUPP])
def without_locks(request, monkeypatch):
    """A file system such as NFS without its lock daemon."""

    def refuse(*_):
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", refuse)
    locks._has_locks.cache_clear()
    yield
    locks._has_locks.cache_clear()


def test_a_file_stands_for_the_lock_where_there_are_none(
    tmp_path, without_locks, caplog
):
    with caplog.at_level(logging.WARNING):
        first, second = (
            locks.build_lock(tmp_path / "a.lock"),
            locks.build_lock(tmp_path / "a.lock"),
        )
        with first.acquire(timeout=0), pytest.raises(Timeout):
            second.acquire(timeout=0)
        with second.acquire(timeout=0):
            pass
    (record,) = caplog.records
    assert f"{tmp_path}: its file system has no locks" in record.message


@pytest.mark.parametrize("exists", [True, False])
def test_a_lock_of_another_person_names_the_owner_and_what_to_do(
    tmp_path, monkeypatch, exists
):
    file = tmp_path / "a.lock"
    if exists:
        file.touch(mode=0o644)

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied", str(file))

    monkeypatch.setattr(locks.FileLock, "acquire", refuse)
    with pytest.raises(UserError) as error, locks.hold_shared_lock(file):
        pass
    path = file if exists else tmp_path
    assert str(error.value) == (
        f"{path}: belongs to {path.owner()}, and this account may not write it (mode"
        f" {path.stat().st_mode & 0o7777:o}); let its owner run: chmod -R a+rwX {tmp_path}"
    )


def test_a_gpu_is_leased_without_locks(tmp_path, without_locks, monkeypatch):
    monkeypatch.setattr(devices, "LOCK_FOLDER", tmp_path / "locks")
    with devices._lease_free_gpus(1, ["0", "1"], "") as leased:
        assert leased == ["0"]


def test_a_run_is_held_without_locks_until_its_process_ends(tmp_path, without_locks):
    path = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        assert process.stdout.readline() == "held\n"
        assert run_lock.read_last_run("small", tmp_path).goes_on
        process.kill()
    assert not run_lock.read_last_run("small", tmp_path).goes_on
