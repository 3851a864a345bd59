"""Rows of a user's file: CSV, TSV, JSON in its usual arrangements, JSON lines, Parquet, and data sets of Hugging Face
that were saved to disk.

The content decides how a file is read, as far as it can: separators, byte order marks, UTF-16 and JSON lines are
recognised. Nothing is skipped: a row that cannot be read is an error.
"""

import json
import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from waltz.core.downloads.content_checks import (
    HEAD_BYTES,
    IMAGE_STARTS,
    POINTER_START,
    is_web_page,
)
from waltz.core.errors import UserError, get_first_line, list_names
from waltz.core.files.json_objects import JsonObject, RepeatedKeyError, parse_json
from waltz.core.files.safe_names import is_safe_name
from waltz.sources.raw_entry import RawEntry, describe_type
from waltz.sources.raw_files import (
    KEEP_ONE,
    TOO_DEEP,
    open_text,
    parse_line,
    read_csv_records,
    read_json_lines,
)

logger = logging.getLogger(__name__)

CSV_SUFFIXES = (".csv", ".tsv", ".tab")
LINES_SUFFIXES = (".jsonl", ".ndjson")
ARROW_SUFFIXES = (".parquet", ".arrow")
SHEET_SUFFIXES = (".xlsx", ".xls", ".ods")
ARCHIVE_SUFFIXES = (".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".7z")
PACKED_STARTS = (
    *(b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"7z\xbc\xaf"),
    *(b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"(\xb5/\xfd"),
)
"""First bytes of zip archives and .xlsx, of .xls and 7z, and of gzip, bzip2, xz and zstd."""
IMAGE_ENDING = r"\.(?:jpe?g|png|gif|webp|bmp)"
IMAGE_NAME = re.compile(f"{IMAGE_ENDING}$", re.IGNORECASE)
TABLE_SUFFIXES = (*CSV_SUFFIXES, ".json", *LINES_SUFFIXES, *ARROW_SUFFIXES)
"""Ends of the names of files that are read, in any case of letters."""
MAX_ROWS = 1_000_000
"""Rows of one file; run lengths of Parquet state millions of rows in a few bytes."""
MAX_TABLE_BYTES = 4 * 1024**3
"""Size limit of the values of one file, unpacked."""
BATCH_ROWS = 256
"""Rows that are unpacked at once."""
PAGE_FIELDS = {"row_idx", "row", "truncated_cells"}
"""Fields of a row as the server of Hugging Face gives it."""
HEADER_NAMES = {"id", "image", "caption", "foil"}
"""Names of columns by which a list is recognised as a header."""
SAVED_DATASET, SAVED_SPLITS = "state.json", "dataset_dict.json"
"""Files by which a data set that was saved to disk is recognised, and one of several splits."""
IMAGE_FIELDS = {"bytes", "path"}
"""Fields of a stored image of a Hugging Face data set."""
TABLE_ERRORS = (OSError, pa.ArrowException, ValueError, OverflowError, LookupError)
"""Errors of reading damaged Parquet and Arrow files."""


def read_table(path: str | Path, row_fields: Collection[str] = ()) -> list[RawEntry]:
    """Return the rows of a file with their locations, for messages.

    All values of a CSV file are texts, and blanks around the names of its columns are left out. Objects of a JSON
    object get its key as `id`; lists within a list get their positions (`0`, `1`) as names. A stored image becomes its
    name, as `name_stored_image` builds it.

    Args:
        path: The file, or the folder of a data set that `save_to_disk` wrote.
        row_fields: Names of objects by which a JSON file is a single row, whatever lists it holds.
    Raises:
        UserError: The file is missing, damaged, of another kind, too large, or has no rows.
    """
    path = Path(path)
    if path.is_dir():
        rows = _locate_rows(path, _read_arrow_rows(path))
    else:
        rows = list(read_rows(path, row_fields))
    if not rows:
        raise UserError(f"{path}: no rows in the file; write at least one")
    return rows


def read_rows(path: Path, row_fields: Collection[str] = ()) -> Iterator[RawEntry]:
    """Yield the rows of a file, by the end of its name; none of an empty one.

    Args:
        path: The file.
        row_fields: As of `read_table`.
    Raises:
        UserError: As `read_table`, which refuses a file without rows, too.
    """
    suffix = path.suffix.lower()
    if suffix in ARCHIVE_SUFFIXES:
        raise UserError(
            f"{path}: is an archive or compressed; unpack it and name the file within"
        )
    if suffix in SHEET_SUFFIXES:
        raise UserError(
            f"{path}: is a spreadsheet, which is not read; save it as CSV (UTF-8)"
        )
    if suffix not in TABLE_SUFFIXES:
        raise UserError(
            f"{path}: its name ends in {suffix or 'nothing'}; rows are read from {list_names(TABLE_SUFFIXES)};"
            " save it as one of them"
        )
    _check_start(path)
    if suffix in ARROW_SUFFIXES:
        yield from _locate_rows(path, _read_arrow_rows(path))
    elif suffix in CSV_SUFFIXES:
        for line, cells in read_csv_records(path):
            _check_header(path, cells)
            yield RawEntry(dict(cells), f"{path}: line {line}")
    elif _has_json_lines(path, b"{", b"}"):
        for line, fields in read_json_lines(path):
            yield RawEntry(fields, f"{path}: line {line}")
    elif _has_json_lines(path, b"[", b"]"):
        yield from _locate_rows(path, _find_rows(path, _read_lists(path)))
    else:
        rows = _find_rows(path, _load_json(path), row_fields)
        yield from _locate_rows(path, rows)


def _check_header(path: Path, names: Mapping[str, object]) -> None:
    """Refuse a CSV file whose first line is a row: it names an image, or has a number and a text of several words."""
    cells = "".join(map(str, names.values()))
    if cells and not cells.strip("-: "):
        raise UserError(
            f"{path}: line 2: a line of dashes, as in a table of Markdown; save it as CSV"
        )
    first = next(filter(IMAGE_NAME.search, names), None)
    number = next(filter(str.isdecimal, names), None)
    if number is not None and any(" " in name for name in names):
        first = first or number
    if first is not None:
        raise UserError(
            f"{path}: line 1: no header (got {first!r} as the name of a column); write the names of the columns above"
            " it, such as image,caption,foil"
        )


def _check_start(path: Path) -> None:
    """Refuse a file whose first bytes are those of something else than its name says."""
    with open_text(path) as file:
        head = file.read(HEAD_BYTES)
    if head.startswith(POINTER_START):
        raise UserError(
            f"{path}: is a pointer of Git LFS, not the file; get it with `git lfs pull`"
        )
    if is_web_page(head):
        raise UserError(
            f"{path}: is a web page; download the file itself, with the address of its raw content"
        )
    # Parquet and Arrow files hold any bytes.
    if path.suffix.lower() in ARROW_SUFFIXES:
        return
    if head.startswith(PACKED_STARTS):
        raise UserError(
            f"{path}: is an archive, a compressed file or a spreadsheet, whatever its name; unpack it, or save it as"
            " CSV (UTF-8)"
        )
    if b"\0" in head:
        raise UserError(
            f"{path}: has bytes of value 0, as UTF-16 without a byte order mark; save it as UTF-8"
        )


def _locate_rows(path: Path, records: Sequence[JsonObject]) -> list[RawEntry]:
    """Return records with their positions from 1 as locations."""
    return [
        RawEntry(record, f"{path}: item {position}")
        for position, record in enumerate(records, 1)
    ]


def _has_json_lines(path: Path, start: bytes, end: bytes) -> bool:
    """Return whether each line of a file is an object or list of its own, whatever the end of its name.

    Args:
        start: The bracket before the fields of a row.
        end: The bracket behind them.
    """
    with open_text(path) as file:
        lines = filter(None, map(bytes.strip, file))
        first = next(lines, b"")
        has_more = next(lines, None) is not None
    # A list of rows, or an object over several lines, does not end in its first line.
    if not (first.startswith(start) and first.endswith(end) and first[1:-1].strip()):
        return False
    is_named_so = path.suffix.lower() in LINES_SUFFIXES
    # One line may be a list of all rows, or a list of the values of one.
    is_list_of_rows = first[1:].lstrip().startswith((b"{", b"["))
    return has_more or (is_named_so and not is_list_of_rows)


def _read_lists(path: Path) -> list[list[Any]]:
    """Return the lists of a file that has one in each line."""
    lists = []
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            location = f"{path}: line {number}"
            values = parse_line(line, location)
            if not isinstance(values, list):
                raise UserError(
                    f"{location} is {describe_type(values)} (expected a list, as above); write the same in each line"
                )
            lists.append(values)
    return lists


def _load_json(path: Path) -> Any:
    """Return the value of a JSON file; NaN and infinities, which other programs write, are numbers."""
    with open_text(path) as file:
        content = file.read(MAX_TABLE_BYTES + 1)
    if len(content) > MAX_TABLE_BYTES:
        raise _build_size_error(path)
    if not content.strip():
        return []
    try:
        return parse_json(content)
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8"
        ) from None
    except RecursionError:
        raise UserError(f"{path}: {TOO_DEEP}") from None
    except RepeatedKeyError as error:
        raise UserError(f"{path}: {error}; {KEEP_ONE}") from None
    except json.JSONDecodeError as error:
        raise UserError(f"{path}: {_describe_json_fault(error)}") from None
    except ValueError as error:  # such as a number of thousands of digits
        raise UserError(f"{path}: {get_first_line(error)}; correct the file") from None


