"""What a run of Snakemake shows at its end."""

from waltz.cli.run.summary import print_run_summary
from waltz.reporting.tables.cells import Cell, format_csv

AVERAGE = Cell("thesis-4.2", "equations", "acc_r", "clip", "average", "", 58.5, 100, *[None] * 4, "", "")


def test_it_has_the_headline_the_page_and_the_first_reasons(tmp_path, capsys):
    folder = tmp_path / "small" / "reporting"
    (folder / "tables").mkdir(parents=True)
    (folder / "tables" / "thesis-4.2.csv").write_text(format_csv([AVERAGE]))
    (folder / "report.html").touch()
    print_run_summary("small", {f"model-{number}": "no GPU" for number in range(5)}, tmp_path)
    output = capsys.readouterr().err
    assert "58.5" in output
    assert f"report:  {folder / 'report.html'}" in output
    assert "model-2 (no GPU); 2 more" in output
    assert "model-3" not in output


def test_it_is_silent_about_a_study_without_cells(tmp_path, capsys):
    (tmp_path / "small" / "reporting" / "tables").mkdir(parents=True)
    (tmp_path / "small" / "reporting" / "tables" / "thesis-4.2.csv").write_text(format_csv([]))
    print_run_summary("small", {}, tmp_path)
    print_run_summary("small", {}, tmp_path)
    assert capsys.readouterr().err == ""
