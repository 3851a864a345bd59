"""A disk that is full, and one that may not be written."""

import subprocess
from contextlib import contextmanager

import pytest

from workflow_runs.checkout import TARGET

pytestmark = pytest.mark.faults


@contextmanager
def mounted(folder, options):
    """A file system in memory at a folder, where this process may mount one."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def remount(folder, options):
    subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)


def size(checkout):
    """Kilobytes of a checkout's results, whole pages each."""
    files = [
        path for path in (checkout.folder / "results").rglob("*") if path.is_file()
    ]
    return sum(4 * -(-path.stat().st_size // 4096) for path in files)


@pytest.mark.parametrize("share", [0.4, 0.8])
def test_a_full_disk_is_reported_and_the_run_continues_when_there_is_space(
    share, fresh, undisturbed
):
    results = fresh.folder / "results"
    with mounted(results, f"size={int(share * size(undisturbed))}k"):
        output = fresh.snakemake(TARGET, check=False)
        assert "no space is left; make room and run again" in output
        known = undisturbed.parquet()
        assert all(content == known[name] for name, content in fresh.parquet().items())
        remount(results, "size=64m")
        fresh.snakemake(TARGET)
        assert fresh.parquet() == known
        assert not list(results.rglob("*.tmp"))


def test_results_without_write_permission_are_reported(fresh, undisturbed):
    results = fresh.folder / "results"
    with mounted(results, "size=64m"):
        remount(results, "ro")
        output = fresh.snakemake(TARGET, check=False)
        assert "read-only" in output.lower()
        assert "results" in output
        remount(results, "rw")
        fresh.snakemake("--unlock")
        fresh.snakemake(TARGET)
        assert fresh.parquet() == undisturbed.parquet()
