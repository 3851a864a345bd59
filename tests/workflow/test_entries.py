"""The workflow from its two entries, from another folder, as a module, and by the names of stages
and tables.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.workflow

ROOT = Path(__file__).parents[2]
MODULE = f"""
module waltz:
    snakefile: "{ROOT}/workflow/Snakefile"
    config: {{"study": "scenes"}}

use rule * from waltz as waltz_*

rule all:
    default_target: True
    input: rules.waltz_all.input
"""
STAGES = [
    "sources",
    "foils",
    "filters",
    "benchmark",
    "evaluation",
    "attribution",
    "consistency",
    "reporting",
    "export",
]


def run_snakemake(folder: Path, *arguments: str) -> str:
    """Run Snakemake in a folder outside the checkout, and return its output."""
    # Of the logger, which an installed waltz gives.
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "workflow"),
    }
    command = [sys.executable, "-m", "snakemake", "--cores", "1", *arguments]
    result = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    return result.stdout + result.stderr


def count_jobs(folder: Path, *arguments: str) -> int:
    """Return the number of jobs of a dry run."""
    output = run_snakemake(folder, "--dry-run", "--quiet", "rules", *arguments)
    totals = [
        line.split()[1] for line in output.splitlines() if line.split()[:1] == ["total"]
    ]
    assert totals, output
    return int(totals[0])


def test_both_entries_and_a_module_plan_the_same_jobs_from_elsewhere(tmp_path):
    (tmp_path / "Snakefile").write_text(MODULE)
    counts = {
        entry: count_jobs(tmp_path, "--snakefile", str(ROOT / entry))
        for entry in ("Snakefile", "workflow/Snakefile")
    }
    counts["module"] = count_jobs(tmp_path)
    assert len(set(counts.values())) == 1, counts


@pytest.mark.parametrize("entry", ["Snakefile", "workflow/Snakefile"])
def test_a_job_with_a_model_runs_from_elsewhere(tmp_path, entry):
    target = "results/scenes/foils/relations.parquet"
    output = run_snakemake(tmp_path, "--snakefile", str(ROOT / entry), target)
    assert (tmp_path / target).is_file(), output
    assert (
        run_snakemake(tmp_path, "--snakefile", str(ROOT / entry), target).count(
            "Nothing to be done"
        )
        == 1
    )


def test_a_module_runs_its_rules(tmp_path):
    (tmp_path / "Snakefile").write_text(MODULE)
    target = "results/scenes/sources/coco.parquet"
    output = run_snakemake(tmp_path, target)
    assert (tmp_path / target).is_file(), output


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_is_a_target(tmp_path, stage):
    assert count_jobs(tmp_path, "--snakefile", str(ROOT / "Snakefile"), "--", stage) > 1


def test_a_wrong_target_is_one_line(tmp_path):
    output = run_snakemake(
        tmp_path, "--dry-run", "--snakefile", str(ROOT / "Snakefile"), "table_4.2"
    )
    assert "waltz: table_4.2: no such target; did you mean 'table_4_2'?" in output
    assert "Traceback" not in output
