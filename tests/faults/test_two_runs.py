"""Two runs at once: of one study, of two people with the same GPUs, and of two studies with one
cache of downloads.
"""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path

import pytest
import yaml

from rehearsal.server import MIRROR, World, environment, serving
from waltz.core.downloads.checksums import compute_sha256
from workflow_runs.checkout import TARGET, Checkout, copied, list_user_messages

pytestmark = pytest.mark.faults


def wait_for_lock(running, folder, study="tiny"):
    """Wait until a run holds its study."""
    deadline = time.monotonic() + 60
    while True:
        record = folder / ".snakemake/waltz" / f"{study}.json"
        if record.exists() and json.loads(record.read_text())["pid"] == running.pid:
            return
        assert running.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)


def halted(checkout, study="tiny.yaml"):
    """A run that holds its study and does not move."""
    running = checkout.start(TARGET, study=study)
    wait_for_lock(running, checkout.folder, Path(study).stem)
    running.send_signal(signal.SIGSTOP)
    return running


def test_the_second_says_who_runs_it_and_the_first_goes_on(fresh, undisturbed):
    running = halted(fresh)
    output = fresh.snakemake(TARGET, check=False)
    (line,) = list_user_messages(output)
    assert (
        f"study tiny is being run by another snakemake (process {running.pid} on"
        in line
    )
    assert line in output[output.index("Directory cannot be locked") :]
    assert "--unlock" not in output
    assert list_user_messages(fresh.snakemake("--dry-run", TARGET)) == [line]
    refusal = fresh.snakemake("--unlock", check=False)
    assert (
        f"waltz: --unlock: could let two runs write into one folder: {line.removeprefix('waltz: ')}"
        in refusal
    )
    running.send_signal(signal.SIGCONT)
    assert running.wait() == 0
    assert fresh.parquet() == undisturbed.parquet()
    assert "waltz: " not in fresh.snakemake("--dry-run", TARGET)


def test_the_lock_of_a_dead_run_differs_from_a_live_one(fresh, undisturbed):
    running = halted(fresh)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    output = fresh.snakemake(TARGET, check=False)
    (line,) = list_user_messages(output)
    assert f"the last run of study tiny (process {running.pid} on" in line
    assert line.endswith("was killed and left its lock; run: snakemake --unlock")
    fresh.snakemake("--unlock")
    fresh.snakemake(TARGET)
    assert fresh.parquet() == undisturbed.parquet()


def write_other_study(checkout):
    """Write a study whose results are others; return its file."""
    study = yaml.safe_load((checkout.folder / "tiny.yaml").read_text())
    other = {
        **study,
        "study": "other",
        "seed": 8,
        "evaluation": {**study["evaluation"], "tokens_per_batch": 32},
    }
    (checkout.folder / "other.yaml").write_text(yaml.safe_dump(other, sort_keys=False))
    return "other.yaml"


