"""The groups of tests: what plain `pytest` leaves out has a command in `.ci/run` and in CONTRIBUTING."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OPTIONS = PROJECT["tool"]["pytest"]["ini_options"]
MARKERS = {marker.partition(":")[0] for marker in OPTIONS["markers"]}
LEFT_OUT = re.compile(r"-m 'not \(([\w ]+)\)'")
SELECTED = re.compile(r"pytest[^\n`]*? -m \"?([\w ]+)")


def split_markers(expression: str) -> set[str]:
    """Return the markers of an expression such as `browser or slurm`."""
    return set(expression.split()) - {"or"}


def test_plain_pytest_leaves_out_every_group_but_the_newest():
    match = LEFT_OUT.search(OPTIONS["addopts"])
    assert match
    assert split_markers(match[1]) == MARKERS - {"newest"}


@pytest.mark.parametrize("page", [".ci/run", "CONTRIBUTING.md"])
def test_every_group_has_a_command(page):
    commands = SELECTED.findall((ROOT / page).read_text(encoding="utf-8"))
    selected = set().union(*map(split_markers, commands))
    assert selected == MARKERS
