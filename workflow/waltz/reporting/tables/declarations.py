"""All tables of the report, read from `waltz/resources/tables.yaml`: tables of the papers,
measurements, the page.
"""

from collections.abc import Mapping
from dataclasses import replace

from pydantic import TypeAdapter

from waltz.core.errors import check_name
from waltz.fidelity import RELEASED_CODE
from waltz.plan.table_entries import TABLES_FILE, read_tables_file
from waltz.reporting.tables.declaration import Declaration, MetricStyle
from waltz.reporting.tables.entries import Entries, fill_entry, validate_entry

MEASUREMENT_PREFIX = "measures-"
"""Prefix of the ids of tables that show one measurement; such a table is built if the study makes
the measurement.
"""
_DECLARATION = TypeAdapter(Declaration)
_STYLES = TypeAdapter(dict[str, MetricStyle])


def build_declaration(table: str, entries: Entries) -> Declaration:
    """Build the declaration of a table from its entry.

    Args:
        table: Id of the table.
        entries: Entries of all tables by id, as plain values; an entry that extends a table takes
            missing fields from that table.
    Raises:
        UserError: A field is unknown, missing or of another type, or the extended table does not
            exist.
    """
    location = f"{TABLES_FILE}: tables.{table}"
    fields = {"id": table, **fill_entry(table, entries, location)}
    sources = fields.get("sources")
    if isinstance(sources, Mapping):
        fields["sources"] = {
            metric: _complete_sources(metric, entry)
            for metric, entry in sources.items()
        }
    declaration: Declaration = validate_entry(
        _DECLARATION, fields, location, manual="docs/reference/tables.md"
    )
    return _add_released_code(declaration, location)


def _add_released_code(declaration: Declaration, location: str) -> Declaration:
    """Return a declaration whose notes end with the commits that `published` follows.

    Raises:
        UserError: The entry names code that is not in `RELEASED_CODE`.
    """
    if not declaration.released_code:
        return declaration
    for name in declaration.released_code:
        check_name(f"{location}.released_code", "code", name, RELEASED_CODE)
    commits = [str(RELEASED_CODE[name]) for name in declaration.released_code]
    note = f"`published` follows {', '.join(commits)}."
    return replace(declaration, notes=(*declaration.notes, note))


def _complete_sources(metric: str, entry: object) -> list[object]:
    """Return the sources of a metric as a list; a source without a metric gets the name of the
    table's metric.
    """
    if not isinstance(entry, list):
        entry = [entry]
    sources: list[object] = []
    for source in entry:
        if isinstance(source, Mapping):
            source = {"metric": metric, **source}
        sources.append(source)
    return sources


def _build_declarations(section: str) -> dict[str, Declaration]:
    """Return the tables in a section of `TABLES_FILE` by id."""
    entries = read_tables_file()[section]
    return {table: build_declaration(table, entries) for table in entries}


# Read once, when the module is imported: a fault in the file ends a command before any job starts.
STYLES: Mapping[str, MetricStyle] = _STYLES.validate_python(
    read_tables_file()["metrics"]
)
"""Style of each metric, by its name in `waltz/resources/published`."""
TABLES: Mapping[str, Declaration] = _build_declarations("tables")
"""Tables by id, in the order of the report: the thesis, then the other papers, then the
measurements.
"""
PAGE_TABLES: Mapping[str, Declaration] = _build_declarations("page")
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
