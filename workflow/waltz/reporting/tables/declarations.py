"""All tables of the report, read from `waltz/resources/tables.yaml`: tables of the papers,
measurements, the page.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from waltz.core.errors import UserError, suggest_or_list
from waltz.plan.table_entries import TABLES_FILE, read_tables_file
from waltz.reporting.tables.declaration import Declaration, MetricStyle

MEASUREMENT_PREFIX = "measures-"
"""Prefix of the ids of tables that show one measurement; such a table is built if the study makes
the measurement.
"""
_DECLARATION = TypeAdapter(Declaration)
_STYLES = TypeAdapter(dict[str, MetricStyle])


def build_declaration(table: str, entries: Mapping[str, Any]) -> Declaration:
    """Build the declaration of a table from its entry.

    Args:
        table: Id of the table.
        entries: Entries of all tables by id, as plain values; an entry that extends a table takes
            missing fields from that table.
    Raises:
        UserError: A field is unknown, missing or of another type, or the extended table does not
            exist.
    """
    # Plain values of the entry and of the table that it extends, then the short form of sources.
    fields = {"id": table, **_fill_entry(table, entries)}
    sources = fields.get("sources")
    if isinstance(sources, Mapping):
        fields["sources"] = {
            metric: _list_sources(metric, entry) for metric, entry in sources.items()
        }
    try:
        return _DECLARATION.validate_python(fields)
    except ValidationError as error:
        # One fault is shown at a time, the first one; a message has one line.
        fault = error.errors()[0]
        location = ".".join(map(str, (table, *fault["loc"])))
        raise UserError(
            f"{TABLES_FILE}: tables.{location}: {fault['msg']}; see docs/reference/tables.md"
        ) from None


def _fill_entry(table: str, entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an entry, with missing fields taken from the table that it extends."""
    entry = dict(entries[table])
    base = entry.pop("extends", None)
    if base is None:
        return entry
    # A table can only extend one that does not extend another, so chains and circles cannot occur.
    if base not in entries or "extends" in entries[base]:
        raise UserError(
            f"{TABLES_FILE}: tables.{table}.extends: no table {base!r} that extends no other one"
            f"{suggest_or_list(base, entries)}"
        )
    # Fields of the entry replace whole fields of the extended table; nothing is merged deeper.
    return {**entries[base], **entry}


def _list_sources(metric: str, entry: Any) -> list[Any]:
    """Return the sources of a metric as a list; a source without a metric gets the name of the
    table's metric.
    """
    sources = entry if isinstance(entry, list) else [entry]
    return [
        {"metric": metric, **source} if isinstance(source, Mapping) else source
        for source in sources
    ]


# Read once, when the module is imported: a fault in the file ends a command before any job starts.
STYLES: Mapping[str, MetricStyle] = _STYLES.validate_python(
    read_tables_file()["metrics"]
)
"""Style of each metric, by its name in `waltz/resources/published`."""
TABLES: Mapping[str, Declaration] = {
    table: build_declaration(table, read_tables_file()["tables"])
    for table in read_tables_file()["tables"]
}
"""Tables by id, in the order of the report: the thesis, then the other papers, then the
measurements.
"""
PAGE_TABLES: Mapping[str, Declaration] = {
    table: build_declaration(table, read_tables_file()["page"])
    for table in read_tables_file()["page"]
}
"""Tables that only the report page shows, by id."""
MEASUREMENTS: Mapping[str, Declaration] = {
    table.removeprefix(MEASUREMENT_PREFIX).replace("-", "_"): declaration
    for table, declaration in TABLES.items()
    if table.startswith(MEASUREMENT_PREFIX)
}
"""Tables of measurements, by the name of the measurement."""


def get_style(metric: str) -> MetricStyle:
    """Return the style of a metric; a metric without a declared style has its name as heading."""
    return STYLES.get(metric) or MetricStyle(metric)
