"""Entries of tables and charts in YAML files, which become typed declarations."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from waltz.core.errors import UserError, suggest_or_list

Entry = Mapping[str, Any]
"""Fields of an entry as plain values of YAML, which `validate_entry` checks."""
Entries = Mapping[str, Entry]
"""Entries of a file by id."""
Declared = TypeVar("Declared")


def fill_entry(name: str, entries: Entries, location: str) -> dict[str, Any]:
    """Return the fields of an entry, with missing fields taken from the entry that it extends.

    Args:
        name: Id of the entry.
        entries: All entries by id.
        location: File and key of the entry, for error messages.
    Raises:
        UserError: The extended entry does not exist, or extends another one itself.
    """
    entry = dict(entries[name])
    base = entry.pop("extends", None)
    if base is None:
        return entry
    # An entry can only extend one that does not extend another, so chains and circles cannot occur.
    if base not in entries or "extends" in entries[base]:
        raise UserError(
            f"{location}.extends: no entry {base!r} that extends no other one{suggest_or_list(base, entries)}"
        )
    # Fields of the entry replace whole fields of the extended entry; nothing is merged deeper.
    return {**entries[base], **entry}


def validate_entry(
    declared: TypeAdapter[Declared], fields: Entry, location: str, manual: str
) -> Declared:
    """Return the declaration that an entry describes.

    Args:
        declared: Type of the declaration.
        fields: Fields of the entry.
        location: File and key of the entry, for error messages.
        manual: Page of the documentation that describes the fields, for error messages.
    Raises:
        UserError: A field is unknown, missing or of another type.
    """
    try:
        return declared.validate_python(fields)
    except ValidationError as error:
        # One fault is shown at a time, since a message has one line: an unknown field first, which
        # may be a missing one misspelled.
        faults = error.errors()
        unknown = [
            fault for fault in faults if fault["type"] == "unexpected_keyword_argument"
        ]
        fault = (unknown or faults)[0]
        key = ".".join(map(str, (location, *fault["loc"])))
        raise UserError(f"{key}: {fault['msg']}; see {manual}") from None
