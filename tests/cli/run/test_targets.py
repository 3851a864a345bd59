"""Targets of Snakemake that no rule makes."""

import pytest

from waltz.cli.run import targets


@pytest.fixture(autouse=True)
def _rules(monkeypatch):
    monkeypatch.setattr(targets, "_rules", set())
    monkeypatch.setattr(targets, "_rules_of_tables", {})
    targets.register(
        ["evaluation", "attribution", "table_4_2", "table_C_25", "table_figure_C_1"],
        {"thesis-4.2": "table_4_2", "thesis-figure-C.1": "table_figure_C_1"},
    )


@pytest.mark.parametrize(
    ("target", "rule"),
    [
        ("evalution", "evaluation"),
        ("table_4.2", "table_4_2"),
        ("thesis-4.2", "table_4_2"),
        ("thesis-4.22", "table_4_2"),
        ("table-C.25", "table_C_25"),
        ("table_C_1", "table_figure_C_1"),
        ("thesis-C.1", "table_figure_C_1"),
        ("results/x.csv", ""),
    ],
)
def test_a_wrong_target_is_answered_with_the_rule_that_was_meant(target, rule):
    assert targets.find_meant_rule(target) == rule
    assert (
        f"did you mean {rule!r}?" in str(targets.build_target_error(target))
    ) == bool(rule)


def test_a_missing_file_is_named_with_its_key(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message = (
        'MissingInputException in rule fetch in file "sources.smk", line 18:\nMissing input files for rule fetch:\n'
        "    output: results/mine/raw/own/zoo/mine.csv\n    wildcards: source=own, part=zoo, file=mine.csv\n"
        "    affected files:\n        mine.csv\n"
    )
    assert str(targets.build_missing_file_error(message)) == (
        f"mine.csv: no such file or folder; correct the path in sources.own (zoo), which is relative to {tmp_path}"
    )
