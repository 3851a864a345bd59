"""Entries of JSON, JSON lines, CSV and text files and their checked fields, with errors that name file and position.

JSON is parsed by `ijson`, so memory holds one entry and not the file. Its C backend reads half a surrogate pair, as in
`"\\ud800 x"`, as `? x` or refuses it as bad UTF-8: a file with one is read by the slower Python backend. A key is a
dotted path from the root (`data.dialogs`); the empty key is the root itself.
"""

import csv
import json
import mmap
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar

import ijson

from waltz.core.errors import UserError
from waltz.core.files.json_objects import RepeatedKeyError, build_object_type, parse_json

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
TYPE_BY_EVENT = {"start_map": "an object", "start_array": "a list", "map_key": "an object"}
"""Types of containers, by the parser's event at their start."""

CHUNK_BYTES = 1 << 16
HALF_PAIR = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F]"
)
"""Escape of one half of a surrogate pair without the other."""
DEEP = re.compile(rb'(?:[\[{]\s*(?:"[^"\\]{0,100}"\s*:\s*)?){200}')
"""Beginning of a value that is nested in 200 others: the parser's memory grows with the square of their number."""
TOO_DEEP = "values are nested too deeply (got 200 levels or more); flatten them"
KEEP_ONE = "only one of its values can hold; keep that one"
LARGEST_CELL = 10_000_000
"""Most letters of a cell of a CSV file."""
SURROGATE = re.compile("[\ud800-\udfff]")
PARSE_ERRORS = (ijson.JSONError, json.JSONDecodeError, UnicodeDecodeError)
"""Errors of the parser. Overlong and truncated UTF-8 passes its lexer and fails where it becomes a string."""

LINE_BREAKS = re.compile(r"\s*[\r\n\t\v\f\x1c-\x1e\x85\u2028\u2029]+\s*")

ImageNames = str | Mapping[str, str]
"""A template of `{id}` and `{split}`, such as `COCO_{split}_{id:012d}.jpg`, or the file names by image id."""


def read_list_entries(path: str | Path, key: str, kind: type[T]) -> Iterator[T]:
    """Yield the entries of the list at `key` in file order; each must have the type `kind`."""
    position = -1
    for position, entry in enumerate(_read_entries(path, "items", key)):
        if not isinstance(entry, kind):
            name = f"entry {position} of {_describe_key(key)}"
            raise UserError(f"{path}: {name} is {describe_type(entry)}, not {TYPE_NAMES[kind]}")
        yield entry
    if position < 0:
        _check_empty_container(path, key, "a list")


