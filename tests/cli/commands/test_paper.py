"""The command `waltz paper`: values of the papers' tables, and ours from a study."""

import json

import pytest
from typer.testing import CliRunner

from waltz.cli.app import app
from waltz.cli.commands.paper import find_paper_table
from waltz.core.errors import UserError
from waltz.reporting.tables.cells import Cell, format_csv

CELL = Cell(
    table="thesis-4.2",
    profile="published",
    metric="acc_r",
    model="clip",
    dataset="existence",
    setting="",
    value=65.0,
    n=505,
    ci_low=60.0,
    ci_high=70.0,
    paper_value=66.9,
    difference=-1.9,
    verdict="compatible",
    reason="",
)


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "mine" / "reporting" / "tables"
    folder.mkdir(parents=True)
    (folder / "thesis-4.2.csv").write_text(format_csv([CELL]))
    return tmp_path


def run(results, *arguments):
    return CliRunner().invoke(app, ["paper", *arguments, "--results", str(results)])


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("4.2", "thesis-4.2"),
        ("thesis 4.2", "thesis-4.2"),
        ("Thesis Table 4.2", "thesis-4.2"),
        ("thesis-4.2", "thesis-4.2"),
        ("Table C.25", "thesis-C.25"),
        ("a.1", "thesis-A.1"),
        ("decoders 2", "decoders-paper-2"),
        ("VL decoders paper 2", "decoders-paper-2"),
        ("CV-Probes 4", "cv-probes-4"),
        ("cv-probes table 10", "cv-probes-10"),
        ("VALSE 1", "valse-paper-1"),
        ("running text", "running-text"),
        ("table_3_4", "thesis-3.4"),
        ("table_A_2", "thesis-A.2"),
        ("table_decoders_paper_2", "decoders-paper-2"),
    ],
)
def test_tables_are_named_as_people_write_them(name, table):
    assert find_paper_table(name).id == table


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("2", "decoders-paper-2 and cv-probes-2; name the document as well"),
        ("4-2", "did you mean 'thesis-4.2'"),
        ("42", "did you mean 'thesis-4.2'"),
        ("tablec25", "did you mean 'thesis-C.25'"),
        ("9.9", "is no table with paper values"),
        ("Figure C.1", "are computed from thesis-5.2 and thesis-C.2"),
        ("VALSE 4.2", "is no table"),
    ],
)
def test_names_of_no_or_several_tables_are_refused(name, message):
    with pytest.raises(UserError, match=message):
        find_paper_table(name)


def test_a_cell_is_printed_with_source_number_and_verdict(results):
    output = run(results, "4.2", "--model", "CLIP", "--data", "Existence").output
    assert "Table 4.2 of the thesis" in output
    assert "thesis-4.2.csv" in output
    assert "paper         66.9 percent" in output
    assert "published     65.0 [60.0, 70.0] n 505: compatible" in output
    assert "compatible: the difference lies inside the combined interval" in output
    # No number of ours differs, so the verdict is not explained.
    assert "differs:" not in output
    assert "lxmert" not in output


def test_our_name_of_a_model_selects_the_model_of_the_paper(results):
    output = run(results, "4.2", "--model", "clip-vit-base-patch32").output
    assert "66.9" in output


def test_without_a_study_the_paper_values_are_printed(tmp_path):
    output = run(tmp_path, "4.2", "--model", "clip", "--metric", "acc_r").output
    assert "66.9" in output
    assert "none: no study with this table was run" in output


def test_a_study_without_the_model_says_so(results):
    output = run(results, "4.2", "--model", "lxmert", "--data", "existence").output
    assert output.count("ours          none: the study has no lxmert here\n") == 3
    # The notes of the table may speak of ours, but there is no row of it.
    assert (
        "\nours" not in run(results, "4.2", "--model", "clip").output.split("\n\n")[1]
    )


def test_signs_of_conditions_are_kept(tmp_path):
    data = "--data=-img+cap"
    cells = json.loads(run(tmp_path, "cv-probes 4", data, "--json").output)
    assert {cell["dataset"] for cell in cells} == {"cv-probes:-img+cap"}


def test_json_has_the_digits_of_the_paper_and_our_number(results):
    arguments = ("4.2", "--model", "clip", "--data", "existence", "--metric", "acc_r")
    (cell,) = json.loads(run(results, *arguments, "--json").output)
    assert cell["value"] == "66.9"
    assert cell["ours"][0]["value"] == 65.0
    assert cell["ours"][0]["file"].endswith("mine/reporting/tables/thesis-4.2.csv")


def test_known_errors_of_the_paper_are_printed(tmp_path):
    output = run(tmp_path, "3.4", "--model", "vilbert", "--metric", "acc").output
    assert "inconsistent" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["4.2", "--model", "clipp"], "did you mean 'clip'?"),
        (["4.2", "--data", "existense"], "did you mean 'existence'?"),
        (["5.2", "--model", "BakLLaVA"], "; this name is in thesis-3.5, thesis-4.3"),
        (["4.2", "--study", "other"], "thesis-4.2.csv: no such table"),
    ],
)
def test_wrong_names_are_refused_in_one_line(results, arguments, message):
    result = run(results, *arguments)
    assert result.exit_code == 1
    (line,) = result.output.splitlines()
    assert message in line


def test_without_a_table_all_tables_are_listed(results):
    output = run(results).output
    assert "thesis-C.25" in output
    assert "running-text" in output
