"""Tables as Markdown, HTML and LaTeX."""

import html.parser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from stand_ins.paper_numbers import build_paper_cells, read_paper_table
from waltz.core.measure import Measure
from waltz.reporting.tables.build_table import build_cells
from waltz.reporting.tables.cells import (
    Cell,
    format_summary_csv,
    format_summary_markdown,
    summarize_verdicts,
)
from waltz.reporting.tables.declaration import ENCODER
from waltz.reporting.tables.declarations import TABLES
from waltz.reporting.tables.formats import (
    escape_latex,
    format_cell,
    format_html_page,
    format_latex,
    format_markdown,
)
from waltz.reporting.tables.grid import lay_out_grid
from waltz.reporting.tables.numbers import Number, NumberKey, StudyFacts

SNAPSHOT = Path(__file__).with_name("thesis-3.5.md")


def cell(**more):
    names = {
        "table": "t",
        "profile": "published",
        "metric": "acc_r",
        "model": "m",
        "dataset": "d",
        "setting": "",
    }
    numbers = dict.fromkeys(
        ("value", "n", "ci_low", "ci_high", "paper_value", "difference")
    )
    return Cell(**{**names, **numbers, "verdict": "", "reason": "", **more})


def test_a_cell_says_value_deviation_interval_n_print_and_verdict():
    full = cell(
        value=60.04,
        n=10,
        ci_low=50.0,
        ci_high=70.06,
        sd=2.0,
        paper_value=58.0,
        paper_text="58",
        paper_sd=9.0,
    )
    assert format_cell(full) == "60.0 ± 2.0 [50.0, 70.1] n 10 (58 ± 9)"
    assert format_cell(full, intervals=False) == "60.0 ± 2.0 (58 ± 9)"
    assert (
        format_cell(cell(text="nan", paper_text="nan", verdict="equal to the paper"))
        == "nan (nan) ="
    )
    assert format_cell(cell(text="nan", n=5)) == "nan n 5"
    assert format_cell(cell(text="balanced", n=5)) == "balanced"
    assert format_cell(cell(paper_text="58", paper_value=58.0)) == "– (58)"
    assert format_cell(cell(metric="cc_shap_cot", value=0.128)) == "0.13"


def test_the_best_of_several_models_is_bold_and_guesses_are_marked():
    cells = [
        cell(model=name, value=value, ci_low=value - 2, ci_high=value + 2, chance=50.0)
        for name, value in (("a", 60.0), ("b", 50.0))
    ]
    text = format_markdown(TABLES["thesis-3.4"], cells)
    assert "| **60.0** [" in text
    assert "| ▽50.0 [" in text
    set_in = format_latex(TABLES["thesis-3.4"], cells)
    assert r"\textbf{60.0}" in set_in
    assert r"\underline{50.0}" in set_in
    assert 'class="best"' in format_html_page(TABLES["thesis-3.4"], cells)
    assert "**" not in format_markdown(TABLES["thesis-3.4"], cells[:1]).split("\n\n")[3]


def test_latex_has_the_intervals_in_a_line_below_the_values():
    cells = [
        cell(value=60.04, n=10, ci_low=50.0, ci_high=70.06),
        cell(dataset="e", value=58.0, n=10),
        cell(metric="cc_shap_cot", value=-0.12, n=10, ci_low=-0.2, ci_high=-0.04),
    ]
    lines = format_latex(TABLES["thesis-3.4"], cells).split("\n")
    assert lines[lines.index(r"acc$_{r}$ & m & 60.0 & 58.0 \\") + 1] == (
        r" &  & {\scriptsize [50.0, 70.1]} &  \\"
    )
    assert r" &  & {\scriptsize [-0.20, -0.04]} &  \\" in lines
    # A row without intervals has no such line.
    without = format_latex(TABLES["thesis-3.4"], cells[1:2])
    assert "scriptsize [" not in without


def test_every_cell_without_a_value_points_to_its_reason():
    cells = [
        cell(reason="no image"),
        cell(dataset="e", reason="no text"),
        cell(dataset="f", reason="no image"),
    ]
    text = format_markdown(TABLES["thesis-3.4"], cells)
    assert "| –<sup>1</sup> | –<sup>2</sup> | –<sup>1</sup> |" in text
    assert "1. no image (2 cells)\n2. no text\n" in text


@pytest.mark.parametrize("table", TABLES)
def test_every_cell_has_one_place(table):
    declaration = TABLES[table]
    cells = build_paper_cells(table)
    laid = lay_out_grid(declaration, cells)
    shown = [
        marked.cell for _, row in laid.rows for marked in row if marked is not None
    ]
    dropped = [one for one in cells if one.model == "random" and one not in shown]
    assert len(shown) == len(cells) - len(dropped)
    assert set(shown) == set(cells) - set(dropped)
    for one in dropped:  # shown with the metric instead
        assert one.paper_value is not None
        assert any(
            f"(chance {one.paper_value:g})" in name
            for names, _ in laid.rows
            for name in names
        )


def test_rows_of_a_metric_stand_together_in_the_declared_order():
    laid = lay_out_grid(TABLES["thesis-3.4"], build_paper_cells("thesis-3.4"))
    metrics = [names[0] for names, _ in laid.rows]
    assert list(dict.fromkeys(metrics)) == [
        "all metrics",
        "acc_r",
        "acc",
        "min(p_c, p_f)",
        "AUROC × 100",
    ]
    assert metrics == sorted(metrics, key=list(dict.fromkeys(metrics)).index)


