"""Entries of JSON, JSON lines, CSV and text files, with errors that name file and position.

`ijson` parses JSON, so that memory holds one entry and not the whole file. Its C backend reads half a surrogate pair,
as in `"\\ud800 x"`, as `? x` or refuses it as bad UTF-8; the slower Python backend reads a file with such an escape. A
key is a dotted path from the root (`data.dialogs`); the empty key is the root itself.
"""

import codecs
import csv
import io
import json
import logging
import mmap
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import ijson
import numpy as np

from waltz.core.errors import UserError, advise_on_missing_file, shorten_value
from waltz.core.files.json_objects import (
    JsonObject,
    RepeatedKeyError,
    build_object_type,
    parse_json,
)
from waltz.sources.raw_entry import TYPE_NAMES, RawEntry, T, describe_type

logger = logging.getLogger(__name__)

TYPE_BY_EVENT = {"start_map": TYPE_NAMES[dict], "start_array": TYPE_NAMES[list]}
"""Names of the types of containers, by the event of the parser at their start."""

CHUNK_BYTES = 1 << 16
"""Number of bytes of a file that are searched or parsed at once."""
HALF_PAIR = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F]"
)
"""Escape of one half of a surrogate pair without the other half."""
MAX_DEPTH = 200
"""Limit of the levels of nested values; time and memory of the parser grow with the square of their
number.
"""
ESCAPE = re.compile(rb"\\.", re.DOTALL)
"""A backslash and the character that it escapes, such as a quotation mark within a string."""
TOO_DEEP = "values are nested too deeply (got 200 levels or more); flatten them"
KEEP_ONE = "only one of its values can hold; keep that one"
LARGEST_CELL = 10_000_000
"""Highest number of characters of a cell of a CSV file."""
SEPARATORS = ",;\t|"
"""Separators of the cells of a CSV file; of those that occur equally often, the first counts."""
SEPARATOR_HINT = re.compile("sep=.?")
QUOTED = re.compile('"[^"]*"')
CARRIAGE_RETURN = re.compile(r"(?<=\r)(?!\n)")
"""End of a line that no line feed follows."""
SURROGATE = re.compile("[\ud800-\udfff]")
PARSE_ERRORS = (ijson.JSONError, json.JSONDecodeError, UnicodeDecodeError)
"""Errors of the parser; overlong and truncated UTF-8 passes its lexer and raises an error when it
is decoded.
"""

LINE_BREAKS = re.compile(r"\s*[\r\n\t\v\f\x1c-\x1e\x85\u2028\u2029]+\s*")

ImageNames = str | Mapping[str, str]
"""A template with `{id}` and `{split}`, such as `COCO_{split}_{id:012d}.jpg`, or the file names by
image id.
"""


def read_list_entries(path: str | Path, key: str, kind: type[T]) -> Iterator[T]:
    """Yield the entries of the list at `key` in file order; an entry that is not of the type `kind`
    is an error.
    """
    entries = f"{key}.item".lstrip(".")  # the prefix of the entries of a list
    position = -1
    for position, entry in enumerate(_read_entries(path, "items", key, entries)):
        if not isinstance(entry, kind):
            name = f"entry {position} of {_describe_key(key)}"
            raise UserError(
                f"{path}: {name} is {describe_type(entry)}, not {TYPE_NAMES[kind]}"
            )
        yield entry
    # Without entries, the list may be empty, missing, or a value of another type.
    if position < 0:
        _check_empty_container(path, key, "a list")


def read_objects(path: str | Path, key: str, noun: str) -> Iterator[RawEntry]:
    """Yield the objects of the list at `key` in file order; another entry is an error.

    Args:
        noun: Noun for an object in error messages, which is followed by its number from 0.
    """
    for number, entry in enumerate(read_list_entries(path, key, dict)):
        yield RawEntry(entry, f"{path}: {noun} {number}")


def read_identified_objects(
    path: str | Path, key: str, noun: str, id_name: str, id_noun: str | None = None
) -> Iterator[tuple[str, RawEntry]]:
    """Yield the id and the object of each entry of the list at `key`.

    An entry that stands twice is yielded once, and a warning counts such entries; a repeated id
    with other content is an error.

    Args:
        noun: Noun for an object in error messages, which is followed by its number from 0 as long
            as the id is not known, then by the id.
        id_name: Field of the id.
        id_noun: Noun before the id where it is another one.
    """
    seen: dict[str, int] = {}  # hash of the content, by id
    n_repeated = 0
    for entry in read_objects(path, key, noun):
        identifier = entry.read_identifier(id_name)
        entry = entry.at(f"{path}: {id_noun or noun} {identifier}")
        content = hash(json.dumps(entry.fields))
        if seen.get(identifier) == content:
            n_repeated += 1
            continue
        if identifier in seen:
            raise _build_duplicate_error(entry.location)
        seen[identifier] = content
        yield identifier, entry
    if n_repeated:
        logger.warning("%s: %d entries stand twice; each counts once", path, n_repeated)


