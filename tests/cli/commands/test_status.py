"""The command `waltz status` on a made-up checkout, with a stand-in for Snakemake; tests/workflow
runs the real one.
"""

import json
import subprocess

import pytest
import yaml
from typer.testing import CliRunner

from waltz.cli.app import app
from waltz.core.jobs import run_lock

HEAD = "output_file\tdate\trule\tlog-file(s)\tstatus\tplan\n"
DONE = "results/mine/benchmark/zoo.parquet\t-\titems\t-\tok\tno update\n"
MISSING = (
    "results/mine/evaluation/clip/foils.parquet\t-\talign\t-\tmissing\tupdate pending\n"
)
STUDY = {
    "study": "mine",
    "seed": 1,
    "profiles": ["equations"],
    "sources": {"own": {"format": "pairs", "files": {"zoo": {"path": "zoo.csv"}}}},
    "benchmark": {"valid_votes": 1},
    "models": {"ruler-50": {}, "lxmert": {}},
    "skipped": {"lxmert": "not run: for want of time"},
    "reporting": {"tables": [], "resamples": 100, "confidence": 0.9},
}


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    (tmp_path / "workflow" / "waltz").mkdir(parents=True)
    (tmp_path / "config").mkdir()
    (tmp_path / "Snakefile").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def snakemake(monkeypatch):
    """Calls of Snakemake, which lists one file that is done and one that is missing."""
    calls = []

    def start(arguments, checkout, *_, **__):
        calls.append(arguments)
        return subprocess.CompletedProcess(arguments, 0, HEAD + DONE + MISSING, "")

    monkeypatch.setattr("waltz.cli.commands.status.start_snakemake", start)
    return calls


def run(*arguments):
    return CliRunner().invoke(app, ["status", *arguments], catch_exceptions=False)


def write_study(file):
    file.write_text(yaml.safe_dump(STUDY))


def test_a_study_that_failed_is_shown_with_its_reasons_and_the_next_command(
    checkout, snakemake
):
    write_study(checkout / "config" / "mine.yaml")
    log = checkout / "logs" / "mine" / "align" / "clip" / "foils.log"
    log.parent.mkdir(parents=True)
    log.write_text("2026-01-02 03:04:05,678 ERROR waltz: no weights\n")
    lines = run("mine").output.splitlines()
    assert lines[0] == "study mine (config/mine.yaml): not run yet"
    assert (
        "failed   align clip/foils: no weights (logs/mine/align/clip/foils.log)"
        in lines
    )
    assert any(
        line.startswith("skipped  lxmert: not run: for want of time") for line in lines
    )
    assert lines[-1] == "next     snakemake --cores all --config study=mine"
    assert snakemake == [["--config", "study=mine", "--summary", "--"]]


def test_the_study_that_was_run_last_is_shown_with_its_file_and_targets(
    checkout, snakemake, monkeypatch
):
    write_study(checkout / "own.yaml")
    monkeypatch.setattr(run_lock, "_locks", [])
    run_lock.hold_study("mine", files=[str(checkout / "own.yaml")], targets=["metrics"])
    assert run().output.startswith("study mine (own.yaml, metrics): running (process ")
    run_lock._locks[0].release()
    output = run().output
    assert output.startswith(
        "study mine (own.yaml, metrics): not done; its last run ended (process "
    )
    assert output.endswith(
        "next     snakemake --cores all --configfile own.yaml -- metrics\n"
    )
    assert snakemake[-1] == ["--configfile", "own.yaml", "--summary", "--", "metrics"]


@pytest.mark.parametrize(
    ("output", "fault"),
    [
        (
            "waltz: clip: not run\nwaltz: a.csv: no such file\nsome more\n",
            "a.csv: no such file",
        ),
        ("Traceback\n\nKeyError: 'x'\n", "KeyError: 'x'"),
        ("", "no message"),
    ],
)
def test_a_snakemake_that_failed_is_named_with_its_fault(
    checkout, monkeypatch, output, fault
):
    write_study(checkout / "config" / "mine.yaml")
    result = subprocess.CompletedProcess([], 1, "", output)
    monkeypatch.setattr(
        "waltz.cli.commands.status.start_snakemake", lambda *_, **__: result
    )
    assert (
        run("mine").output
        == f"waltz: snakemake --config study=mine --summary --: failed: {fault}\n"
    )


