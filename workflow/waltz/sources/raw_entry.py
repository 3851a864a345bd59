"""JSON objects of raw files, whose fields are checked when they are read."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard, TypeVar

from waltz.core.errors import UserError
from waltz.core.files.json_objects import JsonObject

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
"""Names of the types of JSON values in error messages."""


@dataclass(frozen=True, slots=True)
class RawEntry:
    """JSON object of a raw file; its methods raise a UserError for a field of another type.

    Attributes:
        fields: The object.
        location: File and position of the object, as error messages name them.
    """

    fields: JsonObject
    location: str

    def at(self, location: str) -> "RawEntry":
        """Return the same object with another description of its location."""
        return RawEntry(self.fields, location)

    def read(self, name: str, kind: type[T]) -> T:
        """Return a required field of the type `kind`; true and false are not numbers."""
        if name not in self.fields:
            raise UserError(f"{self.location}: field {name!r} is missing")
        value = self.fields[name]
        if not _has_type(value, kind):
            raise UserError(
                f"{self.location}: field {name!r} is {describe_type(value)}, not {TYPE_NAMES[kind]}"
            )
        return value

    def read_optional(self, name: str, kind: type[T]) -> T | None:
        """Return a field of the type `kind`; None where it is missing or null."""
        if self.fields.get(name) is None:
            return None
        return self.read(name, kind)

    def read_optional_int32(self, name: str) -> int | None:
        """Return a whole number that a column of type int32 can store; None where it is missing or
        null.
        """
        number = self.read_optional(name, int)
        if number is not None and not -(2**31) <= number < 2**31:
            raise UserError(
                f"{self.location}: field {name!r} is {number}, not a number of at most 32 bits"
            )
        return number

    def read_identifier(self, name: str) -> str:
        """Return an id as a text; in the file it is a whole number or a text that is not empty."""
        value = self.fields.get(name)
        if value == "":
            raise UserError(
                f"{self.location}: field {name!r} is empty; give each record an id"
            )
        if isinstance(value, str):
            return value
        if isinstance(value, float) and value.is_integer():
            return str(int(value))  # as tables with gaps write whole numbers
        return str(self.read(name, int))

    def read_strings(self, name: str) -> list[str]:
        """Return a field that must be a list of texts."""
        return self._read_list(name, str)

    def read_optional_numbers(self, name: str) -> list[float]:
        """Return a field that must be a list of numbers; an empty list where it is missing or null."""
        if self.fields.get(name) is None:
            return []
        return list(map(float, self._read_list(name, float)))

    def read_optional_object(self, name: str) -> "RawEntry":
        """Return a field that must be an object; an empty object where it is missing or null."""
        return RawEntry(self.read_optional(name, dict) or {}, self.location)

    def read_objects(
        self, name: str, noun: str = "", first: int = 0
    ) -> Iterator["RawEntry"]:
        """Yield the objects of a field that must be a list of objects.

        Args:
            noun: Noun for an object in error messages, which is followed by its number; messages
                name only the location of the list where there is no noun.
            first: Number of the first object.
        """
        for number, value in enumerate(self._read_list(name, dict), first):
            numbered = f"{self.location}: {noun} {number}" if noun else self.location
            yield RawEntry(value, numbered)

    def _read_list(self, name: str, kind: type[T]) -> list[T]:
        values = self.read(name, list)
        for index, value in enumerate(values):
            if not _has_type(value, kind):
                actual = describe_type(value)
                raise UserError(
                    f"{self.location}: field {name!r}: entry {index} is {actual}, not {TYPE_NAMES[kind]}"
                )
        return values


def _has_type(value: object, kind: type[T]) -> TypeGuard[T]:
    """Return whether a JSON value is of a type: whole numbers are numbers, true and false are not."""
    # In Python, `bool` is a subclass of `int`.
    if isinstance(value, bool):
        return kind in (bool, object)
    if kind is float:
        return isinstance(value, int | float)
    return isinstance(value, kind)


def describe_type(value: object) -> str:
    """Return the name of the type of a JSON value, as error messages show it."""
    # The parser's objects are of a subclass of `dict`, which notes repeated keys.
    if isinstance(value, dict):
        return TYPE_NAMES[dict]
    return TYPE_NAMES.get(type(value), type(value).__name__)
