import csv
import json

import pytest
from typer.testing import CliRunner

from waltz.cli.app import app
from waltz.core.errors import UserError
from waltz.reporting.compare_runs import (
    DIFFERENT,
    ONLY_FIRST,
    ONLY_SECOND,
    OVERLAP,
    SAME,
    compare_cells,
    count_verdicts,
    read_study_tables,
)
from waltz.reporting.tables.cells import Cell, format_csv


def cell(metric, value, low=None, high=None, reason=""):
    return Cell(
        "t-1",
        "published",
        metric,
        "m",
        "d",
        "",
        value,
        10,
        low,
        high,
        None,
        None,
        "",
        reason,
    )


FIRST = [
    cell("same", 50.0, 40.0, 60.0),
    cell("near", 50.0, 45.0, 55.0),
    cell("far", 50.0, 49.0, 51.0),
    cell("bare", 50.0),
    cell("lost", 50.0),
    cell("never", None, reason="not run"),
]
SECOND = [
    cell("new", 1.0),
    cell("same", 50.0, 41.0, 61.0),
    cell("near", 54.0, 50.0, 58.0),
    cell("far", 54.0, 53.0, 55.0),
    cell("bare", 50.5),
    cell("lost", None, reason="the model was left out"),
    cell("never", None, reason="not run"),
]


def test_each_cell_with_a_value_has_one_verdict():
    changes = compare_cells(FIRST, SECOND)
    verdicts = {change.key[0]: change.verdict for change in changes}
    assert verdicts == {
        "same": SAME,
        "near": OVERLAP,
        "far": DIFFERENT,
        "bare": DIFFERENT,
        "lost": ONLY_FIRST,
        "new": ONLY_SECOND,
    }
    by_metric = {change.key[0]: change for change in changes}
    assert (by_metric["far"].difference, by_metric["lost"].reason) == (
        4.0,
        "the model was left out",
    )
    assert count_verdicts(changes) == {
        DIFFERENT: 2,
        OVERLAP: 1,
        ONLY_FIRST: 1,
        ONLY_SECOND: 1,
        SAME: 1,
    }


def written(folder, cells, commit):
    (folder / "reporting" / "tables").mkdir(parents=True)
    (folder / "reporting" / "tables" / "t-1.csv").write_text(format_csv(cells))
    (folder / "evaluation").mkdir()
    (folder / "evaluation" / "d.run.json").write_text(json.dumps({"commit": commit}))
    (folder / "evaluation" / "shards.run.json").write_text(
        json.dumps([{"commit": commit}] * 2)
    )
    return folder


def test_the_command_names_commits_and_lists_what_moved(tmp_path):
    first, second = (
        written(tmp_path / "a", FIRST, "1" * 40),
        written(tmp_path / "b", SECOND, "2" * 40 + "+changes"),
    )
    out = tmp_path / "changes.csv"
    result = CliRunner().invoke(
        app, ["compare", str(first), "b", "--results", str(tmp_path), "--csv", str(out)]
    )
    assert result.exit_code == 0, result.output
    assert "commits 111111111111 (3 records)" in result.output
    assert "222222222222+changes" in result.output
    assert (
        "moved: 2, intervals overlap: 1, only in the first: 1, only in the second: 1, same: 1"
        in result.output
    )
    assert "same │" not in result.output
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["metric"] for row in rows] == [
        "same",
        "near",
        "far",
        "bare",
        "lost",
        "new",
    ]
    assert (
        "same"
        in CliRunner().invoke(app, ["compare", str(first), str(second), "--all"]).output
    )


def test_a_table_of_any_id_is_read_and_the_reproduction_is_not(tmp_path):
    folder = written(tmp_path / "a", FIRST, "1" * 40)
    tables = folder / "reporting" / "tables"
    for name in ("accuracy", "reproduction", "reproduction_summary"):
        (tables / f"{name}.csv").write_text(
            (tables / "t-1.csv").read_text() if name == "accuracy" else "no cells"
        )
    assert len(read_study_tables(folder).cells) == 2 * len(FIRST)


def test_a_folder_without_tables_is_named(tmp_path):
    with pytest.raises(UserError, match="nowhere: no tables"):
        read_study_tables(tmp_path / "nowhere")
    result = CliRunner().invoke(
        app, ["compare", "nowhere", "here", "--results", str(tmp_path)]
    )
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