def read_object_entries(path: str | Path, key: str) -> Iterator[tuple[str, JsonObject]]:
    """Yield the names and values of the object of objects at `key`; a repeated name is an error."""
    names: set[str] = set()
    for name, entry in _read_entries(path, "kvitems", key, key):
        if not isinstance(entry, dict):
            raise UserError(
                f"{path}: {name!r} of {_describe_key(key)} is {describe_type(entry)}, not an object"
            )
        if name in names:
            raise _build_repeated_error(path, _describe_key(key), name)
        names.add(name)
        yield name, entry
    if not names:
        _check_empty_container(path, key, "an object")


def read_root_type(path: str | Path) -> str:
    """Return the name of the type of the root of a JSON file: `an object`, `a list`, …"""
    with _open_json(path) as file:
        # `parse` takes for ever where values are nested.
        event, value = next(ijson.basic_parse(file, use_float=True))
    return TYPE_BY_EVENT.get(event, describe_type(value))


def read_value(path: str | Path, key: str, kind: type[T]) -> T:
    """Return the value at `key`, which must fit in memory; the rest of the file is not read."""
    value = next(_read_entries(path, "items", key, key), None)
    if value is None:
        raise UserError(
            f"{path}: {_describe_key(key)} is missing or null; get the file again"
        )
    if not isinstance(value, kind):
        raise UserError(
            f"{path}: {_describe_key(key)} is {describe_type(value)}, not {TYPE_NAMES[kind]}"
        )
    return value


def read_json_lines(path: str | Path) -> Iterator[tuple[int, JsonObject]]:
    """Yield the line number, from 1, and the object of each line of a JSON-lines file; empty lines
    are skipped.
    """
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                location = f"{path}: line {number}"
                entry = parse_line(line, location)
                if not isinstance(entry, dict):
                    raise UserError(
                        f"{location} is {describe_type(entry)}, not an object"
                    )
                yield number, entry


def parse_line(line: bytes, location: str) -> Any:
    """Return the value of a line of a JSON-lines file.

    Raises:
        UserError: The line is not JSON.
    """
    try:
        return parse_json(line)
    except UnicodeDecodeError as error:
        raise UserError(
            f"{location}: not UTF-8 at byte {error.start} of the line; save it as UTF-8"
        ) from None
    except RecursionError:
        raise UserError(f"{location}: {TOO_DEEP}") from None
    except RepeatedKeyError as error:
        raise UserError(f"{location}: {error}; {KEEP_ONE}") from None
    except json.JSONDecodeError as error:
        raise UserError(
            f"{location}: malformed JSON at column {error.colno}; get the file again"
        ) from None
    except ValueError as error:  # such as a number of thousands of digits
        raise UserError(f"{location}: {error}; correct the line") from None


def read_csv_records(
    path: str | Path, columns: Sequence[str] = (), required: Sequence[str] = ()
) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield for each record of a CSV file the number of its last line and its cells by column; skip
    empty lines.

    Args:
        columns: Names of the columns of a file without header.
        required: Columns that the file must have.
    """
    csv.field_size_limit(LARGEST_CELL)
    reader = csv.reader(_read_csv_lines(path), strict=True)
    if not columns:
        reader = csv.reader(_read_csv_lines(path), _find_dialect(path), strict=True)
    try:
        header = list(columns) or _read_header(reader, required)
        _check_header(path, header, required)
        for cells in reader:
            # Table programs write an empty line as separators.
            if not any(cells) and len(cells) != 1:
                continue
            if len(cells) != len(header):
                if header[0].startswith("#"):
                    raise UserError(
                        f"{path}: line 1: a comment stands where the names of the columns are expected (got"
                        f" {shorten_value(repr(header[0]))}); remove the lines of comments"
                    )
                raise UserError(
                    f"{path}: line {reader.line_num}: {len(cells)} cells, not {len(header)}; correct the line"
                    " (a text with a separator stands in quotation marks), or get the file again"
                )
            yield reader.line_num, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise UserError(
            f"{path}: line {reader.line_num}: malformed CSV ({error}); correct the line (a quotation mark within a"
            " text is written twice), or get the file again"
        ) from None


def _read_csv_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a CSV file; carriage returns end lines, too. Excel's first line `sep=;` becomes empty."""
    is_first = True
    for line in _read_lines(path):
        for part in filter(None, CARRIAGE_RETURN.split(line)):
            if is_first and SEPARATOR_HINT.fullmatch(part.strip()):
                part = "\n"
            yield part
            is_first = False


