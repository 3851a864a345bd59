"""JSON objects that hold every key once: Python's parsers take the last of two values without a word."""

import json
from collections.abc import Sequence
from typing import Any


class RepeatedKeyError(ValueError):
    """An object of a JSON text holds a key twice."""


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        RepeatedKeyError: An object holds a key twice.
        json.JSONDecodeError: It is no JSON.
    """
    return json.loads(text, object_pairs_hook=_build_object)


def _build_object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [key for key, _ in pairs]
        raise RepeatedKeyError(f"key {next(key for key in keys if keys.count(key) > 1)!r} stands twice")
    return content


def build_object_type(repeated: list[str]) -> type[dict[str, Any]]:
    """Return a type of objects for `ijson`, whose `map_type` must not raise, that lists the keys that stand twice.

    Args:
        repeated: The list, to which each such key is added.
    """

    class Object(dict[str, Any]):
        def __setitem__(self, key: str, value: Any) -> None:
            if key in self:
                repeated.append(key)
            dict.__setitem__(self, key, value)

    return Object
