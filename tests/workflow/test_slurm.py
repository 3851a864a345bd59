"""The real workflow on a real Slurm of one node: the same bytes as on this machine alone."""

import json
import subprocess
import tempfile
from pathlib import Path

import pytest
import yaml

from workflow_runs.checkout import Checkout, checkout
from workflow_runs.one_node_slurm import lacking, one_node

pytest.importorskip("snakemake_executor_plugin_slurm")
WHY_NOT = lacking()
pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(bool(WHY_NOT), reason=f"needs a Slurm of its own: {WHY_NOT}"),
]
QUICK = (
    "--workflow-profile",
    "profiles/slurm",
    "--latency-wait",
    "10",
    "--slurm-init-seconds-before-status-checks",
    "4",
)
METRICS = "results/tiny/evaluation/metrics.parquet"
"""Target of the compared runs: it needs jobs on files, on items and of a model."""


@pytest.fixture(scope="module")
def cluster():
    # Munge takes a socket only where everyone may look, which is not so below pytest's own folder.
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder:
        Path(folder).chmod(0o755)
        with one_node(Path(folder)):
            yield


def _small(checkout: Checkout) -> Checkout:
    """The tiny study with jobs that fit the node."""
    checkout.change("threads", 1)
    return checkout


def test_a_study_gives_the_bytes_of_a_local_run(cluster, tmp_path, tiny_model_folder):
    local = _small(checkout(tmp_path / "local" / "waltz", tiny_model_folder))
    local.snakemake("--", METRICS)
    there = _small(checkout(tmp_path / "cluster" / "waltz", tiny_model_folder))
    output = there.snakemake(*QUICK, "--", METRICS)
    assert "SLURM run ID" in output
    assert there.parquet() == local.parquet()
    assert len(there.parquet()) > 3
    record = json.loads(
        (there.folder / "results/tiny/evaluation/tiny-gpt2/pairs.run.json").read_text()
    )[0]
    assert record["device"] == "cpu"
    assert "Nothing to be done" in there.snakemake(*QUICK, "--", METRICS)


def test_jobs_on_one_node_never_share_a_gpu(cluster):
    command = "sleep 2; echo devices=${CUDA_VISIBLE_DEVICES-unset}"
    jobs = [
        subprocess.Popen(
            ["srun", *gpus, "--mem=100", "bash", "-c", command],
            stdout=subprocess.PIPE,
            text=True,
        )
        for gpus in (["--gpus=1"], ["--gpus=1"])
    ]
    devices = sorted(job.communicate(timeout=60)[0].strip() for job in jobs)
    assert devices == ["devices=0", "devices=1"]
    without = subprocess.run(
        ["srun", "--mem=100", "bash", "-c", command],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert without.stdout.strip() == "devices=unset"


def test_the_profile_asks_memory_minutes_and_gpus_of_every_job(
    cluster, tmp_path, tiny_model_folder
):
    there = _small(checkout(tmp_path / "waltz", tiny_model_folder))
    profile = yaml.safe_load((there.folder / "profiles/slurm/config.yaml").read_text())
    assert set(profile["default-resources"]) == {"mem_mb", "runtime"}
    planned = there.snakemake(*QUICK, "--dry-run")
    scoring = planned[planned.index("rule perplexity:") :].split("\n\n")[0]
    assert "gpu=1" in scoring
    assert "mem_mb=8000" in scoring
    assert "runtime=240" in scoring


STUB = """
import os
import signal
import subprocess
from pathlib import Path

if snakemake.rule == "attribute":
    limit = ["squeue", "-h", "-o", "%l", "-j", os.environ["SLURM_JOB_ID"]]
    limit = subprocess.run(limit, capture_output=True, text=True, timeout=30).stdout.strip()
    attempts = Path("attempts.txt")
    killed = snakemake.wildcards.shard == "1" and not (attempts.exists() and "shard 1" in attempts.read_text())
    with attempts.open("a") as file:
        file.write(f"shard {snakemake.wildcards.shard} of {snakemake.params.shards}: {limit}\\n")
    if killed:
        os.kill(os.getpid(), signal.SIGKILL)
for output in map(Path, snakemake.output):
    output.write_text(output.name)
"""
"""Stands for every script: it writes its outputs; the second shard of an attribution is killed at
its first attempt.
"""


def test_a_shard_that_is_killed_gets_more_time_and_the_run_ends(
    cluster, tmp_path, tiny_model_folder
):
    there = checkout(tmp_path / "waltz", tiny_model_folder)
    for script in (there.folder / "workflow/scripts").glob("*.py"):
        script.write_text(STUB)
    there.edit("config/thesis.yaml", "threads: 8\n", "threads: 1\n")
    there.edit(
        "config/thesis.yaml",
        "  standard_error: 0.02\n",
        "  standard_error: 0.02\n  shards: 2\n",
    )
    merged = (
        "results/thesis/attribution/clip-vit-base-patch32/captions-encoders.parquet"
    )
    small = ("--set-resources", "attribute:mem_mb=500", "mismatched:mem_mb=500")
    output = there.snakemake(
        *QUICK, *small, "--config", "study=thesis", "--", merged, study=""
    )
    attempts = (there.folder / "attempts.txt").read_text().splitlines()
    assert sorted(attempts) == [
        "shard 0 of 2: 1-00:00:00",
        "shard 1 of 2: 1-00:00:00",
        "shard 1 of 2: 2-00:00:00",
    ]
    assert (there.folder / merged).is_file()
    assert "Trying to restart job" in output
