"""JSON parsers that refuse repeated keys, for which Python's parser silently takes the last value."""

import json
from collections.abc import Sequence
from typing import Any

JsonObject = dict[str, Any]
"""Object of a JSON text: value by key."""


class RepeatedKeyError(ValueError):
    """Error about an object in a JSON text that contains a key twice."""


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        RepeatedKeyError: An object contains a key twice.
        json.JSONDecodeError: The text is not JSON.
    """
    return json.loads(text, object_pairs_hook=_build_object)


def _build_object(pairs: Sequence[tuple[str, Any]]) -> JsonObject:
    """Return the dictionary of an object's pairs; raise a RepeatedKeyError for a repeated key."""
    content: JsonObject = {}
    for key, value in pairs:
        if key in content:
            raise RepeatedKeyError(f"key {key!r} stands twice")
        content[key] = value
    return content


def build_object_type(repeated: list[str]) -> type[JsonObject]:
    """Return a dictionary type for the argument `map_type` of `ijson` that collects repeated keys.

    `ijson` does not permit that the type raises errors.

    Args:
        repeated: List to which the type adds each repeated key.
    """

    class Object(JsonObject):
        def __setitem__(self, key: str, value: Any) -> None:
            if key in self:
                repeated.append(key)
            dict.__setitem__(self, key, value)

    return Object