def read_object_entries(path: str | Path, key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield names and objects of the object of objects at `key`; a name that stands twice is refused."""
    names: set[str] = set()
    for name, entry in _read_entries(path, "kvitems", key):
        if not isinstance(entry, dict):
            raise UserError(f"{path}: {name!r} of {_describe_key(key)} is {describe_type(entry)}, not an object")
        if name in names:
            raise _build_repeated_error(path, _describe_key(key), name)
        names.add(name)
        yield name, entry
    if not names:
        _check_empty_container(path, key, "an object")


def read_root_type(path: str | Path) -> str:
    """Return the type of the root of a JSON file in words: `an object`, `a list`, …"""
    with _open_json(path) as file:
        _, event, value = next(ijson.parse(file, use_float=True))
    return TYPE_BY_EVENT.get(event, describe_type(value))


def read_value(path: str | Path, key: str, kind: type[T]) -> T:
    """Return the small value at `key`; reading stops there."""
    value = next(_read_entries(path, "value", key), None)
    if value is None:
        raise UserError(f"{path}: {_describe_key(key)} is missing or null; get the file again")
    if not isinstance(value, kind):
        raise UserError(f"{path}: {_describe_key(key)} is {describe_type(value)}, not {TYPE_NAMES[kind]}")
    return value


def read_json_lines(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield line numbers, from 1, and objects of a JSON-lines file; empty lines are skipped."""
    with _open(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                entry = parse_json(line)
            except UnicodeDecodeError as error:
                raise UserError(
                    f"{path}: line {number}: not UTF-8 at byte {error.start} of the line; save it as UTF-8"
                ) from None
            except RecursionError:
                raise UserError(f"{path}: line {number}: {TOO_DEEP}") from None
            except RepeatedKeyError as error:
                raise UserError(f"{path}: line {number}: {error}; {KEEP_ONE}") from None
            except json.JSONDecodeError as error:
                raise UserError(
                    f"{path}: line {number}: malformed JSON at column {error.colno}; get the file again"
                ) from None
            if not isinstance(entry, dict):
                raise UserError(f"{path}: line {number} is {describe_type(entry)}, not an object")
            yield number, entry


def read_csv_records(
    path: str | Path, columns: Sequence[str] = (), required: Sequence[str] = ()
) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield the number of the line that each record of a CSV file ends on, and its cells by column, but blank lines.

    Args:
        columns: The columns, where the file has no header.
        required: Columns that must be there.
    """
    with _open(path) as binary:
        lines = (_decode_line(path, number, line) for number, line in enumerate(binary, 1))
        csv.field_size_limit(LARGEST_CELL)
        reader = csv.reader(lines, strict=True)
        try:
            header = list(columns) or next(reader, [])
            missing = [name for name in required if name not in header]
            if missing:
                raise UserError(
                    f"{path}: column {missing[0]!r} is missing (got {', '.join(header) or 'nothing'},"
                    f" expected {', '.join(required)}); name it in the first line"
                )
            repeated = next((name for name in header if name and header.count(name) > 1), None)
            if repeated is not None:
                raise UserError(
                    f"{path}: column {repeated!r} stands {header.count(repeated)} times; rename all but one"
                )
            for cells in filter(None, reader):
                if len(cells) != len(header):
                    raise UserError(
                        f"{path}: line {reader.line_num}: {len(cells)} cells, not {len(header)}; correct the line, or"
                        " get the file again"
                    )
                yield reader.line_num, dict(zip(header, cells, strict=True))
        except csv.Error as error:
            raise UserError(
                f"{path}: line {reader.line_num}: malformed CSV ({error}); correct the line, or get the file again"
            ) from None


def read_text_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a text file in UTF-8, without line ends."""
    with _open(path) as binary:
        for number, line in enumerate(binary, 1):
            yield _decode_line(path, number, line).rstrip("\r\n")


def find_half_pair(value: Any) -> str | None:
    """Return why a JSON value holds a text that is no Unicode, which no output can store; None where all texts are."""
    try:
        return _find_half_pair(value)
    except RecursionError:
        return TOO_DEEP


def _find_half_pair(value: Any) -> str | None:
    if isinstance(value, str):
        match = None if value.isascii() else SURROGATE.search(value)
        return f"\\u{ord(match[0]):x} is half of a surrogate pair, no character" if match else None
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    parts = value if isinstance(value, list | tuple) else ()
    return next((fault for part in parts if (fault := _find_half_pair(part))), None)


def describe_type(value: Any) -> str:
    """Return the type of a JSON value in words."""
    return TYPE_NAMES[dict] if isinstance(value, dict) else TYPE_NAMES.get(type(value), type(value).__name__)


def read_field(record: Mapping[str, Any], name: str, kind: type[T], where: str) -> T:
    """Return a required field of a record; true and false do not count as numbers."""
    if name not in record:
        raise UserError(f"{where}: field {name!r} is missing")
    value = record[name]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UserError(f"{where}: field {name!r} is {describe_type(value)}, not {TYPE_NAMES[kind]}")
    return value


def read_optional_field(record: Mapping[str, Any], name: str, kind: type[T], where: str) -> T | None:
    """Return a field of a record, or None where it is missing or null."""
    return None if record.get(name) is None else read_field(record, name, kind, where)


def read_identifier(record: Mapping[str, Any], name: str, where: str) -> str:
    """Return an id, which is a whole number or a text that is not empty, as a text."""
    if isinstance(record.get(name), str) and record[name]:
        return str(record[name])
    if record.get(name) == "":
        raise UserError(f"{where}: field {name!r} is empty")
    return str(read_field(record, name, int, where))


def read_strings(record: Mapping[str, Any], name: str, where: str) -> list[str]:
    """Return a field that is a list of texts."""
    return _read_list_field(record, name, str, where)


def read_objects(record: Mapping[str, Any], name: str, where: str) -> list[dict[str, Any]]:
    """Return a field that is a list of objects."""
    return _read_list_field(record, name, dict, where)


def _read_list_field(record: Mapping[str, Any], name: str, kind: type[T], where: str) -> list[T]:
    values = read_field(record, name, list, where)
    for index, value in enumerate(values):
        if not isinstance(value, kind):
            actual = describe_type(value)
            raise UserError(f"{where}: field {name!r}: entry {index} is {actual}, not {TYPE_NAMES[kind]}")
    return values


def check_unique(seen_ids: set[str], identifier: str, where: str) -> None:
    """Add an id to the ids seen so far."""
    if identifier in seen_ids:
        raise UserError(f"{where}: duplicate id in the file")
    seen_ids.add(identifier)


def join_lines(text: str) -> str:
    """Replace line breaks and tabs by single spaces and strip whitespace at both ends.

    Double spaces inside a line stay, as in the released benchmark.
    """
    return LINE_BREAKS.sub(" ", text).strip()


def build_image_name(image_id: str, names: ImageNames, split: str | None, where: str) -> str:
    """Return the file name of an image that a format knows only by its id; a template may format a number."""
    if isinstance(names, Mapping):
        if image_id not in names:
            raise UserError(f"{where}: image id {image_id} is not among the {len(names)} known images")
        return names[image_id]
    try:
        return names.format(id=int(image_id) if image_id.isdecimal() else image_id, split=split)
    except (ValueError, KeyError, IndexError) as error:
        raise UserError(f"{where}: image id {image_id!r} does not fit the template {names!r} ({error})") from None


def _open(path: str | Path) -> BinaryIO:
    try:
        return Path(path).open("rb")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be opened: {error.strerror}") from None


def _read_entries(path: str | Path, kind: Literal["items", "kvitems", "value"], key: str) -> Iterator[Any]:
    """Yield the entries of the list, or names and values of the object, at a key, or the value itself.

    Raises:
        UserError: The file is no JSON, or holds a key twice within the entries or on the way to them.
    """
    repeated: list[str] = []
    settings = {"use_float": True, "map_type": build_object_type(repeated)}
    with _open_json(path) as file:
        parser = _choose_parser(file)
        if _may_repeat(file, key):
            _check_keys(path)
        if kind == "kvitems":
            entries = parser.kvitems(file, key, **settings)
        else:
            entries = parser.items(file, f"{key}.item".lstrip(".") if kind == "items" else key, **settings)
        for entry in entries:
            if repeated:
                break
            yield entry
        if repeated:
            _check_keys(path)


def _may_repeat(file: BinaryIO, key: str) -> bool:
    """Return whether a key on the way to a value occurs twice in the text of a file, be it as another value."""
    texts = [f'"{part}"'.encode() for part in key.split(".") if part]
    if not texts or not os.fstat(file.fileno()).st_size:
        return False
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return any(content.find(text) < content.rfind(text) for text in texts)


def _check_keys(path: str | Path) -> None:
    """Refuse a file in which an object holds a key twice."""
    place: list[str | int] = []  # a key for each object that is open, an index for each list
    keys: list[set[str]] = []
    with _open(path) as file:
        for event, value in _choose_parser(file).basic_parse(file, use_float=True):
            if event == "map_key":
                if value in keys[-1]:
                    names = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in place[:-1])
                    raise _build_repeated_error(path, "".join(names).lstrip(".") or "the root", value)
                keys[-1].add(value)
                place[-1] = value
            elif event in ("end_map", "end_array"):
                keys.pop()
                place.pop()
            else:
                if place and isinstance(place[-1], int):
                    place[-1] += 1
                if event in TYPE_BY_EVENT:
                    keys.append(set())
                    place.append("" if event == "start_map" else -1)


def _build_repeated_error(path: str | Path, where: str, key: str) -> UserError:
    return UserError(f"{path}: {where}: key {key!r} stands twice; {KEEP_ONE}")


@contextmanager
def _open_json(path: str | Path) -> Iterator[BinaryIO]:
    with _open(path) as file:
        try:
            yield file
        except PARSE_ERRORS as error:
            raise _build_json_error(path, error) from None
        except (RecursionError, _DepthError):
            raise UserError(f"{path}: {TOO_DEEP}") from None


class _DepthError(Exception):
    """Values of a file are nested too deeply."""


def _choose_parser(file: BinaryIO) -> Any:
    """Return the backend of ijson for a file, which is at its start afterwards."""
    size = os.fstat(file.fileno()).st_size
    if not size:
        return ijson
    with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as content:
        if DEEP.search(content):
            raise _DepthError
        escapes = any(content.find(escape) >= 0 for escape in (rb"\ud", rb"\uD"))  # faster than the expression
        return ijson.get_backend("python") if escapes and HALF_PAIR.search(content) else ijson


def _decode_line(path: str | Path, number: int, line: bytes) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: line {number}: not UTF-8 at byte {error.start} of the line; save it as UTF-8"
        ) from None