def _find_dialect(path: str | Path) -> type[csv.Dialect]:
    """Return how the header of a CSV file is written: its separator, and whether blanks follow it."""
    lines = _read_csv_lines(path)
    header = next(filter(str.strip, lines), "")
    bare = QUOTED.sub("", header)
    separator = max(SEPARATORS, key=bare.count)

    class Dialect(csv.excel):
        delimiter = separator
        skipinitialspace = bare.count(separator) == bare.count(f"{separator} ") > 0

    return Dialect


def _read_header(reader: Iterator[list[str]], required: Sequence[str]) -> list[str]:
    """Return the names of the columns without blanks around them, and required names in their own
    case of letters.
    """
    header = [name.strip() for name in next(filter(None, reader), [])]
    for name in required:
        alike = [cell for cell in header if cell.lower() == name.lower()]
        if len(alike) == 1:
            header[header.index(alike[0])] = name
    return header


def _check_header(
    path: str | Path, header: Sequence[str], required: Sequence[str]
) -> None:
    """Refuse a CSV file that lacks a required column, or has a column twice."""
    missing = [name for name in required if name not in header]
    if missing:
        raise UserError(
            f"{path}: column {missing[0]!r} is missing (got {', '.join(header) or 'nothing'},"
            f" expected {', '.join(required)}); name it in the first line"
        )
    # Columns without name are allowed: nothing refers to them.
    counts = Counter(filter(None, header))
    for name, count in counts.items():
        if count > 1:
            raise UserError(
                f"{path}: column {name!r} stands {count} times; rename all but one"
            )


def read_text_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a text file in UTF-8, without their line breaks."""
    for line in _read_lines(path):
        yield line.rstrip("\r\n")


def _read_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a text file in UTF-8."""
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
            try:
                yield line.decode()
            except UnicodeDecodeError as error:
                raise UserError(
                    f"{path}: line {number}: not UTF-8 at byte {error.start} of the line; save it as UTF-8"
                ) from None


