"""The file that declares all tables: their ids for studies, and their entries for the report."""

from collections.abc import Collection, Hashable, Mapping
from functools import cache
from typing import Any

import yaml

from waltz.core.errors import suggest_or_list
from waltz.core.files.resources import RESOURCES

TABLES_FILE = RESOURCES / "tables.yaml"
"""File with the metrics (headings, decimals and marks) and the tables, in the order of the report.
"""
FIGURE = "figure-"
"""Word in the id of a table with the numbers of a figure."""


class _TableLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Loader of plain values that refuses a repeated key, for which YAML would use the last value."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, Any]:
        """Return the dictionary of a mapping; raise an error for a repeated key."""
        keys: set[str] = set()
        for key, _ in node.value:
            if key.value in keys:
                line = key.start_mark.line + 1
                raise yaml.YAMLError(
                    f"{TABLES_FILE}: key {key.value!r} stands twice: line {line}; rename one of them"
                )
            keys.add(key.value)
        return super().construct_mapping(node, deep)  # type: ignore[no-any-return]


@cache
def read_tables_file() -> Mapping[str, Any]:
    """Return the content of `TABLES_FILE` as plain values, with the keys `metrics` and `tables`."""
    content = yaml.load(TABLES_FILE.read_text(encoding="utf-8"), Loader=_TableLoader)
    return dict(content)


def list_table_ids() -> list[str]:
    """Return the ids of all tables, in the order of the report."""
    return list(read_tables_file()["tables"])


def find_figure_table(name: str, ids: Collection[str]) -> str:
    """Return the id of the table with the numbers of a figure whose number was named as if it were
    that of a table, such as `thesis-figure-C.1` for `thesis-C.1`; an empty text if there is none.
    """
    # `thesis-C.1` and `C.1` mean the same figure.
    paper, _, number = name.rpartition("-")
    figure = f"{paper}-{FIGURE}{number}".removeprefix("-")
    for table in ids:
        if f"-{table}".endswith(f"-{figure}"):
            return table
    return ""


def suggest_table(name: str, ids: Collection[str]) -> str:
    """Return the end of a message about an unknown table: the table that was probably meant, or all
    tables.
    """
    # A figure is not like a table by its letters, so that it is looked up first.
    table = find_figure_table(name, ids)
    if table:
        return f"; the numbers of the figure are table {table!r}"
    return suggest_or_list(name, ids)
