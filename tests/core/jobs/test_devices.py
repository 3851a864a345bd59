import multiprocessing
import os
import tempfile
import time
from pathlib import Path

import pytest
import torch

from waltz.core.errors import UserError
from waltz.core.jobs import devices

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def gpus(monkeypatch, tmp_path):
    """Pretend that some GPUs are visible."""

    def pretend(count, visible=None, slurm=False):
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(devices, "LOCK_FOLDER", tmp_path / "locks")
        for name, value in (
            ("CUDA_VISIBLE_DEVICES", visible),
            ("SLURM_JOB_ID", "1" if slurm else None),
        ):
            # So that the end of the test restores it.
            monkeypatch.setenv(name, value or "")
            if value is None:
                monkeypatch.delenv(name)

    return pretend


@pytest.fixture
def lease_elsewhere():
    """Hold a lease in another process, as a job does, and return the process and what it sees."""
    processes = []

    def start(count, uid=0, seconds=30.0):
        receiver, sender = FORK.Pipe(duplex=False)
        process = FORK.Process(target=_lease, args=(count, uid, seconds, sender))
        process.start()
        processes.append(process)
        return process, receiver

    yield start
    for process in processes:
        process.kill()
        process.join()


def _lease(count, uid, seconds, sender):
    if uid:
        os.setuid(uid)
    try:
        with devices.lease_device(count, 1) as device:
            sender.send((device.name, os.environ["CUDA_VISIBLE_DEVICES"]))
            time.sleep(seconds)
    except UserError as error:
        sender.send(str(error))


@pytest.mark.parametrize(
    ("count", "visible", "slurm", "requested", "name"),
    [
        (0, None, False, 1, "cpu"),
        (2, None, False, 0, "cpu"),
        (2, None, False, 1, "cuda:0"),
        (1, "3", True, 1, "cuda:0"),
        # Slurm leaves the variable unset for a job without a GPU.
        (
            2,
            None,
            True,
            1,
            "cpu",
        ),
    ],
)
def test_device_of_a_job(gpus, count, visible, slurm, requested, name):
    gpus(count, visible, slurm)
    with devices.lease_device(requested, 1) as device:
        assert device.name == name


@pytest.mark.parametrize("slurm", [False, True])
def test_jobs_see_only_their_own_gpus_and_wait_for_as_many_as_they_request(
    gpus, lease_elsewhere, slurm
):
    gpus(4, "2,4,7,9", slurm)
    pair, seen_by_pair = lease_elsewhere(2)
    assert seen_by_pair.recv() == ("cuda:0", "2,4")
    _, seen_by_third = lease_elsewhere(1)
    assert seen_by_third.recv() == ("cuda:0", "7")
    _, seen_by_waiting = lease_elsewhere(2)
    assert not seen_by_waiting.poll(1.0)
    _, seen_by_fourth = lease_elsewhere(1)  # the waiting job holds none meanwhile
    assert seen_by_fourth.recv() == ("cuda:0", "9")
    pair.kill()
    assert seen_by_waiting.recv() == ("cuda:0", "2,4")


def test_slurm_jobs_number_their_own_gpus_so_that_their_locks_differ(
    gpus, lease_elsewhere, monkeypatch
):
    gpus(1, "0", slurm=True)
    _, seen_by_first = lease_elsewhere(1)
    assert seen_by_first.recv() == ("cuda:0", "0")
    monkeypatch.setenv("SLURM_JOB_ID", "2")
    _, seen_by_second = lease_elsewhere(1)
    assert seen_by_second.recv() == ("cuda:0", "0")


def test_a_process_that_leases_again_shares_its_own_gpu(gpus):
    gpus(2, "4,7")
    with devices.lease_device(1, 1) as first:
        gpus_seen = os.environ["CUDA_VISIBLE_DEVICES"]
        with devices.lease_device(1, 1) as second:
            assert first == second
    assert os.environ["CUDA_VISIBLE_DEVICES"] == gpus_seen == "4"


def test_a_process_whose_cuda_has_started_leases_the_first_gpu(
    gpus, lease_elsewhere, monkeypatch
):
    gpus(2)
    holder, seen = lease_elsewhere(1, seconds=1.0)
    assert seen.recv() == ("cuda:0", "0")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    # GPU 1 is free, but `cuda:0` is GPU 0 for good.
    with devices.lease_device(1, 1) as device:
        assert not torch.backends.cudnn.allow_tf32
        holder.join(timeout=5)
        assert holder.exitcode == 0
        assert device.reason == "leased GPU 0"