def read_advice(checkout, study):
    """Return the last line of `waltz status`."""
    command = [
        sys.executable,
        "-c",
        "from waltz.cli.app import app; app()",
        "status",
        study,
    ]
    variables = {
        **checkout.environment(),
        "PYTHONPATH": str(checkout.folder / "workflow"),
    }
    result = subprocess.run(
        command,
        cwd=checkout.folder,
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout.splitlines()[-1]


def test_the_lock_of_another_study_that_goes_on_is_no_leftover(fresh):
    other = write_other_study(fresh)
    fresh.snakemake("sources", study=other)
    running = halted(fresh)
    assert list_user_messages(fresh.snakemake("--dry-run", TARGET, study=other)) == []
    assert "unlock" not in read_advice(fresh, other)
    killed = halted(fresh, other)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    (line,) = list_user_messages(fresh.snakemake(TARGET, study=other, check=False))
    assert f"the last run of study other (process {killed.pid} on" in line
    removal = line.partition("; run: ")[2]
    assert removal.startswith("rm .snakemake/locks/")
    assert read_advice(fresh, other).startswith(f"next     {removal} && snakemake ")
    subprocess.run(removal, shell=True, check=True, cwd=fresh.folder)
    fresh.snakemake("sources", study=other)
    # the end of that run has removed the lock files of all others, and Snakemake would let a second
    # one begin
    assert not list((fresh.folder / ".snakemake").glob("locks/*.lock"))
    (line,) = list_user_messages(fresh.snakemake(TARGET, check=False))
    assert (
        f"study tiny is being run by another snakemake (process {running.pid} on"
        in line
    )
    running.send_signal(signal.SIGCONT)
    assert running.wait() == 0


def test_a_run_in_another_folder_is_unlocked_there(fresh, tmp_path):
    workdir = tmp_path / "elsewhere"
    workdir.mkdir()
    for name in ("data", "tiny.yaml"):
        (workdir / name).symlink_to(fresh.folder / name)
    options = ("--directory", str(workdir))
    running = fresh.start(TARGET, *options)
    wait_for_lock(running, workdir)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    assert list_user_messages(fresh.snakemake("--dry-run", TARGET)) == []
    (line,) = list_user_messages(fresh.snakemake(TARGET, *options, check=False))
    command = f"snakemake --unlock --snakefile {fresh.folder / 'Snakefile'} --directory {workdir}"
    assert line.endswith(f"was killed and left its lock; run: {command}")
    subprocess.run(
        [sys.executable, "-m", *command.split()],
        check=True,
        cwd=tmp_path,
        env=fresh.environment(),
    )
    fresh.snakemake(TARGET, *options)


GPUS = 2
MODELS = [f"model-{number}" for number in range(4)]
LEASE = """        yield Device("cuda:0", threads, f"leased GPU {', '.join(leased)}")
"""
RECORDED_LEASE = """        began = time.monotonic()
        yield Device("cpu", threads, f"leased GPU {{', '.join(leased)}}")
        time.sleep(1)  # a model takes longer
        with open("{leases}", "a") as file:
            file.write(f"{{leased[0]}},{{began}},{{time.monotonic()}}\\n")
"""


@dataclass(frozen=True)
class Person(Checkout):
    """A checkout of a person, who may read everything, as the interpreter, but writes only what is
    theirs.
    """

    user: int

    def command(self, study: str) -> list[str]:
        ids = [f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]
        may_read = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
        return ["setpriv", *ids, *may_read, *super().command(study)]

    def read_leases(self) -> list[tuple[str, float, float]]:
        """Return GPU, begin and end of each lease, in seconds of the machine."""
        rows = csv.reader((self.folder / "leases.csv").read_text().splitlines())
        return [(gpu, float(began), float(ended)) for gpu, began, ended in rows]


@pytest.fixture
def people(small, tiny_model_folder):
    """Two people, each with a checkout and the same study of four models, on a machine with two
    pretended GPUs.
    """
    if os.geteuid() or not shutil.which("setpriv"):
        pytest.skip("only root with setpriv can be two people")
    # Pytest's own folder is closed to them.
    with tempfile.TemporaryDirectory(prefix="people-", dir="/tmp") as name:
        machine = Path(name)
        machine.chmod(0o1777)
        shutil.copytree(tiny_model_folder, machine / "model")
        people = [
            Person(copied(small, machine / str(user)).folder, user)
            for user in (4001, 4002)
        ]
        for person in people:
            person.change(
                "models",
                {model: {"weights": str(machine / "model")} for model in MODELS},
            )
            person.change("evaluation.models", MODELS)
            devices = "workflow/waltz/core/jobs/devices.py"
            person.edit(devices, "/tmp/waltz-gpu-locks", str(machine / "locks"))
            person.edit(devices, "torch.cuda.device_count()", str(GPUS))
            person.edit(
                devices,
                LEASE,
                RECORDED_LEASE.format(leases=person.folder / "leases.csv"),
            )
            (person.folder / "tmp").mkdir()
            for path in (person.folder, *person.folder.rglob("*")):
                os.chown(path, person.user, person.user)
        yield people


def test_two_people_at_once_never_compute_on_one_gpu(people):
    runs = []
    for person in people:
        own = {
            "USER": f"person-{person.user}",
            "HOME": str(person.folder),
            "TMPDIR": str(person.folder / "tmp"),
        }
        runs.append(person.start(TARGET, "--resources", f"gpu={GPUS}", **own))
    for person, run in zip(people, runs, strict=True):
        assert run.wait(timeout=300) == 0, (person.folder / "tiny.log").read_text()
    first, second = (person.read_leases() for person in people)
    assert len(first) == len(second) == len(MODELS)
    assert min(began for _, began, _ in first) < max(ended for _, _, ended in second)
    assert min(began for _, began, _ in second) < max(ended for _, _, ended in first)
    leases = sorted([*first, *second])
    assert {gpu for gpu, _, _ in leases} == {"0", "1"}
    for (gpu, _, ended), (next_gpu, began, _) in pairwise(leases):
        assert gpu != next_gpu or ended < began
    both = [
        (one, other)
        for one, other in combinations(leases, 2)
        if one[1] < other[2] and other[1] < one[2]
    ]
    assert both  # the GPUs were used at the same time
    assert people[0].parquet() == people[1].parquet()


def test_two_studies_that_share_downloads_end_as_alone(small, tmp_path):
    host = "data.example.org/own.csv"
    prepared = copied(small, tmp_path / "prepared")
    checksum = compute_sha256(prepared.folder / "data/own.csv")
    url = {
        "url": f"https://{host}",
        "sha256": checksum,
        "annotations": "data/own-annotations.csv",
    }
    prepared.change("sources.own.files.own-counting", url)
    write_other_study(prepared)
    together, alone = (
        copied(prepared, tmp_path / name) for name in ("together", "alone")
    )
    world = World({host: prepared.folder / "data/own.csv"})
    world.misbehave(MIRROR + host, "slow")
    with serving(world) as address:
        given = environment(address, tmp_path / "home")
        runs = [
            together.start(TARGET, study=file, **given)
            for file in ("tiny.yaml", "other.yaml")
        ]
        for run in runs:
            assert run.wait(timeout=300) == 0
        assert world.request_counts["GET", MIRROR + host] == 1
        for file in ("tiny.yaml", "other.yaml"):
            alone.snakemake(TARGET, study=file, **given)
    assert together.parquet() == alone.parquet()
    assert {name.split("/")[0] for name in together.parquet()} == {"tiny", "other"}
