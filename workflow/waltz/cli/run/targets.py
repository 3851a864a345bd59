"""Errors about missing targets and input files, with the name that was probably meant or the key to
correct.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from waltz.core.errors import UserError, find_closest
from waltz.plan.table_entries import find_figure_table
from waltz.snakemake_compat import find_fetched_part, list_missing_files

_rules: set[str] = set()
_rules_of_tables: dict[str, str] = {}


def register(rules: Iterable[str], rules_of_tables: Mapping[str, str]) -> None:
    """Store the rules of the workflow, from which errors suggest names.

    Args:
        rules: Names of the rules.
        rules_of_tables: Name of the rule that makes each table, by the table's id.
    """
    _rules.update(rules)
    _rules_of_tables.update(rules_of_tables)


def find_meant_rule(target: str) -> str:
    """Return the rule that a wrong target means: by the id of a table, or by the closest name; else
    an empty text.
    """
    # The id of a table means its rule; in any other name, a hyphen or dot is written as an
    # underscore.
    rule = _rules_of_tables.get(target, re.sub(r"\W", "_", target))
    if rule in _rules:
        return rule
    # The number of a figure, as if it were that of a table: `table_C_1`.
    figure = find_figure_table(
        target.removeprefix("table_").replace("_", "."), _rules_of_tables
    )
    if figure:
        return _rules_of_tables[figure]
    closest = find_closest(target, [*_rules, *_rules_of_tables])
    return _rules_of_tables.get(closest, closest)


def build_target_error(target: str) -> UserError:
    """Return the error about a target that no rule makes, with the rule that was probably meant."""
    rule = find_meant_rule(target)
    advice = f"did you mean {rule!r}? All" if rule else "all"
    return UserError(
        f"{target}: no such target; {advice} are listed by: snakemake --list-target-rules"
    )


def build_missing_file_error(message: str) -> UserError:
    """Return the error about input files that do not exist and that no rule makes.

    Args:
        message: Message of Snakemake, which lists the files; for a raw file it also names the
            source and its part.
    """
    files = ", ".join(list_missing_files(message))
    # A raw file that is fetched has its path in an entry of `sources`, which can be named.
    key = "the path in the study"
    fetched = find_fetched_part(message)
    if fetched:
        source, part = fetched
        key = f"the path in sources.{source} ({part})"
    return UserError(
        f"{files}: no such file or folder; correct {key}, which is relative to {Path.cwd()}"
    )