def _describe_json_fault(error: json.JSONDecodeError) -> str:
    """Return where and why a JSON file is malformed, and what to do."""
    position = f"line {error.lineno}, column {error.colno}"
    rest = error.doc[error.pos :]
    if error.msg.startswith("Unterminated string") or not rest.strip():
        return "truncated: the file ends within its JSON; get it again"
    if error.msg == "Extra data":
        return f"something follows the first value at {position}; write one list of objects, or one object a line"
    is_behind_comma = error.doc[: error.pos].rstrip().endswith(",")
    if is_behind_comma and rest.startswith(("]", "}")):
        return f"a comma stands behind the last value, before {position}; leave it out"
    return f"malformed JSON at {position} ({error.msg}); correct it"


def _find_rows(
    path: Path, value: object, row_fields: Collection[str] = ()
) -> list[JsonObject]:
    """Return the rows of a JSON value, whose arrangement its types show; an object with one of the objects
    `row_fields` is a row.
    """
    if isinstance(value, list):
        return _list_rows(path, value)
    if not isinstance(value, dict):
        raise UserError(
            f"{path}: the root is {describe_type(value)}, not a list of objects; write one object a row"
        )
    if any(isinstance(value.get(name), dict) for name in row_fields):
        return [value]
    return _find_object_rows(path, value)


