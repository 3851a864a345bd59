"""One line for what the user can correct, from the exception that Snakemake reports and from
nothing else.
"""

import logging
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake.cli import parse_config
from snakemake.common.configfile import load_configfile
from snakemake.exceptions import (
    InputFunctionException,
    LockException,
    MissingRuleException,
    print_exception,
)
from snakemake.logging import logger

from waltz.cli.run import explain


@pytest.fixture
def show(monkeypatch):
    """Return what a run shows for an exception that a function raises."""
    monkeypatch.setattr(explain, "_describe_refusal", None)
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logger.addHandler(handler)
    logger.addFilter(explain.explain)

    def report(function, *arguments):
        try:
            function(*arguments)
        except Exception as error:
            print_exception(error)
        return messages.pop()

    yield report
    logger.removeHandler(handler)
    logger.removeFilter(explain.explain)


def fail(error):
    raise error


@pytest.mark.parametrize(
    ("file", "fault"),
    [
        (
            "no.yaml",
            "no.yaml: cannot be read: No such file or directory; check the path",
        ),
        ("list.yaml", "list.yaml: holds no keys (got list); see"),
        ("broken.yaml", "broken.yaml: is not YAML (line 2, column 1: "),
    ],
)
def test_a_file_that_is_no_study_is_named(tmp_path, monkeypatch, show, file, fault):
    monkeypatch.chdir(tmp_path)
    Path("list.yaml").write_text("- study\n")
    Path("broken.yaml").write_text("study: [\n")
    assert show(load_configfile, file).startswith(f"waltz: {fault}")


@pytest.mark.parametrize("entry", ["study", "3=4"])
def test_an_entry_that_is_no_key_is_named(show, entry):
    assert show(parse_config, [entry]).startswith(
        f"waltz: --config: no key with a value (got '{entry}'"
    )


def test_a_target_that_is_taken_for_an_entry_is_told_where_to_stand(show):
    assert show(parse_config, ["table_4_2"]).endswith(
        "write it behind --: --config study=scenes -- table_4_2"
    )


@pytest.mark.parametrize("entry", ["evaluation.sample=3", "models.clip.weights=x"])
def test_a_key_below_another_one_belongs_into_a_file(show, entry):
    assert show(parse_config, [entry]).startswith(
        "waltz: --config: sets keys of the top level only"
    )


def test_odd_options_do_not_hide_another_error(tmp_path, monkeypatch, show):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "sys.argv", ["snakemake", "--configfile", "no.yaml", "--config", "study"]
    )
    assert "the true error" in show(fail, RuntimeError("the true error"))
    error = NotADirectoryError(20, "Not a directory", "results")
    assert show(fail, error).startswith("waltz: results: a part of this path is a file")


def test_a_target_is_named_with_its_spaces(show):
    assert show(fail, MissingRuleException("a file")).startswith(
        "waltz: a file: no such target"
    )


def test_the_message_of_a_function_of_a_rule_is_kept(show):
    class UserError(Exception):
        """Of the same name as that of waltz, which Snakemake shows in a traceback."""

    rule = SimpleNamespace(
        name="metrics",
        workflow=SimpleNamespace(linemaps={}),
        lineno=1,
        snakefile="Snakefile",
    )
    error = InputFunctionException(
        UserError("data.csv: is empty; fill it"), wildcards={}, rule=rule
    )
    assert show(fail, error) == "waltz: data.csv: is empty; fill it"


def test_the_message_about_a_lock_ends_with_its_owner(show):
    assert "Directory cannot be locked" in show(fail, LockException())
    explain._describe_refusal = lambda: "study small is being run"
    assert (
        show(fail, LockException())
        == "Error: Directory cannot be locked.\nwaltz: study small is being run"
    )
