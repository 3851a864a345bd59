"""What a run of Snakemake shows at its end."""

from dataclasses import replace

import pytest

from waltz.cli.run.summary import print_run_summary
from waltz.reporting.tables.cells import Cell, format_csv


def cell(table, model, value, dataset="average"):
    return Cell(
        table, "equations", "acc_r", model, dataset, "", value, 100, *[None] * 4, "", ""
    )


@pytest.fixture
def tables(tmp_path):
    """Write the tables of a study and return their folder."""
    folder = tmp_path / "small" / "reporting" / "tables"
    folder.mkdir(parents=True)
    for name, cells in {
        "thesis-4.2": [cell("thesis-4.2", "clip", 58.5, "existence")],
        "thesis-4.3": [cell("thesis-4.3", "llava", 54.5)],
        "thesis-A.2": [],
    }.items():
        (folder / f"{name}.csv").write_text(format_csv(cells))
    (folder.parent / "report.html").touch()
    return folder


def test_it_has_the_headline_the_page_and_the_first_reasons(tables, capsys):
    page = tables.parent / "report.html"
    files = [page, *tables.iterdir()]
    print_run_summary(
        "small", {f"model-{number}": "no GPU" for number in range(5)}, files
    )
    output = capsys.readouterr().err
    assert "54.5" in output
    assert f"report:  {page}\n" in output
    assert "model-2 (no GPU); 2 more" in output
    assert "model-3" not in output
    assert (
        "next:    waltz report small --open; waltz tables thesis-4.2 thesis-4.3 thesis-A.2 --study small\n"
        in output
    )


def test_it_shows_nothing_that_the_run_was_not_asked_for(tables, capsys):
    print_run_summary(
        "small", {}, [tables / "thesis-4.2.csv", tables / "thesis-4.2.md"]
    )
    output = capsys.readouterr().err
    assert "54.5" not in output  # thesis-4.3 and the page are those of an earlier run
    assert "report" not in output.replace(str(tables), "")
    assert f"table:   {tables / 'thesis-4.2.md'}\n" in output
    assert "next:    waltz tables thesis-4.2 --study small\n" in output


def test_an_empty_table_is_named_too(tables, capsys):
    print_run_summary("small", {}, [tables / "thesis-A.2.csv"])
    assert f"table:   {tables / 'thesis-A.2.md'}\n" in capsys.readouterr().err


def test_many_tables_are_a_folder(tables, capsys):
    names = ("thesis-3.4", "thesis-3.5", "thesis-4.2", "thesis-4.3")
    for name in names:
        (tables / f"{name}.csv").write_text(format_csv([]))
    print_run_summary("small", {}, [tables / f"{name}.csv" for name in names])
    output = capsys.readouterr().err
    assert f"tables:  {tables} (4 tables)\n" in output
    assert "next:    waltz tables --study small\n" in output


def test_it_is_silent_about_a_run_that_made_neither_table_nor_page(tables, capsys):
    print_run_summary(
        "small", {}, [tables.parent.parent / "evaluation" / "metrics.parquet"]
    )
    print_run_summary("small", {}, [])
    assert capsys.readouterr().err == ""


def test_it_says_how_numbers_compare_with_the_papers(tables, capsys):
    verdicts = ("equal to the paper", "differs", "differs")
    cells = [
        replace(cell("thesis-4.2", "clip", 50.0), profile="published", verdict=verdict)
        for verdict in verdicts
    ]
    (tables / "thesis-4.2.csv").write_text(format_csv(cells))
    print_run_summary("small", {}, [tables / "thesis-4.2.csv"])
    words = "of 3 numbers that they print, 1 are equal, 0 compatible and 2 different"
    assert f"papers:  {words}" in capsys.readouterr().err


def test_folders_of_an_export_are_named(tmp_path, capsys):
    export = tmp_path / "small" / "export"
    (export / "results").mkdir(parents=True)
    (export / "results.run.json").touch()
    print_run_summary("small", {}, [export / "results", export / "results.run.json"])
    assert capsys.readouterr().err == f"export:  {export}/results\n"
