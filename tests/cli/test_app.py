"""The command `waltz` itself: its help, its version, and its imports."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import waltz
from waltz.cli.app import COMMANDS, app

HEAVY = ("inflect", "matplotlib", "numpy", "pandas", "pyarrow", "pydantic", "scipy", "spacy", "torch", "transformers")


def test_help_lists_each_command_with_its_line():
    output = " ".join(CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output.split())
    for name, line in COMMANDS.items():
        assert f"{name} {line}" in output


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help(name):
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0
    assert f"waltz {name}" in " ".join(result.output.split()) or f" {name} [OPTIONS]" in result.output


def test_help_imports_nothing_heavy():
    program = f"""
import importlib, sys
for name in {list(COMMANDS)}:
    importlib.import_module(f"waltz.cli.{{name}}")
print(*(set({HEAVY}) & set(sys.modules)))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_help_keeps_square_brackets():
    output = CliRunner().invoke(app, ["explain", "--help"], env={"COLUMNS": "200"}).output
    assert "hub id[@revision]" in output


def test_version():
    assert CliRunner().invoke(app, ["--version"]).output == f"waltz {waltz.__version__}\n"


def test_unknown_command_names_the_closest():
    result = CliRunner().invoke(app, ["modls"])
    assert result.exit_code == 2
    assert "'models'" in result.output