def _find_object_rows(path: Path, value: JsonObject) -> list[JsonObject]:
    """Return the rows of a JSON object: its parts, or itself."""
    if not value:
        return []
    if _is_captions_by_image(value) and all(map(_holds_rows, value.values())):
        return list(chain.from_iterable(map(_name_images, value, value.values())))
    if _is_captions_by_image(value):
        return [{"image": name, "caption": part} for name, part in value.items()]
    if _holds_objects(value):
        return _read_objects(path, value)
    lists = {name: part for name, part in value.items() if isinstance(part, list)}
    # `{"columns": [...], "data": [[...]]}`, as pandas writes it with `orient="split"`.
    if {"columns", "data"} <= set(lists):
        return _zip_columns(path, lists["columns"], lists["data"])
    tables = _find_tables(lists)
    if len(tables) > 1:
        raise UserError(
            f"{path}: has several lists of objects ({list_names(tables, 'and')}); write one list of rows, or name a"
            " COCO file as a source of the format coco-captions (of FOIL-COCO: foil-it)"
        )
    if tables:
        (rows,) = tables.values()
        _warn_of_page(path, len(rows), value.get("num_rows_total"))
        return _list_rows(path, rows)
    if len(lists) == len(value):
        return _turn_columns(path, lists)
    return [value]  # a file of a single row


def _is_captions_by_image(value: JsonObject) -> bool:
    """Return whether an object has the captions of images by the images' names: `{"a.jpg": "A dog."}`."""
    if not _has_image_names(value):
        return False
    return all(isinstance(part, str | list) for part in value.values())


def _name_images(image: str, rows: Sequence[JsonObject]) -> list[JsonObject]:
    """Return rows with the name of their image."""
    return [{"image": image, **row} for row in rows]


def _has_image_names(value: Mapping[str, object]) -> bool:
    """Return whether all keys of an object are names of images."""
    return all(map(IMAGE_NAME.search, value))


