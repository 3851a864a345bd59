"""The command `waltz report`."""

import pytest
from typer.testing import CliRunner

from waltz.cli.app import app


@pytest.fixture
def page(tmp_path):
    page = tmp_path / "s" / "reporting" / "report.html"
    page.parent.mkdir(parents=True)
    page.write_text("<html></html>")
    return page


@pytest.mark.parametrize("study", [[], ["s"]])
def test_prints_the_path_of_the_page(tmp_path, page, study):
    assert (
        CliRunner().invoke(app, ["report", *study, "--results", str(tmp_path)]).output
        == f"{page}\n"
    )


def test_opens_the_page(tmp_path, page, monkeypatch):
    opened = []
    monkeypatch.setattr("typer.launch", opened.append)
    CliRunner().invoke(app, ["report", "--open", "--results", str(tmp_path)])
    assert opened == [page.as_uri()]


def test_a_study_without_page_says_how_to_get_one(tmp_path, page):
    result = CliRunner().invoke(app, ["report", "t", "--results", str(tmp_path)])
    assert result.exit_code == 1
    assert result.output.endswith("no such page; there is one of s\n")
    (tmp_path / "t" / "reporting").mkdir(parents=True)
    result = CliRunner().invoke(app, ["report", "t", "--results", str(tmp_path)])
    assert result.output.endswith(
        "no such page; run: snakemake --cores 2 --config study=t\n"
    )


@pytest.mark.parametrize("folder", ["results/scenes/reporting", "config/scenes.yaml"])
def test_a_misspelled_study_is_named_with_the_closest_that_exists(tmp_path, folder):
    (tmp_path / folder).mkdir(parents=True)
    result = CliRunner().invoke(
        app, ["report", "scnes", "--results", str(tmp_path / "results")]
    )
    assert result.output.endswith(
        "no such page (did you mean 'scenes'?); run: snakemake --cores 2 --config study=scenes\n"
    )


def test_results_are_those_of_this_folder_else_of_the_checkout(tmp_path, monkeypatch):
    checkout, elsewhere = tmp_path / "waltz", tmp_path / "elsewhere"
    page = checkout / "results" / "s" / "reporting" / "report.html"
    for folder in (page.parent, elsewhere):
        folder.mkdir(parents=True)
    page.write_text("<html></html>")
    monkeypatch.setattr("waltz.cli.run.checkout.find_checkout", lambda: checkout)
    monkeypatch.chdir(elsewhere)
    assert CliRunner().invoke(app, ["report", "s"]).output == f"{page}\n"
    monkeypatch.chdir(checkout)
    assert (
        CliRunner().invoke(app, ["report", "s"]).output
        == "results/s/reporting/report.html\n"
    )
