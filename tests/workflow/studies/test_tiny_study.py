"""The real workflow from raw files to the page: what it makes, and what runs again."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from waltz.core.files import parquet
from waltz.core.files.group_files import read_runs
from waltz.core.schema import BENCHMARK, EVALUATION
from workflow_runs.checkout import ROOT, copied, read_stored

pytestmark = pytest.mark.workflow

ALL = {
    "fetch",
    "items",
    "validation_statistics",
    "perplexity",
    "metrics",
    "metrics_part",
    "comparisons_part",
    "check_runs",
    "table thesis-A.2",
    "table thesis-3.4",
    "frequency_figures",
    "charts",
    "report",
    "reproduction",
}
"""Rules of the study."""
AFTER_SCORES = ALL - {
    "fetch",
    "items",
    "validation_statistics",
    "table thesis-A.2",
    "frequency_figures",
}
"""Rules that run again where scores change."""


def _cells(checkout, table):
    path = (
        checkout.folder / "results" / "tiny" / "reporting" / "tables" / f"{table}.csv"
    )
    with path.open() as file:
        return {
            (row["profile"], row["metric"], row["model"], row["dataset"]): row
            for row in csv.DictReader(file)
        }


def test_a_dry_run_plans_every_rule(fresh):
    assert fresh.planned() == ALL


def test_a_run_gives_tables_figures_and_a_page(tiny_run):
    cells = _cells(tiny_run, "thesis-A.2")
    assert cells["published", "instances", "", "relations"]["value"] == "24"
    assert cells["published", "instances", "", "relations"]["verdict"] == "differs"
    own = cells["published", "alpha", "", "own-counting"]
    assert own["reason"] == "no paper value"
    assert -1 <= float(own["value"]) <= 1
    assert cells["published", "valid", "", "own-counting"]["value"] == "3"
    scored = _cells(tiny_run, "thesis-3.4")[
        "equations", "acc_r", "tiny-gpt2", "relations"
    ]
    scores = tiny_run.folder / "results/tiny/evaluation/tiny-gpt2/pairs.parquet"
    rows = read_runs([scores], EVALUATION)["tiny-gpt2", "relations"].to_pylist()
    captions = [
        row
        for row in rows
        if row["role"] == "caption" and row["profile"] == "equations"
    ]
    assert float(scored["value"]) == pytest.approx(
        100 * sum(row["correct"] for row in captions) / len(captions)
    )
    items = parquet.read_rows(
        tiny_run.folder / "results/tiny/benchmark/relations.parquet", BENCHMARK
    )
    assert len(captions) == int(scored["n"]) == sum(item["valid"] for item in items)
    page = (tiny_run.folder / "results/tiny/reporting/report.html").read_text()
    for name in ("thesis-A.2", "lexical-relations", "tiny-gpt2/relations"):
        assert name in page
    for name in (
        "tables/thesis-A.2.csv",
        "tables/thesis-A.2.tex",
        "figures/lexical-relations.svg",
    ):
        assert (tiny_run.folder / "results/tiny/reporting" / name).is_file()
    records = json.loads(
        (
            tiny_run.folder / "results/tiny/evaluation/tiny-gpt2/pairs.run.json"
        ).read_text()
    )
    assert [record["dataset"] for record in records] == [
        "relations",
        "existence",
        "own-counting",
    ]
    record = records[0]
    assert (record["rows_in"], record["rows_out"], record["device"]) == (
        len(captions),
        4 * len(captions),
        "cpu",
    )


def test_the_readmes_commands_about_a_run_show_it(after_run):
    block = re.search(
        r"```bash\n(waltz .*?)```", (ROOT / "README.md").read_text(), re.DOTALL
    )[1]
    commands = [line.partition("#")[0].split() for line in block.splitlines()]
    assert [command[1] for command in commands] == [
        "report",
        "tables",
        "paper",
        "status",
    ]
    for name, *arguments in commands:
        program = [sys.executable, "-c", "from waltz.cli.app import app; app()"]
        environment = after_run.environment(
            PYTHONPATH=str(after_run.folder / "workflow")
        )
        result = subprocess.run(
            [*program, *arguments],
            cwd=after_run.folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, f"{name} {arguments}: {result.stderr}"
        # The cell is of the thesis, the rest is of the run.
        assert ("Table 4.2" if arguments[0] == "paper" else "tiny") in result.stdout


def test_a_run_shows_progress_and_ends_with_its_page(tiny_run, tmp_path):
    again = copied(tiny_run, tmp_path / "again")
    shutil.copy2(
        ROOT / "profiles/default/config.yaml", again.folder / "profiles/default"
    )
    output = again.snakemake("--forcerun", "report")
    assert "report:  results/tiny/reporting/report.html" in output
    assert "skipped: nothing" in output
    assert len(output.splitlines()) < 60


def test_a_second_run_has_nothing_to_do(after_run):
    assert after_run.planned() == set()


def test_what_changes_no_code_and_no_data_reruns_nothing(after_run):
    after_run.edit(
        "workflow/waltz/sources/formats/pairs.py",
        "import json\n",
        "# parse\nimport json\n",
    )
    after_run.edit(
        "workflow/waltz/benchmark/statistics.py",
        '"""Statistics of',
        '"""All Statistics of',
    )
    for file in (
        "workflow/scripts/perplexity.py",
        "data/relations.json",
        "workflow/waltz/evaluation/metrics/pair_metrics.py",
    ):
        os.utime(after_run.folder / file)
    assert after_run.planned() == set()


