"""The commands of all pages: subcommands, options, targets, studies, extras and files exist."""

import re
import shlex
import tomllib
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec

import pytest
from snakemake.cli import parse_args
from typer import Exit
from typer.main import get_command
from typer.testing import CliRunner

from docs.page_commands import ROOT, list_page_commands
from docs.test_docs import PAGES
from waltz.cli.app import COMMANDS, UsageError, app, name_module
from waltz.plan.table_entries import list_table_ids

COMMANDS_BY_ID = {
    f"{page.relative_to(ROOT)}: {shlex.join(words)}": words
    for page in PAGES
    for words in list_page_commands(page)
}
TABLE_OF_READERS = "table_accuracy_and_share"
"""The target of the table that a reader writes who follows docs/how-to/add-a-table.md."""
MissingParameter = import_module(UsageError.__module__).MissingParameter
RULE = re.compile(r"^(?:use rule \w+ as|rule) (\w+)(?: with)?:", re.MULTILINE)


def select_commands(*beginning):
    """Return the other words of all commands with this beginning, each as a parameter of a test."""
    return [
        pytest.param(words[len(beginning) :], id=name)
        for name, words in COMMANDS_BY_ID.items()
        if words[: len(beginning)] == list(beginning)
    ]


def list_targets():
    rules = {
        rule
        for file in [ROOT / "Snakefile", *(ROOT / "rules").glob("*.smk")]
        for rule in RULE.findall(file.read_text(encoding="utf-8"))
    }
    tables = {f"table_{re.sub('[-.]', '_', table)}" for table in list_table_ids()}
    short = {name.replace("table_thesis_", "table_") for name in tables}
    return rules | tables | short | {TABLE_OF_READERS}


@pytest.mark.parametrize("arguments", select_commands("waltz"))
def test_subcommands_and_options_exist(arguments):
    name, *others = arguments
    assert name in COMMANDS
    command = get_command(import_module(name_module(name)).app)
    while hasattr(command, "commands"):
        subcommand, *others = others
        command = command.commands[subcommand]
    is_part = len(others) <= 2  # a sentence names the command, or one of its options
    with suppress(*((MissingParameter, Exit) if is_part else ())):
        command.make_context(name, others)  # refuses what it does not know


@pytest.mark.parametrize("arguments", select_commands("snakemake"))
def test_targets_and_studies_of_snakemake_exist(arguments):
    _, options = parse_args([word for word in arguments if word != "--archive"])
    targets = {target for target in options.targets if "/" not in target}
    assert targets <= list_targets()
    settings = dict(setting.split("=", 1) for setting in options.config or ())
    study = settings.get("study", "scenes")
    assert (ROOT / "config" / f"{study}.yaml").is_file()
    for profile in (options.workflow_profile, options.profile):
        assert profile is None or (ROOT / profile).is_dir()


@pytest.mark.parametrize("arguments", select_commands("pip", "install"))
def test_extras_exist(arguments):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {
        extra
        for argument in arguments
        for extra in re.findall(r"^\.\[(\w[\w-]*)\]$", argument)
    }
    assert extras <= project["optional-dependencies"].keys()


@pytest.mark.parametrize("arguments", select_commands("python"))
def test_modules_and_scripts_exist(arguments):
    first, *others = arguments
    if first == "-m":
        assert find_spec(others[0])
    else:
        assert (ROOT / first).is_file()


@pytest.mark.parametrize("arguments", select_commands("waltz", "foil"))
def test_texts_have_foils(arguments):
    is_text = bool(arguments) and " " in arguments[0]
    if is_text:
        result = CliRunner().invoke(app, ["foil", *arguments])
        assert result.exit_code == 0
        assert "caption: " in result.output
