"""The command `waltz plan`: the runs of a study as a table and as JSON."""

import json
from pathlib import Path

import yaml
from typer.testing import CliRunner

from stand_ins.yaml_files import read_yaml
from waltz.cli.app import app

CONFIG = Path(__file__).parents[3] / "config"


def run(*arguments):
    return CliRunner().invoke(
        app, ["plan", *map(str, arguments)], catch_exceptions=False
    )


def read_rows(*arguments):
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_a_run_is_shown_with_its_group_part_shards_and_file():
    (row,) = [
        row
        for row in read_rows("scenes")
        if (row["step"], row["model"], row["dataset"])
        == ("tests", "scenes-llava", "existence")
    ]
    assert row == {
        "stage": "consistency",
        "step": "tests",
        "model": "scenes-llava",
        "dataset": "existence",
        "group": "pairs",
        "part": "vision.benchmark",
        "shards": "1",
        "file": "results/scenes/consistency/scenes-llava/tests/pairs.parquet",
        "reason": "",
    }


def test_a_skipped_model_keeps_its_runs_with_the_reason(tmp_path):
    study = read_yaml(CONFIG / "scenes.yaml")
    file = tmp_path / "mine.yaml"
    file.write_text(
        yaml.safe_dump(
            {**study, "study": "mine", "skipped": {"scenes-llava": "no time"}}
        )
    )
    rows = read_rows(file)
    skipped = [row for row in rows if row["reason"]]
    assert {row["model"] for row in skipped} == {"scenes-llava"}
    assert {(row["reason"], row["file"], row["shards"]) for row in skipped} == {
        ("no time", "", "")
    }
    complete = [
        (row["step"], row["model"], row["dataset"]) for row in read_rows("scenes")
    ]
    assert [(row["step"], row["model"], row["dataset"]) for row in rows] == complete


def test_recorded_runs_have_no_shards_and_what_only_leaves_out_is_skipped(tmp_path):
    assert {row["shards"] for row in read_rows("recorded")} == {"recorded"}
    file = tmp_path / "mine.yaml"
    file.write_text(
        yaml.safe_dump({"study": "mine", "extends": "recorded", "only": ["comve"]})
    )
    reasons = {row["dataset"]: row["reason"] for row in read_rows(file)}
    assert reasons == {"comve": "", "e-snli": "left out by only: comve"}


def test_shards_of_a_file_are_shown_as_a_range(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        yaml.safe_dump(
            {"study": "mine", "extends": "scenes", "consistency": {"shards": 3}}
        )
    )
    shards = {(row["step"], row["shards"]) for row in read_rows(file)}
    assert shards == {
        ("evaluation", "1"),
        ("attribution", "1"),
        ("tests", "1-3"),
        ("cc-shap", "1-3"),
        ("edited", "1-3"),
    }
    counts = run(file).output.splitlines()[-2]
    # Two groups in each step of stage consistency, with three shards each.
    assert "tests 6, cc-shap 6, edited 6, total " in counts
    assert counts.endswith(f"--configfile {file}")


def test_the_table_ends_with_the_number_of_runs():
    result = run("recorded")
    rows = read_rows("recorded")
    assert "data set" in result.output
    assert f"{len(rows)} runs, 0 skipped" in result.output.splitlines()[-1]


def test_an_unknown_study_is_refused_in_one_line():
    result = run("scene")
    assert result.exit_code == 1
    assert result.stderr.startswith(
        "waltz: study 'scene' is not in config/ (did you mean 'scenes'?)"
    )
    assert (
        "a study is a file of this folder (excess, measures, photos, " in result.stderr
    )
    assert len(result.stderr.splitlines()) == 1