@pytest.mark.parametrize(
    ("file", "old", "new", "rerun"),
    [
        (
            "workflow/waltz/reporting/tables/paper_values.py",
            '"compatible"',
            '"fits"',
            {
                "table thesis-A.2",
                "table thesis-3.4",
                "charts",
                "frequency_figures",
                "report",
                "reproduction",
            },
        ),
        (
            "workflow/waltz/resources/tables.yaml",
            "title: Manual validation of each instrument",
            "title: Validation of each instrument",
            {"table thesis-A.2", "charts", "report", "reproduction"},
        ),
        (
            "workflow/waltz/resources/tables.yaml",
            "  thesis-A.2:",
            "  # votes\n  thesis-A.2:",
            set(),
        ),
        (
            "workflow/waltz/reporting/figures/charts.py",
            "WORDS = 20",
            "WORDS = 10",
            {"frequency_figures", "charts", "report"},
        ),
        (
            "workflow/waltz/reporting/figures/waltz.mplstyle",
            "font.size: 9",
            "font.size: 8",
            {"frequency_figures", "charts", "report"},
        ),
        (
            "workflow/waltz/reporting/page/templates/report.html",
            "<h2",
            "<h3",
            {"report"},
        ),
        (
            "workflow/waltz/reporting/page/report.py",
            "autoescape=True",
            "autoescape=bool(1)",
            {"report"},
        ),
        (
            "workflow/waltz/evaluation/perplexity.py",
            "STRIDE = 3",
            "STRIDE = 4",
            AFTER_SCORES,
        ),
        (
            "workflow/waltz/benchmark/statistics.py",
            "[a-z]+",
            "[a-z]{2,}",
            {
                "validation_statistics",
                "table thesis-A.2",
                "frequency_figures",
                "charts",
                "report",
                "reproduction",
            },
        ),
        (
            "workflow/waltz/sources/formats/pairs.py",
            "enumerate(rows, 1)",
            "enumerate(rows, 0)",
            ALL - {"fetch"},
        ),
        ("workflow/scripts/fetch.py", "raw_file(file,", "raw_file(dict(file),", set()),
        ("workflow/waltz/core/jobs/records.py", '"machine":', '"hardware":', set()),
        ("workflow/waltz/__init__.py", '__version__ = "', '__version__ = "1', set()),
    ],
)
def test_an_edit_reruns_what_imports_it_and_what_follows(
    after_run, file, old, new, rerun
):
    after_run.edit(file, old, new)
    assert after_run.planned() == rerun