def test_correlations_have_no_best():
    laid = lay_out_grid(TABLES["thesis-C.3"], build_paper_cells("thesis-C.3"))
    assert not any(marked and marked.best for _, row in laid.rows for marked in row)


def test_a_lean_is_next_to_its_share():
    laid = lay_out_grid(TABLES["thesis-B.1"], build_paper_cells("thesis-B.1"))
    assert laid.columns[-1] == ("MM skew",)
    rows = dict(laid.rows)
    assert rows["T-SHAP_f", "clip"][-1].cell.paper_text == "balanced"
    assert rows["acc_r", "clip"][-1] is None


def test_columns_have_as_many_levels_as_declared():
    laid = lay_out_grid(TABLES["thesis-4.1"], build_paper_cells("thesis-4.1"))
    assert laid.columns[:2] == (("qa", "vqa", "accuracy"), ("qa", "vqa", "T-SHAP"))
    text = format_html_page(TABLES["thesis-4.1"], build_paper_cells("thesis-4.1"))
    assert (
        '<th scope="colgroup" colspan="4">qa</th><th scope="colgroup" colspan="15">isa</th>'
        in text
    )


def test_names_are_text_in_every_form():
    name = "<script>&_|"
    study = StudyFacts({name: ENCODER}, True, 0.95, {})
    place = NumberKey("evaluation", "acc_r", name, "existence", "alignment")
    numbers = {place: Number(Measure(1.0, 1))}
    cells = build_cells(
        TABLES["thesis-3.4"],
        "published",
        numbers,
        read_paper_table("thesis-3.4"),
        study,
    )
    text = format_html_page(TABLES["thesis-3.4"], cells)
    assert "<script" not in text
    assert "&lt;script&gt;&amp;_|" in text
    assert r"$<$script$>$\&\_|" in format_latex(TABLES["thesis-3.4"], cells)
    marked = format_markdown(TABLES["thesis-3.4"], cells)
    assert "&lt;script>&_\\|" in marked
    lines = [line for line in marked.split("\n") if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1


@pytest.mark.parametrize("table", ["thesis-4.1", "thesis-C.25", "thesis-5.1"])
def test_html_is_well_formed(table):
    open_tags = []

    class Check(html.parser.HTMLParser):
        def handle_starttag(self, tag, attrs):
            if tag != "meta":
                open_tags.append(tag)

        def handle_endtag(self, tag):
            assert open_tags.pop() == tag

    Check().feed(format_html_page(TABLES[table], build_paper_cells(table)))
    assert open_tags == []


def test_a_table_without_models_of_the_study_says_so():
    for form in (format_markdown, format_html_page, format_latex):
        assert (
            "no model of this study belongs" in form(TABLES["thesis-5.2"], []).lower()
        )


def test_metrics_with_an_index_are_set_so():
    assert (
        escape_latex("min(p_c, p_f) T-SHAP_c acc_r a_b")
        == "min(p$_{c}$, p$_{f}$) T-SHAP$_{c}$ acc$_{r}$ a\\_b"
    )


def test_a_table_looks_as_it_did():
    cells = build_paper_cells("thesis-3.5")
    assert format_markdown(TABLES["thesis-3.5"], cells) == SNAPSHOT.read_text(
        encoding="utf-8"
    )


@pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="pdflatex is not installed"
)
def test_latex_sets_every_table(tmp_path):
    for table in TABLES:
        (tmp_path / f"{table}.tex").write_text(
            format_latex(TABLES[table], build_paper_cells(table)), encoding="utf-8"
        )
    body = "\\clearpage\n".join(f"\\input{{{table}}}" for table in TABLES)
    (tmp_path / "all.tex").write_text(
        "\\documentclass[landscape]{article}\\usepackage[utf8]{inputenc}\\usepackage[margin=1cm]{geometry}"
        f"\\usepackage{{booktabs,graphicx,amssymb}}\\begin{{document}}\n{body}\n\\end{{document}}\n"
    )
    command = [
        "pdflatex",
        "-interaction=nonstopmode",
        "-halt-on-error",
        "-draftmode",
        "all.tex",
    ]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]


def test_reproduction_counts_paper_values_by_table_and_model():
    cells = [
        *build_paper_cells("thesis-3.5"),
        *build_paper_cells("thesis-C.2", lambda key, value: value + 7),
    ]
    rows = {(row["by"], row["name"]): row for row in summarize_verdicts(cells)}
    assert rows["all", "all"]["printed"] == 156 + 222
    assert rows["table", "thesis-C.2"]["differs"] == 220
    assert (
        rows["table", "thesis-3.5"]["equal_to_the_paper"]
        + rows["table", "thesis-3.5"]["differs"]
        == 144
    )
    assert rows["model", "random"]["no_verdict"] == 14
    for row in rows.values():
        assert (
            sum(
                value
                for name, value in row.items()
                if name not in ("by", "name", "printed")
            )
            == row["printed"]
        )
    assert format_summary_csv(list(rows.values())).startswith(
        "by,name,printed,equal_to_the_paper,equivalent,compatible,differs"
    )
    assert "| thesis-C.2 | 222 |" in format_summary_markdown(list(rows.values()))
