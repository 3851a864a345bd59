"""Errors about targets and input files that are not there, with the name that was meant or the key to correct."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from waltz.core.errors import UserError, find_closest

_rules: set[str] = set()
_rules_of_tables: dict[str, str] = {}


def register(rules: Iterable[str], rules_of_tables: Mapping[str, str]) -> None:
    """Remember the rules of the workflow that was read.

    Args:
        rules_of_tables: Name of the rule of each table by the table's id.
    """
    _rules.update(rules)
    _rules_of_tables.update(rules_of_tables)


def find_meant_rule(target: str) -> str:
    """Return the rule that a wrong target means, by the id of a table or the closest name; or an empty text."""
    rule = _rules_of_tables.get(target, re.sub(r"\W", "_", target))
    if rule in _rules:
        return rule
    closest = find_closest(target, [*_rules, *_rules_of_tables])
    return _rules_of_tables.get(closest, closest)


def build_target_error(target: str) -> UserError:
    """Return the error about a target that no rule makes."""
    rule = find_meant_rule(target)
    advice = f"did you mean {rule!r}? All" if rule else "all"
    return UserError(f"{target}: no such target; {advice} are listed by: snakemake --list-target-rules")


def build_missing_file_error(message: str) -> UserError:
    """Return the error about input files that are not there and that no rule makes.

    Args:
        message: Snakemake's, which lists them, and the source and its part if a raw file is fetched from them.
    """
    files = ", ".join(line.strip() for line in message.partition("affected files:")[2].splitlines() if line.strip())
    source = re.search(r"source=([^,\s]+), part=([^,\s]+)", message)
    key = f"the path in sources.{source[1]} ({source[2]})" if source else "the path in the study"
    return UserError(f"{files}: no such file or folder; correct {key}, which is relative to {Path.cwd()}")