@pytest.mark.parametrize(
    ("key", "value", "rerun"),
    [
        (
            "reporting.confidence",
            0.8,
            {
                "validation_statistics",
                "metrics",
                "metrics_part",
                "comparisons_part",
                "table thesis-A.2",
                "table thesis-3.4",
                "frequency_figures",
                "charts",
                "report",
                "reproduction",
            },
        ),
        (
            "evaluation.tokens_per_batch",
            64,
            AFTER_SCORES,
        ),
        ("benchmark.valid_votes", 3, ALL - {"fetch"}),
    ],
)
def test_a_changed_key_reruns_its_readers_and_what_follows(
    after_run, key, value, rerun
):
    after_run.change(key, value)
    assert after_run.planned() == rerun


def test_changed_data_reruns_its_readers(after_run):
    after_run.edit(
        "data/own.csv",
        "own-3,3.png,There are one zebras.",
        "own-3,3.png,There is one zebra.",
    )
    assert after_run.planned() == ALL
    after_run.snakemake()
    assert after_run.planned() == set()


@pytest.mark.parametrize(
    "everything", [False, True], ids=["snakemake", "snakemake and its jobs"]
)
def test_a_killed_run_ends_in_the_same_bytes(fresh, tiny_run, everything):
    running = fresh.start()
    store = fresh.folder / "results/tiny/evaluation/tiny-gpt2/.store"
    deadline = time.monotonic() + 240
    while not read_stored(store) and running.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    if everything:
        os.killpg(running.pid, signal.SIGKILL)
    else:
        running.kill()
    running.wait()
    fresh.snakemake("--unlock")
    fresh.snakemake()
    assert fresh.parquet() == tiny_run.parquet()
    assert not list((fresh.folder / "results").rglob("*.tmp"))


def test_a_study_replaces_the_default_and_never_merges_with_it(fresh):
    plan = fresh.snakemake("--dry-run")
    assert "smollm2" not in plan
    assert "results/scenes" not in plan


def test_the_default_and_a_named_study(fresh):
    plan = fresh.snakemake("--dry-run", "--config", "study=valse", study="")
    assert "results/valse/evaluation/smollm2-135m-instruct/valse.parquet" in plan
    assert "results/scenes" not in plan
    for arguments in ((), ("--config", "study=scenes")):
        plan = fresh.snakemake("--dry-run", *arguments, study="")
        assert "results/scenes/sources/coco.parquet" in plan
        assert "results/scenes/benchmark/relations.parquet" in plan
        assert "results/valse" not in plan


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        ("evaluation.sampel", 3, "unknown key 'sampel' (did you mean 'sample'?)"),
        (
            "models",
            {"gpt2-large": {}},
            "evaluation.models: nothing is called 'tiny-gpt2'",
        ),
    ],
)
def test_a_fault_in_the_study_is_one_line_before_any_job(fresh, key, value, fault):
    fresh.change(key, value)
    output = fresh.snakemake(check=False)
    assert fault in output
    assert "Traceback" not in output
    assert not (fresh.folder / "results").exists()


def test_a_misspelled_study_is_one_line(fresh):
    output = fresh.snakemake("--config", "study=valze", study="", check=False)
    assert "study 'valze' is not in" in output
    assert "did you mean 'valse'?" in output
    assert "Traceback" not in output


def test_without_network_or_copy_the_job_says_which_file_and_where_to_put_it(fresh):
    url = "http://127.0.0.1:9/data/relations.json"
    fresh.change(
        "sources.release.files.relations",
        {"url": url, "sha256": "0" * 64, "local": "valse/relations.json"},
    )
    output = fresh.snakemake(check=False, WALTZ_DATA="")
    (line,) = [line for line in output.splitlines() if line.startswith("waltz: ")]
    for part in (
        "relations.json",
        url,
        "no connection",
        "valse/relations.json and set WALTZ_DATA",
    ):
        assert part in line


def test_a_fault_in_the_data_is_one_line_and_leaves_no_half_file(fresh):
    fresh.edit("data/relations.json", '"foil": "A', '"foyl": "A')
    output = fresh.snakemake(check=False)
    (line,) = [line for line in output.splitlines() if line.startswith("waltz: ")]
    assert "relations.json: id 'relations:0': field 'foil' is missing" in line
    assert not (fresh.folder / "results/tiny/benchmark/relations.parquet").exists()


def test_lint_finds_nothing(fresh):
    output = fresh.snakemake("--lint", study="", check=False)
    assert "Congratulations" in output, output
