"""Kills at random moments: nothing half-written is taken as whole, and the next run ends in the
same bytes.
"""

import csv
import hashlib
import os
import random
import re
import shutil
import signal
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import psutil
import pytest

from rehearsal.server import MIRROR, World, environment, serving
from waltz.core.files import result_cache
from workflow_runs.checkout import TARGET, copied, jobs_of

pytestmark = pytest.mark.faults

VICTIMS = ("job", "snakemake", "all")
WEIGHTS = (30, 1, 1)
"""Of 32 kills, two end Snakemake, which takes seconds to start again; a job that was killed starts
at once.
"""
MOMENTS = {"any": 3.0, "working": 0.5, "writing": 0.0}
"""Seconds within which a kill of a job comes: after it began, after it opened its log (its imports
are over then), and after a temporary file or journal appeared.
"""
RUN_SECONDS = 6.0
"""Within which Snakemake is killed after it was started: about what the study takes."""
WORKERS = 2
HOST = "data.example.org/own.csv"


@dataclass(frozen=True)
class Kill:
    """One kill, and what was in the results after it.

    Attributes:
        number: Seed of its victim and moment.
        run: Number of the run that was disturbed; each ends undisturbed before the next one begins.
        victim: `job`, `snakemake` (its jobs go on) or `all`.
        moment: `any`, `working` or `writing`, as in MOMENTS.
        step: What the job did, by its log file; `-` where it had opened none, or Snakemake had no
            job.
        seconds: Time from the start of the job, or of Snakemake, to the kill.
        complete: Number of files under their final names, each equal to that of the undisturbed
            run.
        unfinished: Number of temporary files and journals, which no step reads.
    """

    number: int
    run: str
    victim: str
    moment: str
    step: str
    seconds: str
    complete: int
    unfinished: int


def read_results(checkout):
    """Content of each file under its final name, without what differs between runs: times and
    memory.
    """
    files = {}
    for path in sorted((checkout.folder / "results").rglob("*")):
        with suppress(FileNotFoundError):  # it was renamed or removed meanwhile
            if (
                path.is_file()
                and not is_unfinished(path)
                and path.parent.name != result_cache.FOLDER
            ):
                content = path.read_bytes()
                if path.name.endswith(".run.json"):
                    content = re.sub(
                        rb'"(wall_seconds|peak_memory_mb)": [\d.e+-]+', b"", content
                    )
                files[str(path.relative_to(checkout.folder))] = content
    return files


def is_unfinished(path):
    return path.name.endswith((".tmp", ".part", "-journal"))


def list_unfinished(checkout):
    return [
        path for path in (checkout.folder / "results").rglob("*") if is_unfinished(path)
    ]


def check_files(checkout, undisturbed):
    """Check that each file that is there is that of the undisturbed run, and count them."""
    files = read_results(checkout)
    for name, content in files.items():
        assert content == undisturbed[name], f"{name} is half-written, or another"
    return len(files)


def name_step(job, checkout):
    """Return the log file that a job has open, below the study's logs."""
    logs = checkout.folder / "logs/tiny"
    with suppress(psutil.Error):
        for file in job.open_files():
            if Path(file.path).is_relative_to(logs):
                return str(Path(file.path).relative_to(logs).with_suffix(""))
    return "-"


