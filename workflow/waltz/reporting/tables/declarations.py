"""All tables, in the order of the report."""

from waltz.reporting.tables.declaration import Declaration
from waltz.reporting.tables.declared import consistency, construction, running_text, scores, shares

DOCUMENTS = ("thesis", "valse-paper", "decoders-paper", "cv-probes", "running-text", "seeds")


def _place(table: Declaration) -> tuple[int, list[tuple[int, int | str]]]:
    """Documents one after another, tables in the order of their numbers, appendices last."""
    document = next(place for place, name in enumerate(DOCUMENTS) if table.id.startswith(name))
    number = table.id.removeprefix(DOCUMENTS[document]).strip("-")
    return document, [(0, int(part)) if part.isdigit() else (1, part) for part in number.split(".")]


TABLES = {
    table.id: table
    for table in sorted(
        (*construction.TABLES, *scores.TABLES, *shares.TABLES, *consistency.TABLES, *running_text.TABLES), key=_place
    )
}
"""By id."""