def find_half_pair(value: object) -> str | None:
    """Return the fault of a JSON value with half a surrogate pair, which no output can store; None
    without a fault.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return TOO_DEEP
    match = SURROGATE.search(text)
    if match is None:
        return None
    return f"\\u{ord(match[0]):x} is half of a surrogate pair, no character"


def escape_half_pairs(value: Mapping[str, object]) -> JsonObject:
    """Return a JSON object in whose texts each half of a surrogate pair is an escape."""
    text = json.dumps(value, ensure_ascii=False)
    # The backslash of an escape is written twice in JSON.
    escaped = SURROGATE.sub(lambda match: rf"\\u{ord(match[0]):x}", text)
    return dict(json.loads(escaped))


def check_unique(seen_ids: set[str], identifier: str, location: str) -> None:
    """Add an id to the ids of the earlier records; an id among them is an error."""
    if identifier in seen_ids:
        raise _build_duplicate_error(location)
    seen_ids.add(identifier)


def _build_duplicate_error(location: str) -> UserError:
    return UserError(f"{location}: duplicate id in the file")


def find_empty(**texts: str | None) -> str | None:
    """Return the reason of rejection that names the first empty text; None where no text is empty.

    Args:
        texts: The texts by their names in the reason; None stands for a withheld text, which is
            not empty.
    """
    for name, text in texts.items():
        if text == "":
            return f"the {name} is empty"
    return None


def join_lines(text: str) -> str:
    """Replace line breaks and tabs by single spaces and strip whitespace at both ends.

    Double spaces inside a line stay, as in the released benchmark.
    """
    return LINE_BREAKS.sub(" ", text).strip()


def build_image_name(
    image_id: str, names: ImageNames, split: str | None, location: str
) -> str:
    """Return the file name of an image from its id, by a template or by the names of the images.

    A numeric id is a number in the template, so that it can be formatted (`{id:012d}`).
    """
    if isinstance(names, Mapping):
        if image_id not in names:
            raise UserError(
                f"{location}: image id {image_id} is not among the {len(names)} known images"
            )
        return names[image_id]
    number_or_text = int(image_id) if image_id.isdecimal() else image_id
    try:
        return names.format(id=number_or_text, split=split)
    except (ValueError, KeyError, IndexError) as error:
        raise UserError(
            f"{location}: image id {image_id!r} does not fit the template {names!r} ({error})"
        ) from None


def open_text(path: str | Path) -> IO[bytes]:
    """Open a text file, as UTF-8 and behind its byte order mark; UTF-16 with a mark is converted."""
    file = _open(path)
    start = file.read(len(codecs.BOM_UTF32_LE))
    is_utf32 = start in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and not is_utf32:
        with file:
            return _convert_utf16(path, file)
    # Readers begin behind the mark.
    file.seek(len(codecs.BOM_UTF8) * start.startswith(codecs.BOM_UTF8))
    return file


def _open(path: str | Path) -> IO[bytes]:
    try:
        return Path(path).open("rb")
    except FileNotFoundError:
        raise UserError(
            f"{path}: no such file; {advise_on_missing_file(path)}"
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be opened: {error.strerror}") from None


def _convert_utf16(path: str | Path, file: IO[bytes]) -> IO[bytes]:
    """Return a temporary file with the text of a UTF-16 file in UTF-8."""
    file.seek(0)
    target = tempfile.TemporaryFile()  # noqa: SIM115 (the caller closes it)
    try:
        text = io.TextIOWrapper(file, "utf-16", newline="")
        shutil.copyfileobj(text, codecs.getwriter("utf-8")(target), CHUNK_BYTES)
    except UnicodeDecodeError:
        target.close()
        raise UserError(
            f"{path}: not UTF-16, though its first bytes say so; save it as UTF-8"
        ) from None
    target.seek(0)
    return target


def _read_entries(
    path: str | Path, method: Literal["items", "kvitems"], key: str, prefix: str
) -> Iterator[Any]:
    """Yield what a method of `ijson` finds: values, or pairs of name and value.

    Args:
        method: `items` for the values at a prefix, `kvitems` for the pairs of the object there.
        key: Key of the list, object or value.
        prefix: Prefix of the values as `ijson` writes it: the key, or for the entries of a list the
            key and `item`.
    Raises:
        UserError: The file is not valid JSON, or it repeats a key within the entries or on the path
            to them.
    """
    repeated: list[str] = []
    with _open_json(path) as file:
        parser = _choose_parser(file)
        # A repeated key on the path would give the entries of both values; the search in the bytes
        # is quick.
        if _may_repeat(file, key):
            _check_keys(path)
        read = getattr(parser, method)
        # `map_type` notes repeated keys in `repeated` while an entry is built.
        for entry in read(
            file, prefix, use_float=True, map_type=build_object_type(repeated)
        ):
            if repeated:
                break
            yield entry
        if repeated:
            _check_keys(path)


def _may_repeat(file: IO[bytes], key: str) -> bool:
    """Return True where a part of a key occurs twice in the text of a file, as a key or as another
    value.
    """
    texts = [f'"{part}"'.encode() for part in key.split(".") if part]
    if not os.fstat(file.fileno()).st_size:
        return False
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return any(content.find(text) < content.rfind(text) for text in texts)


def _check_keys(path: str | Path) -> None:
    """Raise an error for a file in which an object repeats a key."""
    # A key for each object that is open, an index for each list.
    key_path: list[str | int] = []
    keys: list[set[str]] = []
    with open_text(path) as file:
        for event, value in _choose_parser(file).basic_parse(file, use_float=True):
            # The last element of both lists belongs to the innermost open container.
            if event == "map_key":
                if value in keys[-1]:
                    raise _build_repeated_error(path, _render_path(key_path), value)
                keys[-1].add(value)
                key_path[-1] = value
            elif event in ("end_map", "end_array"):
                keys.pop()
                key_path.pop()
            else:
                # A value within a list: it has the next index.
                if key_path and isinstance(key_path[-1], int):
                    key_path[-1] += 1
                if event in TYPE_BY_EVENT:
                    keys.append(set())
                    key_path.append("" if event == "start_map" else -1)


def _render_path(key_path: Sequence[str | int]) -> str:
    """Return the path of the innermost open object, such as `rows[1].deep`.

    Args:
        key_path: A key for each open object and an index for each open list, outermost first.
    """
    path = ""
    for part in key_path[:-1]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path.lstrip(".") or "the root"


def _build_repeated_error(path: str | Path, location: str, key: str) -> UserError:
    return UserError(f"{path}: {location}: key {key!r} stands twice; {KEEP_ONE}")


@contextmanager
def _open_json(path: str | Path) -> Iterator[IO[bytes]]:
    with open_text(path) as file:
        try:
            yield file
        except PARSE_ERRORS as error:
            raise _build_json_error(path, error) from None
        except (RecursionError, _DepthError):
            raise UserError(f"{path}: {TOO_DEEP}") from None


class _DepthError(Exception):
    """Error for a file whose values are nested too deeply."""


def _choose_parser(file: IO[bytes]) -> Any:
    """Return the backend of ijson that reads a file correctly; the position of the file does not
    change.
    """
    size = os.fstat(file.fileno()).st_size
    if not size:
        return ijson
    with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as content:
        if _is_deep(content):
            raise _DepthError
        # The search for bytes is faster than the one for the expression.
        has_escape = content.find(rb"\ud") >= 0 or content.find(rb"\uD") >= 0
        if has_escape and HALF_PAIR.search(content):
            return ijson.get_backend("python")
    return ijson


def _is_deep(content: mmap.mmap) -> bool:
    """Return True where the values of a JSON text are nested `MAX_DEPTH` levels deep; brackets in
    strings are skipped.
    """
    depth = 0  # open brackets before the chunk
    n_quotes = 0  # 1 where the chunk begins within a string
    start = 0
    while part := content[start : start + CHUNK_BYTES]:
        n_backslashes = len(part) - len(part.rstrip(b"\\"))
        if n_backslashes % 2:  # what the last backslash escapes belongs to it
            part += content[start + len(part) : start + len(part) + 1]
        start += len(part)

        # Arrays of shape (bytes of the chunk,): a byte is within a string after an odd number of
        # quotation marks. Escaped characters become underscores, so that the remaining quotation
        # marks begin or end strings.
        letters = np.frombuffer(ESCAPE.sub(b"__", part), np.uint8)
        quotes_so_far = n_quotes + np.cumsum(letters == ord('"'), dtype=np.int32)
        is_outside = quotes_so_far % 2 == 0
        opens = is_outside & ((letters == ord("[")) | (letters == ord("{")))
        closes = is_outside & ((letters == ord("]")) | (letters == ord("}")))
        depths = depth + np.cumsum(opens.astype(np.int32) - closes, dtype=np.int32)
        if depths.max() >= MAX_DEPTH:
            return True
        depth = int(depths[-1])
        n_quotes = int(quotes_so_far[-1]) % 2
    return False


def _describe_key(key: str) -> str:
    """Return the name of a key in error messages."""
    return repr(key) if key else "the root"


def _check_empty_container(path: str | Path, key: str, expected: str) -> None:
    """Raise an error unless the value at `key`, which has no entries, is an empty container of the
    expected type.
    """
    parent = key.rpartition(".")[0]
    siblings: list[str] = []
    with open_text(path) as file:
        for prefix, event, value in ijson.parse(file, use_float=True):
            if event == "map_key" and prefix == parent:
                siblings.append(value)  # keys next to a missing key, for the message
            if event in ("map_key", "end_map", "end_array"):
                continue
            # Other events are the beginning of a value.
            type_name = TYPE_BY_EVENT.get(event, describe_type(value))
            if prefix == key and type_name == expected:
                return
            if prefix == key:
                raise UserError(
                    f"{path}: {_describe_key(key)} is {type_name}, not {expected}"
                )
            if prefix == "" and type_name != TYPE_NAMES[dict]:
                raise UserError(
                    f"{path}: the root is {type_name}, not an object with {key!r}"
                )
    raise UserError(
        f"{path}: {_describe_key(key)} is missing (got {', '.join(siblings) or 'no keys'})"
    )


def _build_json_error(path: str | Path, error: Exception) -> UserError:
    position = _find_first_bad_byte(path)
    with open_text(path) as file:
        start = file.tell()  # behind a byte order mark, as the position
        size = file.seek(0, os.SEEK_END) - start
    if position >= size:
        return UserError(
            f"{path}: truncated: the file ends at byte {size} within its JSON; get it again"
        )
    reason = str(error).removeprefix("b'").splitlines()[0].split("\\n")[0]
    return UserError(
        f"{path}: malformed JSON at byte {position}: {reason}; get the file again"
    )


def _find_first_bad_byte(path: str | Path) -> int:
    """Return the offset of the byte at which parsing fails; the size of the file where parsing
    fails at its end.
    """
    offset = 0
    # First find the chunk in which parsing fails, then the byte within this chunk.
    for step in (CHUNK_BYTES, 1):
        parser = ijson.basic_parse_coro(_IgnoreEvents(), use_float=True)
        with open_text(path) as file:
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
