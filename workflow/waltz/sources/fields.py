"""Fields of raw records, checked, with errors that name file, record and field."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from waltz.core.errors import UserError

T = TypeVar("T", bound=object)

KINDS: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    type(None): "null",
}
BREAK = re.compile(r"\s*[\r\n\t\v\f\x1c-\x1e\x85\u2028\u2029]+\s*")


def kind_of(value: Any) -> str:
    """What a JSON value is, in words."""
    return KINDS.get(type(value), type(value).__name__)


def field(record: Mapping[str, Any], name: str, kind: type[T], place: str) -> T:
    """A field that must be there and of its type; true and false are no numbers.

    Raises:
        UserError: It is missing or of another type.
    """
    if name not in record:
        raise UserError(f"{place}: field {name!r} is missing")
    value = record[name]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UserError(f"{place}: field {name!r} is {kind_of(value)}, not {KINDS[kind]}")
    return value


def optional(record: Mapping[str, Any], name: str, kind: type[T], place: str) -> T | None:
    """A field that may be missing or null, but is of its type where it is there.

    Raises:
        UserError: It is of another type.
    """
    return None if record.get(name) is None else field(record, name, kind, place)


def identifier(record: Mapping[str, Any], name: str, place: str) -> str:
    """An id, a whole number or a text that is not empty, as a text.

    Raises:
        UserError: It is missing, empty or of another type.
    """
    if isinstance(record.get(name), str) and record[name]:
        return str(record[name])
    if record.get(name) == "":
        raise UserError(f"{place}: field {name!r} is empty")
    return str(field(record, name, int, place))


def texts(record: Mapping[str, Any], name: str, place: str) -> list[str]:
    """A field that is a list of texts.

    Raises:
        UserError: It is missing, no list, or holds something else than texts.
    """
    values = field(record, name, list, place)
    for number, value in enumerate(values):
        if not isinstance(value, str):
            raise UserError(f"{place}: field {name!r}: entry {number} is {kind_of(value)}, not a text")
    return values


def once(seen: set[str], item_id: str, place: str) -> None:
    """Note an id as seen.

    Raises:
        UserError: It has been seen before.
    """
    if item_id in seen:
        raise UserError(f"{place}: the id stands twice in the file")
    seen.add(item_id)


def one_line(text: str) -> str:
    """A text without white space at its ends, line breaks and tabs inside it made single blanks.

    Double blanks inside stay: the released benchmark kept them too.
    """
    return BREAK.sub(" ", text).strip()
