"""Titles of tables and charts that name the data sets of a study."""

from dataclasses import replace

import pytest

from waltz.reporting.figures.chart_declarations import CHARTS
from waltz.reporting.figures.charts import draw_chart
from waltz.reporting.tables.cells import SYNTHETIC_DATA, Cell
from waltz.reporting.tables.declarations import TABLES
from waltz.reporting.tables.titles import name_data_sets


def cell(dataset, value=60.0, reason=""):
    return Cell(
        *("thesis-3.4", "published", "acc_r", "m", dataset, ""),
        *(value, 100, None, None, None, None),
        *("", reason),
    )


@pytest.mark.parametrize(
    ("cells", "data"),
    [
        ([], "VALSE"),
        ([cell("existence"), cell("average")], "VALSE"),
        ([cell("existence", value=None), cell("mine")], "mine"),
        ([cell("mine"), cell("yours"), cell("mine")], "mine and yours"),
        ([cell("existence"), cell("mine")], "VALSE and mine"),
        ([cell("existence", reason=SYNTHETIC_DATA)], "existence"),
        (
            [cell("a"), cell("b"), cell("c"), cell("d")],
            "a, b, c and d",
        ),
        ([cell(name) for name in "abcde"], "5 data sets"),
    ],
)
def test_a_title_names_the_data_sets_that_are_not_of_valse(cells, data):
    declaration = name_data_sets(TABLES["thesis-3.4"], cells)
    assert declaration.title == f"Pairwise ranking accuracy on {data}"


@pytest.mark.parametrize("table", ["thesis-3.1", "valse-paper-1", "thesis-5.2"])
def test_other_titles_stay(table):
    assert name_data_sets(TABLES[table], [cell("mine")]) == TABLES[table]


@pytest.mark.parametrize(
    ("cells", "data"),
    [
        ([cell("existence")], "VALSE"),
        ([cell("mine"), cell("average")], "mine"),
        ([cell("mine"), replace(cell("yours"), table="thesis-5.4")], "mine"),
    ],
)
def test_the_title_of_a_chart_names_the_data_of_its_tables(cells, data):
    figure = draw_chart(CHARTS["thesis-3.2"], cells, "published")
    assert figure.get_suptitle().startswith(
        f"Accuracy on captions and foils, averages over {data} ("
    )
