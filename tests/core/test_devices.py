import multiprocessing
import time

import pytest
import torch

from waltz.core import devices


@pytest.fixture
def gpus(monkeypatch, tmp_path):
    """Pretend that some GPUs are visible."""

    def pretend(count, visible=None, slurm=False):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(devices, "LOCK_FOLDER", tmp_path)
        for name, value in (("CUDA_VISIBLE_DEVICES", visible), ("SLURM_JOB_ID", "1" if slurm else None)):
            monkeypatch.delenv(name, raising=False)
            if value is not None:
                monkeypatch.setenv(name, value)

    return pretend


@pytest.mark.parametrize(
    ("count", "visible", "slurm", "requested", "name"),
    [
        (0, None, False, 1, "cpu"),
        (2, None, False, 0, "cpu"),
        (2, None, False, 1, "cuda:0"),
        (1, "3", True, 1, "cuda:0"),
        (2, None, True, 1, "cpu"),  # Slurm leaves the variable unset for a job without a GPU
    ],
)
def test_device_of_a_job(gpus, count, visible, slurm, requested, name):
    gpus(count, visible, slurm)
    with devices.lease_device(requested, 1) as device:
        assert device.name == name


def test_two_leases_never_share_a_gpu_and_a_third_waits(gpus):
    gpus(2, "4,7")
    with devices.lease_device(1, 1) as first, devices.lease_device(1, 1) as second:
        assert {first.name, second.name} == {"cuda:0", "cuda:1"}
        assert {first.reason, second.reason} == {"leased GPU 4", "leased GPU 7"}
        third = multiprocessing.get_context("fork").Process(target=_lease)
        third.start()
        third.join(timeout=1.0)
        assert third.is_alive()
    started = time.monotonic()
    third.join(timeout=20)
    assert third.exitcode == 0
    assert time.monotonic() - started < 20


def _lease():
    with devices.lease_device(1, 1):
        pass


def test_torch_uses_the_granted_threads(gpus):
    gpus(0)
    before = torch.get_num_threads()
    with devices.lease_device(0, 1) as device:
        assert (device.threads, torch.get_num_threads()) == (1, 1)
    torch.set_num_threads(before)
