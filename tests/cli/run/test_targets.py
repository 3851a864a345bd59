"""Targets of Snakemake that no rule makes."""

import pytest

from waltz.cli.run import targets


@pytest.fixture(autouse=True)
def _rules(monkeypatch):
    monkeypatch.setattr(targets, "_rules", set())
    monkeypatch.setattr(targets, "_rules_of_tables", {})
    targets.register(["evaluation", "attribution", "table_4_2", "table_C_25"], {"thesis-4.2": "table_4_2"})


@pytest.mark.parametrize(
    ("target", "rule"),
    [
        ("evalution", "evaluation"),
        ("table_4.2", "table_4_2"),
        ("thesis-4.2", "table_4_2"),
        ("thesis-4.22", "table_4_2"),
        ("table-C.25", "table_C_25"),
        ("results/x.csv", ""),
    ],
)
def test_a_wrong_target_is_answered_with_the_rule_that_was_meant(target, rule):
    assert targets.find_meant_rule(target) == rule
    assert (f"did you mean {rule!r}?" in str(targets.build_target_error(target))) == bool(rule)
