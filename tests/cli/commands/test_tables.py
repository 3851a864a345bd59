"""The command `waltz tables` on the tables of two small studies."""

import os
import re
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from waltz.cli.app import app
from waltz.reporting.tables.cells import Cell, format_csv

ACCURACY = Cell(
    "thesis-4.2",
    "published",
    "acc_r",
    "clip",
    "existence",
    "",
    60.0,
    100,
    *[None] * 4,
    "",
    "",
)
AVERAGE = replace(ACCURACY, dataset="average", value=58.5, chance=50.0)
MISSING = replace(
    ACCURACY, dataset="plurality", value=None, n=0, reason="not run in this study"
)
T_SHAP = replace(AVERAGE, profile="equations", metric="t_shap_c", value=44.2)


@pytest.fixture
def results(tmp_path):
    """Two studies, `older` and `newer`."""
    for age, study in enumerate(("newer", "older")):
        folder = tmp_path / study / "reporting" / "tables"
        folder.mkdir(parents=True)
        (folder / "thesis-4.2.csv").write_text(
            format_csv([ACCURACY, AVERAGE, MISSING, T_SHAP])
        )
        (folder / "thesis-5.1.csv").write_text(format_csv([]))
        (folder / "thesis-figure-C.1.csv").write_text(format_csv([]))
        os.utime(folder, (1e9 - age, 1e9 - age))
    return tmp_path


def run(results, *arguments):
    return CliRunner().invoke(app, ["tables", "--results", str(results), *arguments])


def test_without_arguments_lists_tables_and_averages_of_the_newest_study(results):
    output = run(results).output
    assert "study newer, published" in output
    assert "2 of 3" in output
    assert "thesis-5.1" not in output  # it has no cell
    lines = [re.findall(r"\w[\w.-]*", line) for line in output.splitlines()]
    assert ["clip", "58.5"] in lines
    assert ["chance", "50.0"] in lines
    assert "60.0" not in output  # not an average
    assert "44.2" not in output  # of the other profile


@pytest.mark.parametrize("name", ["thesis-4.2", "4.2"])
def test_prints_a_named_table(results, name):
    output = run(results, name).output
    assert "60.0" in output
    assert "plurality" in output
    assert "not run in this study" not in output
    assert "not run in this study" in run(results, name, "--why").output


def test_prints_another_profile_and_study(results):
    output = run(results, "4.2", "--profile", "equations", "--study", "older").output
    assert "44.2" in output
    assert "60.0" not in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["thesis-4.3"], "thesis-4.3: no such table; `waltz tables` lists them"),
        (
            ["--profile", "papers"],
            "--profile: unknown profile of study newer (got 'papers', expected published or equations)",
        ),
        (
            ["C.1"],
            "C.1: no such table (the numbers of the figure are 'thesis-figure-C.1');",
        ),
        (["--study", "newr"], "holds no tables (did you mean 'newer'?)"),
    ],
)
def test_wrong_input_is_one_line(results, arguments, message):
    result = run(results, *arguments)
    assert result.exit_code == 1
    assert message in result.output
    assert len(result.output.splitlines()) == 1


def test_no_results_say_how_to_get_them(tmp_path):
    assert (
        run(tmp_path).output
        == f"waltz: {tmp_path}: no study has tables or a report yet; run: snakemake --cores 2\n"
    )


def test_titles_name_the_data_sets_of_the_study(results):
    file = results / "newer" / "reporting" / "tables" / "thesis-4.2.csv"
    file.write_text(format_csv([replace(ACCURACY, dataset="mine")]))
    assert "T-SHAP of encoders on mine" in run(results).output
    assert "T-SHAP of encoders on mine" in " ".join(run(results, "4.2").output.split())
