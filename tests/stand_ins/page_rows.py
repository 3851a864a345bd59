"""Frames that tables of the page are made from, and the texts of a table."""

import pyarrow as pa

from waltz.core import records


def build_frame(rows, record_type):
    """Return rows as `read_frame` reads them; a column that rows lack is null."""
    schema = records.get_layout(record_type).schema
    columns = {name: [row.get(name) for row in rows] for name in schema.names}
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    return records.build_frame(pa.table(columns, nullable))


def list_rows(table):
    """Return the rows of a table: name of the group if there are groups, names of the row, a text
    for each column.
    """
    rows = []
    for group, members in table.groups.items():
        for row in members:
            names = (group, *row.names) if table.is_grouped else row.names
            rows.append((*names, *(text.text for text in row.texts)))
    return tuple(rows)
