"""The command `waltz` itself: its help, its version, and its imports."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import waltz
from waltz.cli.app import COMMANDS, LazyCommand, _expand_home, app, name_module

HEAVY = (
    "inflect",
    "matplotlib",
    "numpy",
    "pandas",
    "pyarrow",
    "pydantic",
    "scipy",
    "spacy",
    "torch",
    "transformers",
)


def test_help_lists_each_command_with_its_line():
    output = " ".join(
        CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output.split()
    )
    for name, line in COMMANDS.items():
        assert f"{name} {line}" in output


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help(name):
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0
    assert (
        f"waltz {name}" in " ".join(result.output.split())
        or f" {name} [OPTIONS]" in result.output
    )


@pytest.mark.parametrize("form", ["~/{}", "--on=~/{}", "--on", "a~/{}"])
def test_home_is_expanded_where_a_shell_leaves_it(monkeypatch, tmp_path, form):
    monkeypatch.setenv("HOME", str(tmp_path))
    home = form.replace("a~/", "a!/").replace("~", str(tmp_path)).replace("a!/", "a~/")
    assert _expand_home(form.format("x")) == home.format("x")


def test_help_imports_nothing_heavy():
    program = f"""
import importlib, sys
for name in {[name_module(command) for command in COMMANDS]}:
    importlib.import_module(name)
print(*(set({HEAVY}) & set(sys.modules)))
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == []


def find_commands(command, path=()):
    """Return each command below one with its path, imported as for its own help."""
    if path and isinstance(command, LazyCommand):
        command = get_command(import_module(name_module(path[-1])).app)
    below = [
        found
        for name, each in getattr(command, "commands", {}).items()
        for found in find_commands(each, (*path, name))
    ]
    return [(path, command), *below]


@pytest.mark.parametrize(
    ("path", "command"),
    [
        pytest.param(*each, id=" ".join(each[0]))
        for each in find_commands(get_command(app))
    ],
)
def test_help_shows_each_text_in_full(path, command):
    output = CliRunner().invoke(app, [*path, "--help"], terminal_width=200).output
    texts = [
        command.help,
        *(getattr(parameter, "help", None) for parameter in command.params),
    ]
    assert [
        text
        for text in texts
        if text and "".join(text.split()) not in "".join(output.split())
    ] == []


def test_version():
    assert (
        CliRunner().invoke(app, ["--version"]).output == f"waltz {waltz.__version__}\n"
    )


def test_unknown_command_names_the_closest():
    result = CliRunner().invoke(app, ["modls"])
    assert result.exit_code == 2
    assert "'models'" in result.output


def test_unknown_option_is_one_line():
    result = CliRunner().invoke(app, ["--nope"], prog_name="waltz")
    assert (result.exit_code, result.output) == (
        2,
        "waltz: No such option: --nope; see: waltz --help\n",
    )


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], ["models"], ["foil", "--help"]]
)
def test_a_full_standard_output_is_one_line(arguments):
    command = [sys.executable, "-c", "from waltz.cli.app import app; app()", *arguments]
    with Path("/dev/full").open("w") as full:
        run = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert run.returncode == 1
    assert run.stderr == (
        "waltz: standard output: cannot be written: No space left on device; write to another place\n"
    )


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        (["foil", "a \udcff dog"], "'text': 'a \\xff dog'"),
        (["explain", "--model", "clip", "--text", "\udcff"], "'--text': '\\xff'"),
        (
            ["eval", "--model", "gpt2", "--model", "\udcff", "--on", "valse"],
            "'--model': '\\xff'",
        ),
    ],
)
def test_an_argument_that_is_no_utf_8_is_one_line(arguments, where):
    result = CliRunner().invoke(app, arguments, prog_name="waltz")
    assert (result.exit_code, result.output) == (
        2,
        f"waltz: Invalid value for {where} is not UTF-8; write it in UTF-8; see: waltz {arguments[0]} --help\n",
    )


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        (["build", "captions.csv", "--images", ""], "'--images'"),
        (["build", "captions.csv", "--images="], "'--images'"),
        (["explain", "--model", "clip", "--image", ""], "'--image'"),
        (
            [
                "regions",
                "--model",
                "m",
                "--out",
                "o",
                "--image",
                "a.jpg",
                "--image",
                "",
            ],
            "'--image'",
        ),
        (["people", "export", "--folder", ""], "'--folder'"),
    ],
)
def test_an_empty_path_is_one_line(arguments, where):
    result = CliRunner().invoke(app, arguments, prog_name="waltz")
    assert result.exit_code == 2
    assert result.output == (
        f"waltz: Invalid value for {where}: '' is an empty path; name a file or folder, or . for the current folder;"
        f" see: waltz {arguments[0]} --help\n"
    )


def test_an_empty_text_is_no_empty_path():
    arguments = ["foil", "A dog.", "--instrument", ""]
    result = CliRunner().invoke(app, arguments, prog_name="waltz")
    assert "waltz: --instrument: unknown instrument" in result.output


@pytest.mark.parametrize("path", [[], ["people"]])
def test_a_group_without_a_command_shows_its_help(path):
    assert (
        CliRunner().invoke(app, path).output
        == CliRunner().invoke(app, [*path, "--help"]).output
    )


def test_a_traceback_and_a_warning_hold_no_secret(monkeypatch):
    program = """
import logging
from waltz import model_registry
from waltz.cli import app

def fail(*_):
    logging.getLogger("requests").warning("HTTP 500 at https://host/a?token=%s", "other-value")
    raise RuntimeError("https://me:other-value@host, it-is-secret")

model_registry.load_registry = fail
app.app(["models"])
"""
    monkeypatch.setenv("WALTZ_API_KEY", "it-is-secret")
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert run.returncode == 1
    assert run.stderr.splitlines()[0] == "HTTP 500 at https://host/a"
    assert run.stderr.splitlines()[-1] == "RuntimeError: https://host, <WALTZ_API_KEY>"
    assert "it-is-secret" not in run.stderr + run.stdout
    assert "other-value" not in run.stderr + run.stdout