def _describe_key(key: str) -> str:
    """Return a key as error messages show it."""
    return repr(key) if key else "the root"


def _check_empty_container(path: str | Path, key: str, expected: str) -> None:
    """Check that the value at `key`, which has no entries, is an empty container and not missing or of another type."""
    parent = key.rpartition(".")[0]
    siblings: list[str] = []
    with _open(path) as file:
        for prefix, event, value in ijson.parse(file, use_float=True):
            if prefix == key and event != "map_key":
                type_name = TYPE_BY_EVENT.get(event, describe_type(value))
                if type_name != expected:
                    raise UserError(f"{path}: {_describe_key(key)} is {type_name}, not {expected}")
                return
            if prefix == "" and event == "start_array":
                raise UserError(f"{path}: the root is a list, not an object with {key!r}")
            if prefix == "" and event not in TYPE_BY_EVENT and event != "end_map":
                raise UserError(f"{path}: the root is {describe_type(value)}, not an object with {key!r}")
            if prefix == parent and event == "map_key":
                siblings.append(value)
    raise UserError(f"{path}: {_describe_key(key)} is missing (got {', '.join(siblings) or 'no keys'})")


def _build_json_error(path: str | Path, error: Exception) -> UserError:
    position, size = _find_first_bad_byte(path), Path(path).stat().st_size
    if position >= size:
        return UserError(f"{path}: truncated: the file ends at byte {size} within its JSON; get it again")
    reason = str(error).removeprefix("b'").splitlines()[0].split("\\n")[0]
    return UserError(f"{path}: malformed JSON at byte {position}: {reason}; get the file again")


def _find_first_bad_byte(path: str | Path) -> int:
    """Return the offset of the byte at which parsing fails; the file's size where it fails at the end."""
    offset = 0
    for step in (CHUNK_BYTES, 1):
        parser = ijson.basic_parse_coro(_IgnoreEvents(), use_float=True)
        with _open(path) as file:
            try:
                if offset:  # an empty chunk would end the file
                    parser.send(file.read(offset))
                while part := file.read(step):
                    parser.send(part)
                    offset += len(part)
            except PARSE_ERRORS:
                continue
    return offset


class _IgnoreEvents:
    """Target of the parser that ignores all events."""

    def send(self, event: Any) -> None:
        """Ignore an event."""
