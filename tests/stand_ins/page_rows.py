"""The texts of a table of the page."""


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
