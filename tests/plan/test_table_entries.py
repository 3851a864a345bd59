"""Ids of tables, and the table that a wrong id means."""

import pytest

from waltz.plan.study import _check_table
from waltz.plan.table_entries import find_figure_table

IDS = ["thesis-4.2", "thesis-figure-C.1", "seeds-texts"]


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("thesis-C.1", "thesis-figure-C.1"),
        ("C.1", "thesis-figure-C.1"),
        ("thesis-figure-C.1", ""),
        ("figure-C.1", ""),
        ("thesis-4.2", ""),
        ("decoders-paper-C.1", ""),
    ],
)
def test_the_number_of_a_figure_finds_the_table_of_its_numbers(name: str, table: str):
    assert find_figure_table(name, IDS) == table


def test_a_study_with_the_number_of_a_figure_is_told_the_table():
    assert _check_table("thesis-figure-C.1") == "thesis-figure-C.1"
    with pytest.raises(ValueError, match=r"figure are table 'thesis-figure-C\.1'"):
        _check_table("thesis-C.1")
