"""Names that Snakemake can be asked for, so that a misspelt one is answered with the one that was meant."""

import re
from collections.abc import Iterable, Mapping

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
