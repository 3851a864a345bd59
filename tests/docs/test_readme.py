"""The README: its commands, and the version of the release."""

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

import waltz
from waltz.cli.app import COMMANDS, app

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CALLS = [" ".join(call.split()) for call in re.findall(r"`(waltz [^`]+)`", README)]
"""Calls of waltz in the README's text; tests/workflow runs those of its block."""


def test_the_readme_has_at_most_two_screens():
    assert len(README.splitlines()) <= 90


@pytest.mark.parametrize("call", CALLS)
def test_commands_and_options_exist(call):
    _, name, *arguments = shlex.split(call)
    assert name in COMMANDS
    command = get_command(import_module(f"waltz.cli.{name}").app)
    command.make_context(name, arguments)  # refuses what it does not know


@pytest.mark.parametrize(
    "call", [call for call in CALLS if call.startswith(("waltz foil", "waltz models"))]
)
def test_short_commands_run_as_written(call):
    result = CliRunner().invoke(app, shlex.split(call)[1:])
    assert result.exit_code == 0
    assert result.output.strip()


def test_the_version_is_that_of_the_changelog_and_the_citation():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\d\S+)", changelog, re.MULTILINE)[1] == waltz.__version__
    assert (
        yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"]
        == waltz.__version__
    )
