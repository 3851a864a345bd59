"""Kills at random moments: nothing half-written is taken as whole, and the next run ends in the same bytes."""

import hashlib
import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from rehearsal.server import MIRROR, World, environment, serving
from workflow_runs.checkout import TARGET, copied, jobs_of

pytestmark = pytest.mark.faults

VICTIMS = ("a job", "snakemake", "snakemake and its jobs")
SECONDS = 9.0
"""Within which a kill comes: about what the study takes with another one running."""
HOST = "data.example.org/own.csv"


def check_files(checkout, undisturbed):
    """Check that each Parquet file that is there is that of the undisturbed run."""
    known = undisturbed.parquet()
    for name, content in checkout.parquet().items():
        assert content == known[name], f"{name} is half-written, or another"


def strike(running, victim):
    """Kill a job, Snakemake alone, or everything; nothing where it has ended."""
    if victim == "a job":
        for job in jobs_of(running)[:1]:
            job.send_signal(signal.SIGKILL)
        running.wait()
    elif victim == "snakemake":
        orphans = jobs_of(running)
        running.kill()
        running.wait()
        psutil.wait_procs(orphans, timeout=60)
    else:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()


def goes_on(kill, fresh, undisturbed):
    """Start a run, kill it at its moment, look at what is there, and run again."""
    moment = random.Random(f"kill:{kill}")
    victim = VICTIMS[kill % len(VICTIMS)]
    running = fresh.start(TARGET)
    time.sleep(moment.uniform(0.5, SECONDS))
    if running.poll() is None:
        strike(running, victim)
    check_files(fresh, undisturbed)
    if victim != "a job":
        fresh.snakemake("--unlock")
    fresh.snakemake(TARGET)
    assert fresh.parquet() == undisturbed.parquet()
    assert not list((fresh.folder / "results").rglob("*.tmp"))


def test_runs_that_are_killed_go_on(kills, small, undisturbed, tmp_path):
    # two at a time, since a run is mostly one process after another
    with ThreadPoolExecutor(max_workers=len(kills)) as executor:
        folders = {kill: copied(small, tmp_path / str(kill)) for kill in kills}
        ended = [executor.submit(goes_on, kill, fresh, undisturbed) for kill, fresh in folders.items()]
        for end in ended:
            end.result()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_download_that_is_killed_begins_anew_or_goes_on(share, fresh, undisturbed, tmp_path):
    content = (fresh.folder / "data/own.csv").read_bytes()
    (tmp_path / "own.csv").write_bytes(content)
    checksum = hashlib.sha256(content).hexdigest()
    file = {"url": f"https://{HOST}", "sha256": checksum, "annotations": "data/own-annotations.csv"}
    fresh.change("sources.own.files.own-counting", file)
    world = World({HOST: tmp_path / "own.csv"})
    world.misbehave(MIRROR + HOST, "slow", times=1)
    with serving(world) as address:
        given = environment(address, tmp_path / "home")
        running = fresh.start(TARGET, **given)
        deadline = time.monotonic() + 60
        while not world.request_counts["GET", MIRROR + HOST]:
            assert time.monotonic() < deadline
            assert running.poll() is None
            threading.Event().wait(0.01)
        time.sleep(share)
        strike(running, "snakemake and its jobs")
        assert not list((fresh.folder / "results").rglob("own*.csv"))
        fresh.snakemake("--unlock")
        fresh.snakemake(TARGET, **given)
    (fetched,) = (fresh.folder / "results").rglob("own*.csv")
    assert fetched.read_bytes() == content
    assert fresh.parquet() == undisturbed.parquet()