def _find_tables(lists: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Return the lists that hold rows; next to the rows of a server, which lists their columns, only those."""
    if _holds_served_rows(lists.get("rows", [])):
        return {"rows": lists["rows"]}
    return {name: part for name, part in lists.items() if _holds_rows(part)}


def _list_rows(path: Path, entries: Sequence[Any]) -> list[JsonObject]:
    """Return the entries of a list as rows; a list of names before lists of values is a header."""
    if _holds_served_rows(entries):
        return _unwrap_rows(path, entries)
    if entries and _is_header(entries[0]):
        return _zip_columns(path, entries[0], entries[1:])
    return [_build_row(path, entry, n) for n, entry in enumerate(entries, 1)]


def _warn_of_page(path: Path, n_rows: int, n_all: object) -> None:
    """Log a warning where a page of the server of Hugging Face has not all rows of its data set."""
    if isinstance(n_all, int) and n_all > n_rows:
        logger.warning("%s: has %d of the %d rows of its data set", path, n_rows, n_all)


def _holds_served_rows(values: Sequence[object]) -> bool:
    """Return whether all entries of a list are rows as the server of Hugging Face gives them."""
    if not _holds_rows(values):
        return False
    for value in values:
        if not (isinstance(value, dict) and isinstance(value.get("row"), dict)):
            return False
        if not value.keys() <= PAGE_FIELDS:
            return False
    return True


def _unwrap_rows(path: Path, entries: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the rows that the server of Hugging Face gave.

    Raises:
        UserError: The server shortened a value.
    """
    for position, entry in enumerate(entries, 1):
        if entry.get("truncated_cells"):
            raise UserError(
                f"{path}: item {position}: {list_names(map(str, entry['truncated_cells']), 'and')} is shortened by the"
                " server; download the data set as Parquet"
            )
    return [entry["row"] for entry in entries]


def _is_header(entry: object) -> bool:
    """Return whether a list has the names of columns, of which two are enough to tell."""
    if not isinstance(entry, list):
        return False
    names = {str(name).strip().lower() for name in entry}
    return len(names & HEADER_NAMES) >= 2


def _holds_rows(values: Sequence[object]) -> bool:
    """Return whether all entries of a list are objects."""
    return bool(values) and all(isinstance(value, dict) for value in values)


def _holds_objects(part: JsonObject) -> bool:
    """Return whether all values of an object are objects."""
    return _holds_rows(list(part.values()))


def _build_row(path: Path, entry: object, position: int) -> JsonObject:
    """Return an entry of a list as a row; a list has its positions as names."""
    if isinstance(entry, dict):
        return entry
    if isinstance(entry, str):
        return {"text": entry}
    if isinstance(entry, list):
        return {str(index): value for index, value in enumerate(entry)}
    raise UserError(
        f"{path}: item {position} is {describe_type(entry)}, not an object; write one object a row"
    )


def _read_objects(path: Path, objects: Mapping[str, JsonObject]) -> list[JsonObject]:
    """Return the rows of an object of objects: rows by id, or columns by name."""
    if _holds_groups(objects):
        raise UserError(
            f"{path}: has several groups of rows ({list_names(objects, 'and')}); write each to a file of its own"
        )
    if _holds_columns(objects):
        columns = {name: list(column.values()) for name, column in objects.items()}
        return _turn_columns(path, columns)
    # VL-CheckList by image.
    if _has_image_names(objects):
        return [{"image": name, **record} for name, record in objects.items()]
    if _is_wrapper(objects):
        (rows,) = objects.values()
        return _find_rows(path, rows)
    return [{"id": name, **record} for name, record in objects.items()]


def _holds_groups(objects: Mapping[str, JsonObject]) -> bool:
    """Return whether an object has several groups of rows: rows have texts and numbers, too, groups only objects."""
    return len(objects) > 1 and all(map(_holds_objects, objects.values()))


def _holds_columns(objects: Mapping[str, JsonObject]) -> bool:
    """Return whether an object has columns by name, all with the same row numbers; rows have names of columns."""
    first, *rest = objects.values()
    if not first:
        return False
    has_row_numbers = all(name.isdecimal() for name in first)
    return has_row_numbers and all(part.keys() == first.keys() for part in rest)


def _is_wrapper(objects: Mapping[str, JsonObject]) -> bool:
    """Return whether an object has a single group of rows."""
    if len(objects) > 1:
        return False
    (group,) = objects.values()
    return bool(group) and all(isinstance(part, dict | list) for part in group.values())


def _turn_columns(path: Path, columns: Mapping[str, Sequence[Any]]) -> list[JsonObject]:
    """Return the rows of columns, which must have equal lengths."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise UserError(
            f"{path}: its columns have different lengths (got {shown}); write one object a row"
        )
    cells = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in cells]


def _zip_columns(
    path: Path, names: Sequence[Any], rows: Sequence[Any]
) -> list[JsonObject]:
    """Return the rows of a list of names and a list of lists of values."""
    records = []
    for position, row in enumerate(rows, 1):
        if not isinstance(row, list) or len(row) != len(names):
            raise UserError(
                f"{path}: item {position} is not a list of {len(names)} values; write one for each of 'columns'"
            )
        records.append(dict(zip(map(str, names), row, strict=True)))
    return records


def find_arrow_files(path: Path) -> list[Path]:
    """Return the Parquet or Arrow files of a data set, in their order.

    Args:
        path: A file, or the folder that `save_to_disk` wrote; of a folder with one split, that split is read.
    Raises:
        UserError: The folder is no saved data set, or has several splits.
    """
    if not path.is_dir():
        return [path]
    if (path / SAVED_SPLITS).is_file():
        splits = _read_names(path / SAVED_SPLITS, "splits")
        if len(splits) != 1:
            raise UserError(
                f"{path}: has several splits ({list_names(splits, 'and')}); name one, such as {path}/{splits[0]}"
            )
        return find_arrow_files(path / splits[0])
    if not (path / SAVED_DATASET).is_file():
        raise UserError(
            f"{path}: is a folder, and no data set that `save_to_disk` wrote (no {SAVED_DATASET}); name a file"
        )
    return [path / name for name in _read_names(path / SAVED_DATASET, "_data_files")]


def _read_names(path: Path, key: str) -> list[str]:
    """Return the names of splits or files that a file of a saved data set lists."""
    content = _load_json(path)
    entries = None
    if isinstance(content, dict):
        entries = content.get(key)
    if not isinstance(entries, list) or not entries:
        raise UserError(f"{path}: {key!r} lists nothing; save the data set again")
    names = []
    for entry in entries:
        name = entry
        if isinstance(entry, dict):
            name = entry.get("filename")
        # A name must not lead out of the folder.
        if not isinstance(name, str) or not is_safe_name(name):
            raise UserError(
                f"{path}: {key!r} has an entry that names nothing in the folder; save the data set again"
            )
        names.append(name)
    return names


def find_only_file(path: Path) -> Path:
    """Return a file as it is, and the only file of a saved data set: a study names files, not folders."""
    files = find_arrow_files(path)
    if len(files) != 1:
        raise UserError(
            f"{path}: has {len(files)} files of rows; write them as one, such as with `to_parquet`, and name it"
        )
    return files[0]


def read_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of Parquet or Arrow files, a few at once, up to limits: a small file may declare very many.

    Args:
        path: As `find_arrow_files` takes it.
    """
    n_rows = 0
    size = 0
    for batch in chain.from_iterable(map(_read_file_batches, find_arrow_files(path))):
        n_rows += batch.num_rows
        size += batch.nbytes
        if n_rows > MAX_ROWS:
            raise _build_rows_error(path, n_rows)
        if size > MAX_TABLE_BYTES:
            raise _build_size_error(path)
        yield _unwrap_images(_wrap_images(batch))


def _wrap_images(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch in which the bytes of images are stored images without a path."""
    # A column of bytes may be anything else; the first value tells.
    for number, field in enumerate(batch.schema):
        is_binary = pa.types.is_binary(field.type) or pa.types.is_large_binary(
            field.type
        )
        first = next(iter(batch[number].drop_null()), None) if is_binary else None
        if first is None or not first.as_py().startswith((*IMAGE_STARTS, b"RIFF")):
            continue
        paths = pa.nulls(batch.num_rows, pa.string())
        images = pa.StructArray.from_arrays([batch[number], paths], ["bytes", "path"])
        batch = batch.set_column(number, field.name, images)
    return batch


def _unwrap_images(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch in which lists of one stored image each are that image."""
    for number, field in enumerate(batch.schema):
        is_list = pa.types.is_list(field.type) or pa.types.is_large_list(field.type)
        if not is_list or not _is_stored_image(field.type.value_type):
            continue
        column = batch[number]
        # Lists of several images stay lists: a pair has one image.
        if set(column.value_lengths().to_pylist()) == {1}:
            batch = batch.set_column(number, field.name, column.flatten())
    return batch


@contextmanager
def name_damage(path: Path) -> Iterator[None]:
    """Turn errors of reading a Parquet or Arrow file into a UserError that names it."""
    try:
        yield
    except UserError:
        raise
    except TABLE_ERRORS as error:
        raise UserError(
            f"{path}: cannot be read: {get_first_line(error)}; correct the file"
        ) from None


def _read_file_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the batches of one file: Parquet, an Arrow stream or an Arrow file."""
    if path.suffix.lower() == ".parquet":
        with pq.ParquetFile(path, page_checksum_verification=True) as parquet_file:
            n_rows = parquet_file.metadata.num_rows
            if n_rows > MAX_ROWS:
                raise _build_rows_error(path, n_rows)
            yield from parquet_file.iter_batches(BATCH_ROWS)
        return
    with pa.OSFile(str(path)) as source:
        is_file = source.read(6) == b"ARROW1"
        source.seek(0)
        if is_file:
            file = pa.ipc.open_file(source)
            yield from map(file.get_batch, range(file.num_record_batches))
        else:
            yield from pa.ipc.open_stream(source)


def _read_arrow_rows(path: Path) -> list[JsonObject]:
    """Return the rows of a Parquet or Arrow data set, with names in place of stored images."""
    records: list[JsonObject] = []
    with name_damage(path):
        for batch in read_batches(path):
            records += _read_batch(batch, len(records))
    return records


def _read_batch(batch: pa.RecordBatch, first: int) -> list[JsonObject]:
    """Return the rows of a batch.

    Args:
        first: Number of rows before the batch.
    """
    images = find_image_columns(batch.schema)
    plain = [name for name in batch.schema.names if name not in images]
    rows: list[JsonObject] = batch.select(plain).to_pylist(maps_as_pydicts="strict")
    for column in images:
        # The content of an image is not needed for its name.
        paths = batch[column].field("path").to_pylist()
        for number, (row, stored) in enumerate(zip(rows, paths, strict=True), first):
            row[column] = name_stored_image(column, number, stored)
    return rows


def read_stored_images(path: Path) -> dict[str, bytes]:
    """Return the images that a Parquet or Arrow data set stores, by their names in its rows.

    Raises:
        UserError: The data set is damaged, or one name has two images.
    """
    images: dict[str, bytes] = {}
    first = 0
    with name_damage(path):
        for batch in read_batches(path):
            for column in find_image_columns(batch.schema):
                for number, image in enumerate(batch[column].to_pylist(), first):
                    _add_image(images, path, column, number, image)
            first += batch.num_rows
    return images


def _add_image(
    images: dict[str, bytes],
    path: Path,
    column: str,
    row: int,
    image: JsonObject | None,
) -> None:
    """Add a stored image to those of its data set; one without content lies in a file elsewhere."""
    if image is None or image["bytes"] is None:
        return
    name = name_stored_image(column, row, image["path"])
    if images.setdefault(name, image["bytes"]) != image["bytes"]:
        raise UserError(
            f"{path}: two images have the name {name!r}; give each its own path, or none"
        )


def stores_images(path: Path) -> bool:
    """Return whether a file or saved data set has a column of images."""
    if path.suffix.lower() not in ARROW_SUFFIXES and not is_saved_dataset(path):
        return False
    with name_damage(path):
        first = next(read_batches(path), None)
    return first is not None and bool(find_image_columns(first.schema))


def is_saved_dataset(path: Path) -> bool:
    """Return whether a folder is a data set that `save_to_disk` wrote; False for a folder that may
    not be read, which other readers report.
    """
    try:
        return any((path / name).is_file() for name in (SAVED_DATASET, SAVED_SPLITS))
    except PermissionError:
        return False


def find_image_columns(schema: pa.Schema) -> list[str]:
    """Return the columns that hold images of a Hugging Face data set, as objects of `bytes` and `path`."""
    return [field.name for field in schema if _is_stored_image(field.type)]


def _is_stored_image(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and {part.name for part in kind} == IMAGE_FIELDS


def name_stored_image(column: str, row: int, path: str | None) -> str:
    """Return the name of an image that a data set stores: its path, or its column and row from 1."""
    return path or f"{column}-{row + 1}"


def _build_rows_error(path: Path, n_rows: int) -> UserError:
    return UserError(
        f"{path}: too many pairs or rows (got {n_rows}, expected {MAX_ROWS} or fewer); divide it"
    )


def _build_size_error(path: Path) -> UserError:
    return UserError(
        f"{path}: its values are too large (expected {MAX_TABLE_BYTES} bytes or fewer); divide it"
    )
