"""The library's code does not become denser (CONTRIBUTING.md, "Walking pace")."""

import ast
from dataclasses import asdict

import pytest
import yaml

from measure_density import (
    LIBRARY,
    LIMITS_FILE,
    count_module,
    has_nested_ternary,
    list_packages,
    measure_package,
)

SLACK = 0.02
"""Share by which a measure may pass its limit: who deletes plain lines raises ratios a little."""
LIMITS = yaml.safe_load(LIMITS_FILE.read_text(encoding="utf-8"))
MODULE = '''"""Docstring."""

# A comment.
def choose(items, own):  # at the end of a line, no line of comments

    """Return one of them."""
    if own and items:
        return [item for item in items if item]
    return 1 if own else 2
'''


def test_decisions_names_and_lines_of_a_module_are_counted():
    counts = count_module(MODULE)
    assert counts["lines"] == 9
    assert counts["comment lines"] == 1
    assert counts["code lines"] == 4
    assert counts["body lines"] == 3
    assert counts["decisions"] == 2 + 2 + 1  # if, and; for, if; else
    assert (counts["ternaries"], counts["comprehensions"]) == (1, 1)
    assert (counts["bindings"], counts["fillers"]) == (3, 1)


def test_a_ternary_inside_another_is_detected():
    assert has_nested_ternary(ast.parse("x = 1 if a else (2 if b else 3)"))
    assert not has_nested_ternary(ast.parse("x = 1 if a else 2\ny = 3 if b else 4"))


def test_every_package_has_limits():
    assert list(LIMITS) == list_packages()


@pytest.mark.parametrize("package", LIMITS)
def test_a_package_is_not_denser_than_its_limits(package):
    measures = asdict(measure_package(package))
    limits = LIMITS[package]
    worse = {}
    for name, value in measures.items():
        limit = limits[name]
        if name == "comments":
            is_worse = value < limit * (1 - SLACK)
        else:
            is_worse = value > limit * (1 + SLACK)
        if is_worse:
            worse[name] = (value, limit)
    assert not worse, (
        f"{package}: (measured, limit) {worse}; write plainer code (CONTRIBUTING.md, Walking pace)"
    )


def test_no_conditional_expression_is_nested():
    nested = [
        str(module.relative_to(LIBRARY))
        for module in sorted(LIBRARY.rglob("*.py"))
        if has_nested_ternary(ast.parse(module.read_text(encoding="utf-8")))
    ]
    assert nested == []