def test_a_run_of_another_machine_is_called_neither_running_nor_ended(
    checkout, snakemake
):
    write_study(checkout / "config" / "mine.yaml")
    lock = checkout / ".snakemake" / "locks" / "0.output.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    run_lock.hold_study("mine", locks=[lock])
    run_lock._locks.pop().release()
    record = checkout / ".snakemake" / "waltz" / "mine.json"
    record.write_text(
        json.dumps(json.loads(record.read_text()) | {"host": "elsewhere"})
    )
    lines = run("mine").output.splitlines()
    assert lines[0].startswith(
        "study mine (config/mine.yaml): running, or killed on its machine, which cannot be seen"
    )
    assert lines[-1].startswith(
        "next     study mine is being run by another snakemake (process "
    )
    assert lines[-1].endswith(
        "only where that machine is gone, run: rm .snakemake/locks/0.output.lock"
    )


def test_the_lock_file_of_another_run_is_not_removed(checkout, snakemake):
    write_study(checkout / "config" / "mine.yaml")
    (checkout / ".snakemake" / "locks").mkdir(parents=True)
    (checkout / ".snakemake" / "locks" / "0.output.lock").touch()
    assert (
        run("mine").output.splitlines()[-1]
        == "next     snakemake --cores all --config study=mine"
    )


def test_a_run_is_told_in_one_line_from_its_log(checkout, monkeypatch):
    monkeypatch.setattr(run_lock, "_locks", [])
    log = checkout / "run.log"
    log.write_text(
        "total   3\nrule fetch:\n    jobid: 1\nrule align:\n    jobid: 2\n"
        "Finished jobid: 1 (Rule: fetch)\n"
    )
    run_lock.hold_study("mine", files=[], targets=[], logs=[str(log)])
    for arguments in (["--brief"], ["mine", "--brief"]):
        output = run(*arguments).output
        assert output.startswith(
            "mine: running, 1 of 3 jobs done, 0 failed, 1 running (align), about 0 min "
        )
        assert output.count("\n") == 1
    run_lock._locks[0].release()
    assert run("--brief").output.startswith(
        "mine: ended, 1 of 3 jobs done, 0 failed (process "
    )
    assert "finds no run of it here" in run("other", "--brief").output


def test_copied_results_are_explained(checkout, monkeypatch):
    write_study(checkout / "config" / "mine.yaml")
    old = "results/mine/benchmark/a.parquet\t-\titems\t-\tupdated input files\tupdate pending\n"
    result = subprocess.CompletedProcess([], 0, HEAD + DONE + old, "")
    monkeypatch.setattr(
        "waltz.cli.commands.status.start_snakemake", lambda *_, **__: result
    )
    advice = "snakemake --touch --cores 1 --config study=mine\n"
    assert advice in run("mine").output
    # The record of another checkout was copied as well: its study is the one in this checkout.
    other = checkout.parent / "elsewhere" / "config" / "mine.yaml"
    monkeypatch.setattr(run_lock, "_locks", [])
    run_lock.hold_study("mine", files=[str(other)])
    run_lock._locks[0].release()
    output = run("mine").output
    assert advice in output
    assert output.startswith("study mine (config/mine.yaml): ")
    # Results of a run here are outdated for another reason.
    run_lock.hold_study("mine", files=[str(checkout / "config" / "mine.yaml")])
    run_lock._locks[1].release()
    assert "--touch" not in run("mine").output


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (
            ["mne"],
            "study 'mne' has no file in config/ and was not run here (did you mean 'mine'?)",
        ),
        (["no.yaml"], "no.yaml: cannot be read: No such file or directory"),
        (["broken.yaml"], "broken.yaml: is not YAML (line 1, column"),
        (["list.yaml"], "list.yaml: holds no keys (got list)"),
        ([], "results: no study has tables or a report yet"),
    ],
)
def test_wrong_studies_are_one_line(checkout, arguments, fault):
    write_study(checkout / "config" / "mine.yaml")
    (checkout / "broken.yaml").write_text("a: [")
    (checkout / "list.yaml").write_text("[]")
    result = run(*arguments)
    assert result.exit_code == 1
    assert fault in result.output
    assert len(result.output.splitlines()) == 1
