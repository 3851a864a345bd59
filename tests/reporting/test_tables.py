import csv
from pathlib import Path

import pytest

from waltz.core.measure import Measure
from waltz.evaluation.metrics import Resampling
from waltz.reporting.declarations import PAIRWISE, TABLES, VALIDATION
from waltz.reporting.layouts import grid, html_table, latex, markdown
from waltz.reporting.published import read_published
from waltz.reporting.tables import COLUMNS, from_csv, join, pairwise_cells, to_csv, validation_cells

PUBLISHED = Path(__file__).parents[2] / "resources" / "published"
HOW = Resampling(resamples=200, confidence=0.95, seed=1)
INSTRUMENTS = list(dict.fromkeys(key[2] for key in read_published(PUBLISHED / "thesis-A.2.csv") if key[2] != "overall"))


def test_27_published_tables_hold_4478_values():
    tables = [read_published(file) for file in sorted(PUBLISHED.glob("*.csv"))]
    assert len(tables) == 27
    assert sum(len(table) for table in tables) == 4478 + sum(
        not cell.value for table in tables for cell in table.values()
    )


def test_every_declared_table_names_published_metrics_and_registered_models():
    from waltz.models.registry import registered

    for declaration in TABLES.values():
        printed = read_published(PUBLISHED / f"{declaration.id}.csv")
        assert {key[0] for key in printed} - {"all"} == set(declaration.metrics)
        assert set(declaration.aliases) <= {key[1] for key in printed}
        assert set(declaration.aliases.values()) <= set(registered())


def _scores(right):
    return [
        {"role": role, "profile": profile, "correct": place < right, "image": str(place)}
        for place in range(10)
        for role in ("caption", "foil")
        for profile in ("published", "equations")
    ]


def _pairwise(models=("gpt2-large", "mine"), datasets=INSTRUMENTS, profile="published"):
    printed = read_published(PUBLISHED / "thesis-3.4.csv")
    scores = {(model, name): _scores(6) for model in models for name in datasets}
    measured = pairwise_cells(scores, models, printed, PAIRWISE.aliases, profile, HOW)
    return join(PAIRWISE, profile, measured, printed, "not run in this study", 0.95)


def test_a_registered_model_stands_under_its_printed_name_and_a_new_one_under_its_own():
    cells = {(cell.metric, cell.model, cell.dataset): cell for cell in _pairwise()}
    ours = cells["acc_r", "gpt2", "existence"]
    assert (ours.value, ours.n, ours.published, ours.verdict) == (60.0, 10, 58.0, "compatible")
    assert ours.difference == pytest.approx(2)
    assert cells["acc_r", "mine", "average"].value == pytest.approx(60)
    assert (cells["acc_r", "mine", "existence"].verdict, cells["acc_r", "mine", "existence"].reason) == (
        "",
        "not printed",
    )
    assert cells["acc_r", "clip", "existence"].reason == "not run in this study"
    assert cells["all", "random", "existence"].reason == "chance by definition, not a measurement"


def test_an_average_over_some_data_sets_is_none():
    cells = {(cell.metric, cell.model, cell.dataset): cell for cell in _pairwise(datasets=INSTRUMENTS[:4])}
    assert cells["acc_r", "gpt2", "average"].reason == "not averaged: 7 of 11 data sets were not run"


def test_only_the_published_profile_is_joined_to_print():
    assert all(cell.published is None and not cell.verdict for cell in _pairwise(profile="equations"))


def test_no_cell_is_blank_without_a_reason():
    for cell in _pairwise():
        assert cell.value is not None or cell.reason
        assert cell.verdict or cell.reason


def test_the_overall_row_sums_and_its_unanimous_share_follows_the_profile():
    printed = read_published(PUBLISHED / "thesis-A.2.csv")
    rows = [
        {"dataset": name, "metric": metric, "value": value, "n": 10, "ci_low": None, "ci_high": None, "reason": None}
        for name in INSTRUMENTS
        for metric, value in (("instances", 10), ("valid", 8), ("unanimous", 4))
    ]
    for profile, share in (("published", 50), ("equations", 40)):
        found = validation_cells(rows, printed, profile)
        assert found["instances", "", "overall", ""].value == 110
        assert found["valid_percent", "", "overall", ""].value == pytest.approx(80)
        assert found["unanimous_percent", "", "overall", ""].value == pytest.approx(share)
    missing = validation_cells(rows[:-3], printed, "published")
    assert "does not hold all instruments" in missing["valid", "", "overall", ""].reason


def test_a_table_survives_its_csv():
    cells = _pairwise()
    text = to_csv(cells)
    assert next(csv.reader(text.splitlines())) == COLUMNS
    assert from_csv(text) == cells


def test_every_form_shows_value_print_and_verdict():
    cells = _pairwise()
    assert "(58.0) ≈" in markdown(PAIRWISE, cells)
    assert r"60.0 (58.0) $\approx$" in latex(PAIRWISE, cells)
    assert "(58.0) ≈" in html_table(PAIRWISE, cells)


def test_rows_of_a_metric_stand_together_in_the_declared_order():
    rows = [name.partition(" · ")[0] for name in grid(PAIRWISE, _pairwise()).index]
    assert list(dict.fromkeys(rows)) == ["all", *PAIRWISE.metrics.values()]
    assert rows == sorted(rows, key=list(dict.fromkeys(rows)).index)


def test_names_are_text_in_every_form():
    cells = join(VALIDATION, "equations", {("valid", "", "<script>&_", ""): Measure(1, 1)}, {}, "absent", 0.95)
    assert "<script>" not in html_table(VALIDATION, cells)
    assert r"$<$script$>$\&\_" in latex(VALIDATION, cells)
