"""Checked fields of raw records, with errors that name file, record and field."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from waltz.core.errors import UserError

T = TypeVar("T", bound=object)

TYPE_NAMES: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    type(None): "null",
}
"""Types of JSON values, as error messages name them."""

LINE_BREAKS = re.compile(r"\s*[\r\n\t\v\f\x1c-\x1e\x85\u2028\u2029]+\s*")

ImageNames = str | Mapping[str, str]
"""A template of `{id}` and `{split}`, such as `COCO_{split}_{id:012d}.jpg`, or the file names by image id."""


def describe_type(value: Any) -> str:
    """Return the type of a JSON value in words."""
    return TYPE_NAMES.get(type(value), type(value).__name__)


def read_field(record: Mapping[str, Any], name: str, kind: type[T], where: str) -> T:
    """Return a required field of a record; true and false do not count as numbers.

    Raises:
        UserError: The field is missing or of another type.
    """
    if name not in record:
        raise UserError(f"{where}: field {name!r} is missing")
    value = record[name]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UserError(f"{where}: field {name!r} is {describe_type(value)}, not {TYPE_NAMES[kind]}")
    return value


def read_optional_field(record: Mapping[str, Any], name: str, kind: type[T], where: str) -> T | None:
    """Return a field of a record, or None where it is missing or null.

    Raises:
        UserError: The field is of another type.
    """
    return None if record.get(name) is None else read_field(record, name, kind, where)


def read_identifier(record: Mapping[str, Any], name: str, where: str) -> str:
    """Return an id, which is a whole number or a text that is not empty, as a text.

    Raises:
        UserError: The id is missing, empty or of another type.
    """
    if isinstance(record.get(name), str) and record[name]:
        return str(record[name])
    if record.get(name) == "":
        raise UserError(f"{where}: field {name!r} is empty")
    return str(read_field(record, name, int, where))


def read_strings(record: Mapping[str, Any], name: str, where: str) -> list[str]:
    """Return a field that is a list of texts.

    Raises:
        UserError: The field is missing, is no list, or holds something else than texts.
    """
    values = read_field(record, name, list, where)
    for index, value in enumerate(values):
        if not isinstance(value, str):
            raise UserError(f"{where}: field {name!r}: entry {index} is {describe_type(value)}, not a text")
    return values


def check_unique(seen_ids: set[str], identifier: str, where: str) -> None:
    """Add an id to the ids seen so far.

    Raises:
        UserError: The id has been seen before.
    """
    if identifier in seen_ids:
        raise UserError(f"{where}: duplicate id in the file")
    seen_ids.add(identifier)


def join_lines(text: str) -> str:
    """Replace line breaks and tabs by single spaces and strip whitespace at both ends.

    Double spaces inside a line stay, as in the released benchmark.
    """
    return LINE_BREAKS.sub(" ", text).strip()


def build_image_name(image_id: str, names: ImageNames, split: str | None, where: str) -> str:
    """Return the file name of an image that a format knows only by its id.

    Args:
        image_id: The id; a template may format it as a number where it is one.
        names: Template or names by id.
        split: Fills `{split}`.
        where: File and record of the id, for errors.
    Raises:
        UserError: The id is not among the names, or the template cannot be filled.
    """
    if isinstance(names, Mapping):
        if image_id not in names:
            raise UserError(f"{where}: image id {image_id} is not among the {len(names)} known images")
        return names[image_id]
    try:
        return names.format(id=int(image_id) if image_id.isdecimal() else image_id, split=split)
    except (ValueError, KeyError, IndexError) as error:
        raise UserError(f"{where}: image id {image_id!r} does not fit the template {names!r} ({error})") from None
