"""Fields of raw records, checked, with errors that name file, record and field."""

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
LINE_BREAKS = re.compile(r"\s*[\r\n\t\v\f\x1c-\x1e\x85\u2028\u2029]+\s*")


def describe_type(value: Any) -> str:
    """What a JSON value is, in words."""
    return TYPE_NAMES.get(type(value), type(value).__name__)


def read_field(record: Mapping[str, Any], name: str, kind: type[T], place: str) -> T:
    """A field that must be there and of its type; true and false are no numbers.

    Raises:
        UserError: It is missing or of another type.
    """
    if name not in record:
        raise UserError(f"{place}: field {name!r} is missing")
    value = record[name]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UserError(f"{place}: field {name!r} is {describe_type(value)}, not {TYPE_NAMES[kind]}")
    return value


def read_optional_field(record: Mapping[str, Any], name: str, kind: type[T], place: str) -> T | None:
    """A field that may be missing or null, but is of its type where it is there.

    Raises:
        UserError: It is of another type.
    """
    return None if record.get(name) is None else read_field(record, name, kind, place)


def read_identifier(record: Mapping[str, Any], name: str, place: str) -> str:
    """An id, a whole number or a text that is not empty, as a text.

    Raises:
        UserError: It is missing, empty or of another type.
    """
    if isinstance(record.get(name), str) and record[name]:
        return str(record[name])
    if record.get(name) == "":
        raise UserError(f"{place}: field {name!r} is empty")
    return str(read_field(record, name, int, place))


def read_strings(record: Mapping[str, Any], name: str, place: str) -> list[str]:
    """A field that is a list of texts.

    Raises:
        UserError: It is missing, no list, or holds something else than texts.
    """
    values = read_field(record, name, list, place)
    for number, value in enumerate(values):
        if not isinstance(value, str):
            raise UserError(f"{place}: field {name!r}: entry {number} is {describe_type(value)}, not a text")
    return values


def check_unique(seen: set[str], item_id: str, place: str) -> None:
    """Note an id as seen.

    Raises:
        UserError: It has been seen before.
    """
    if item_id in seen:
        raise UserError(f"{place}: the id stands twice in the file")
    seen.add(item_id)


def join_lines(text: str) -> str:
    """A text without white space at its ends, line breaks and tabs inside it made single blanks.

    Double blanks inside stay: the released benchmark kept them too.
    """
    return LINE_BREAKS.sub(" ", text).strip()


ImageNames = str | Mapping[str, str]
"""A template of `{id}` and `{split}`, such as `COCO_{split}_{id:012d}.jpg`, or the names by id."""


def build_image_name(image_id: str, names: ImageNames, split: str | None, place: str) -> str:
    """File name of an image.

    Args:
        image_id: The id; a template may format it as a number where it is one.
        names: Template or names.
        split: Fills `{split}`.
        place: Where the id stands, for errors.
    Raises:
        UserError: The id is not among the names, or the template cannot be filled.
    """
    if isinstance(names, Mapping):
        if image_id not in names:
            raise UserError(f"{place}: image id {image_id} has no image among the {len(names)} named")
        return names[image_id]
    try:
        return names.format(id=int(image_id) if image_id.isdecimal() else image_id, split=split)
    except (ValueError, KeyError, IndexError) as error:
        raise UserError(f"{place}: image id {image_id!r} does not fit the template {names!r} ({error})") from None