class Disturbed:
    """Runs of a study, one after the other, that are killed again and again."""

    def __init__(self, small, folder, undisturbed):
        self.small, self.folder, self.undisturbed = small, folder, undisturbed
        self.runs = 0
        self.begin()

    def begin(self):
        self.runs += 1
        self.checkout = copied(self.small, self.folder / f"run-{self.runs}")
        # jobs that are forked begin within a tenth of a second
        self.checkout.edit(
            "workflow/waltz/snakemake_compat.py", "LEAST_JOBS = 30", "LEAST_JOBS = 1"
        )
        self.start()

    def start(self):
        self.running, self.started = (
            self.checkout.start(TARGET, "--retries", "1000000"),
            time.monotonic(),
        )

    def finish(self):
        """Let the run end, and check all that it wrote."""
        code = self.running.wait(timeout=300)
        assert code == 0, (self.checkout.folder / "tiny.log").read_text()
        assert read_results(self.checkout) == self.undisturbed
        assert not list_unfinished(self.checkout)
        for file in self.checkout.folder.rglob("*.sqlite"):
            with closing(sqlite3.connect(file)) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchall() == [
                    ("ok",)
                ]
        shutil.rmtree(self.checkout.folder)

    def kill(self, number):
        """Kill one victim at its moment; begin another run where this one ends before."""
        chance = random.Random(f"kill:{number}")
        (victim,) = chance.choices(VICTIMS, WEIGHTS)
        moment, share = chance.choice(list(MOMENTS)), chance.random()
        while (struck := self.strike(victim, moment, share)) is None:
            self.finish()
            self.begin()
        step, seconds = struck
        complete = check_files(self.checkout, self.undisturbed)
        unfinished = len(list_unfinished(self.checkout))
        if victim != "job":
            self.checkout.snakemake("--unlock")
            self.start()
        run = f"{self.folder.name}-{self.runs}"
        return Kill(
            number, run, victim, moment, step, f"{seconds:.2f}", complete, unfinished
        )

    def strike(self, victim, moment, share):
        """Kill, and return what the job did and since when; None where the run ended before."""
        since, left = self.started, set(list_unfinished(self.checkout))
        if victim == "job" or moment != "any":
            if not self.wait(lambda: jobs_of(self.running)):
                return None
            if victim == "job":
                since = time.monotonic()
        awaited = {
            "any": lambda: True,
            "working": lambda: any(
                name_step(job, self.checkout) != "-" for job in jobs_of(self.running)
            ),
            "writing": lambda: set(list_unfinished(self.checkout)) - left,
        }[moment]
        if not self.wait(awaited, pause=0.002):
            return None
        time.sleep(
            share
            * (RUN_SECONDS if victim != "job" and moment == "any" else MOMENTS[moment])
        )
        if self.running.poll() is not None:
            return None
        jobs = jobs_of(self.running)
        if victim == "job" and not jobs:  # it ended meanwhile
            return self.strike(victim, moment, share)
        seconds, step = (
            time.monotonic() - since,
            name_step(jobs[0], self.checkout) if jobs else "-",
        )
        if victim == "job":
            jobs[0].kill()
            psutil.wait_procs(jobs[:1], timeout=60)
        elif victim == "snakemake":
            self.running.kill()
            self.running.wait()
            psutil.wait_procs(jobs, timeout=60)
        else:
            os.killpg(self.running.pid, signal.SIGKILL)
            self.running.wait()
        return step, seconds

    def wait(self, condition, pause=0.02):
        """Wait until a condition holds; return whether it did before the run ended."""
        while self.running.poll() is None:
            with suppress(psutil.NoSuchProcess):
                if condition():
                    return True
            time.sleep(pause)
        return False


def kill_runs(numbers, small, folder, undisturbed, write):
    disturbed = Disturbed(small, folder, undisturbed)
    for number in numbers:
        write(disturbed.kill(number))
    disturbed.finish()


def test_runs_that_are_killed_again_and_again_end_in_the_same_bytes(
    request, small, undisturbed, tmp_path
):
    count, log = (
        request.config.getoption("--kills"),
        request.config.getoption("--kill-log"),
    )
    expected = read_results(undisturbed)
    kills = []
    with (log or tmp_path / "kills.csv").open(
        "w", encoding="utf-8", newline="", buffering=1
    ) as file:
        writer = csv.DictWriter(
            file, [field.name for field in fields(Kill)], lineterminator="\n"
        )
        writer.writeheader()

        def write(kill):
            kills.append(kill)
            writer.writerow(asdict(kill))

        # A run is mostly one process after another.
        with ThreadPoolExecutor(WORKERS) as executor:
            ended = [
                executor.submit(
                    kill_runs,
                    range(first, count, WORKERS),
                    small,
                    tmp_path / str(first),
                    expected,
                    write,
                )
                for first in range(WORKERS)
            ]
            for end in ended:
                end.result()
    assert len(kills) == count


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_download_that_is_killed_begins_anew_or_goes_on(
    share, fresh, undisturbed, tmp_path
):
    content = (fresh.folder / "data/own.csv").read_bytes()
    (tmp_path / "own.csv").write_bytes(content)
    checksum = hashlib.sha256(content).hexdigest()
    file = {
        "url": f"https://{HOST}",
        "sha256": checksum,
        "annotations": "data/own-annotations.csv",
    }
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
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        assert not list((fresh.folder / "results").rglob("own*.csv"))
        fresh.snakemake("--unlock")
        fresh.snakemake(TARGET, **given)
    (fetched,) = (fresh.folder / "results").rglob("own*.csv")
    assert fetched.read_bytes() == content
    assert fresh.parquet() == undisturbed.parquet()