def test_a_job_that_needs_more_gpus_than_it_sees_says_so(gpus):
    gpus(1, "5")
    with (
        pytest.raises(
            UserError, match=r"needs 2 GPUs \(got 1: CUDA_VISIBLE_DEVICES=5\)"
        ),
        devices.lease_device(2, 1),
    ):
        pass


def test_locks_are_for_all_people_of_a_machine(gpus, tmp_path):
    gpus(1)
    before = os.umask(0o077)
    try:
        with devices.lease_device(1, 1):
            assert (tmp_path / "locks").stat().st_mode & 0o7777 == 0o1777
            assert (tmp_path / "locks/0.lock").stat().st_mode & 0o7777 == 0o666
    finally:
        os.umask(before)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two people")
def test_two_people_share_the_gpus_of_a_machine(gpus, lease_elsewhere, monkeypatch):
    gpus(1)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        locks = Path(folder, "locks")
        monkeypatch.setattr(devices, "LOCK_FOLDER", locks)
        locks.mkdir(mode=0o755)
        os.chown(locks, 4001, -1)
        _, answer = lease_elsewhere(1, uid=4002)
        assert f"root should run `chmod 1777 {locks}`" in answer.recv()
        first, seen_by_first = lease_elsewhere(1, uid=4001)
        assert seen_by_first.recv() == ("cuda:0", "0")
        _, seen_by_second = lease_elsewhere(1, uid=4002)
        assert not seen_by_second.poll(1.0)
        first.kill()
        assert seen_by_second.recv() == ("cuda:0", "0")


@pytest.mark.parametrize("kind", ["link", "link to nothing", "file"])
def test_a_link_in_place_of_the_locks_is_not_followed(gpus, tmp_path, kind):
    gpus(1)
    decoy = tmp_path / "decoy"
    decoy.mkdir(mode=0o700)
    if kind == "file":
        (tmp_path / "locks").touch()
    else:
        (tmp_path / "locks").symlink_to(
            decoy if kind == "link" else tmp_path / "absent"
        )
    with (
        pytest.raises(UserError, match=r"locks: is a link or file, not a folder"),
        devices.lease_device(1, 1),
    ):
        pass
    assert decoy.stat().st_mode & 0o7777 == 0o700
    assert not (tmp_path / "absent").exists()
    assert not any(decoy.iterdir())


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_a_link_in_place_of_a_lock_is_not_followed(gpus, tmp_path, kind):
    gpus(1)
    (tmp_path / "locks").mkdir()
    decoy = tmp_path / "decoy"
    decoy.touch(mode=0o600)
    if kind == "folder":
        (tmp_path / "locks/0.lock").mkdir()
    else:
        (tmp_path / "locks/0.lock").symlink_to(decoy)
    with (
        pytest.raises(UserError, match=r"0\.lock: cannot be locked \("),
        devices.lease_device(1, 1),
    ):
        pass
    assert decoy.stat().st_mode & 0o7777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two people")
@pytest.mark.parametrize("permissions", [0o777, 0o700, 0o1770])
def test_the_folder_of_another_person_keeps_its_permissions(
    gpus, lease_elsewhere, monkeypatch, permissions
):
    gpus(1)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o1777)
        locks = Path(folder, "locks")
        monkeypatch.setattr(devices, "LOCK_FOLDER", locks)
        locks.mkdir()
        os.chown(locks, 4001, -1)
        locks.chmod(permissions)
        _, answer = lease_elsewhere(1, uid=4002)
        assert "its owner or root should run `chmod 1777" in answer.recv()
        with (
            pytest.raises(UserError, match="its owner or root should run"),
            devices.lease_device(1, 1),
        ):
            pass  # root neither
        assert locks.stat().st_mode & 0o7777 == permissions


def test_torch_uses_the_granted_threads(gpus):
    gpus(0)
    before = torch.get_num_threads()
    with devices.lease_device(0, 1) as device:
        assert (device.threads, torch.get_num_threads()) == (1, 1)
    torch.set_num_threads(before)
