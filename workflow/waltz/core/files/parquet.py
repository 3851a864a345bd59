"""Parquet files that are written atomically, with checksums, and checked against their layout."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from waltz.core.errors import UserError, get_first_line
from waltz.core.files.atomic import replace_file
from waltz.core.layout import Layout, Row

STORAGE = {"compression": "zstd", "write_page_checksum": True}
"""Options of `pyarrow` for writing; checksums turn a changed bit into an error instead of a wrong
value.
"""


def read(path: str | Path, layout: Layout, filters: Any = None) -> pa.Table:
    """Read and check a table.

    Args:
        path: Parquet file.
        layout: Layout of the table.
        filters: Conditions on rows, as in `read_table`.
    Raises:
        UserError: The file is missing, truncated, or of another layout.
    """
    # Columns of the expected names are cast to the types of the layout; `check` refuses other
    # columns.
    table = read_table(path, filters=filters)
    if table.schema.names == layout.schema.names:
        table = table.cast(layout.schema)
    try:
        check(table, layout)
    except ValueError as error:
        raise UserError(f"{path}: {error}; delete it and run again") from None
    return table


def read_table(
    path: str | Path, columns: Sequence[str] | None = None, filters: Any = None
) -> pa.Table:
    """Read a table of any layout, and verify the checksums of its pages.

    Args:
        path: Parquet file.
        columns: Columns to read; all where absent.
        filters: Conditions on rows, as `pyarrow.parquet.read_table` takes them.
    Raises:
        UserError: The file is missing, truncated or damaged.
    """
    with _name_damage(path):
        return pq.read_table(
            path,
            columns=None if columns is None else list(columns),
            filters=filters,
            partitioning=None,
            page_checksum_verification=True,
        )


def read_schema(path: str | Path) -> pa.Schema:
    """Read the schema of a table; raises as `read_table`."""
    with _name_damage(path):
        return pq.read_schema(path)


@contextmanager
def _name_damage(path: str | Path) -> Iterator[None]:
    """Turn errors of reading a file into a UserError that names the file and what to do."""
    if Path(path).is_dir():  # pyarrow would read all files of the folder
        raise UserError(
            f"{path}: is a folder, not a Parquet file; delete it and run again"
        )
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; run the workflow to make it") from None
    except (pa.ArrowException, OSError) as error:
        # An error of the operating system has a number; the file itself may be undamaged.
        if isinstance(error, OSError) and error.errno:
            fault = os.strerror(error.errno)
            raise UserError(
                f"{path}: cannot be read: {fault}; check its permissions and disk, and run again"
            ) from None
        raise UserError(
            f"{path}: damaged Parquet file ({get_first_line(error)}); delete it and run again"
        ) from None


def read_rows(path: str | Path, layout: Layout) -> list[dict[str, Any]]:
    """Return the checked rows of a file; raises as `read`."""
    rows: list[dict[str, Any]] = read(path, layout).to_pylist()
    return rows


def read_metadata(path: str | Path) -> dict[str, str]:
    """Return the metadata that `write` or `write_rows` stored in a file."""
    metadata = read_schema(path).metadata or {}
    return {
        key.decode(errors="backslashreplace"): value.decode(errors="backslashreplace")
        for key, value in metadata.items()
        if not key.startswith(b"ARROW:")
    }


def write(path: str | Path, table: pa.Table, layout: Layout, **metadata: str) -> None:
    """Check and write a table.

    Raises:
        ValueError: The table breaks its layout; nothing is written.
    """
    check(table, layout)
    with replace_file(path) as temporary:
        pq.write_table(
            table.select(layout.schema.names).replace_schema_metadata(metadata or None),
            temporary,
            **STORAGE,
        )


def write_rows(
    path: str | Path,
    rows: Iterable[Row],
    layout: Layout,
    batch: int = 10_000,
    metadata: Mapping[str, str] | None = None,
) -> tuple[int, int]:
    """Check and write rows in batches, so that only one batch and the keys are in memory.

    Args:
        path: Parquet file.
        rows: Rows of the layout.
        layout: Layout of the rows.
        batch: Rows per batch.
        metadata: Texts that `read_metadata` returns.
    Returns:
        Number of all written rows, and number of written rows with a reason in the column
        `rejected`.
    Raises:
        ValueError: The rows break their layout; nothing is written.
    """
    total = rejected = 0
    # Arrow stores metadata in the schema, and all batches must have the same schema.
    stored_schema = layout.schema.with_metadata(metadata)
    with replace_file(path) as temporary:
        with pq.ParquetWriter(temporary, stored_schema, **STORAGE) as writer:
            for part in _split_into_batches(rows, batch):
                table = _build_unchecked_table(part, layout)
                _check_columns(table, layout, offset=total)
                writer.write_table(table.replace_schema_metadata(metadata))
                total += table.num_rows
                rejected += sum(row.get("rejected") is not None for row in part)
        # Keys are compared over all batches, so they are read back from what was written.
        _check_keys(read_table(temporary, layout.key), layout)
    return total, rejected


def _split_into_batches(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    """Yield lists of `size` rows; the last one may be shorter."""
    iterator = iter(rows)
    while batch := list(islice(iterator, size)):
        yield batch


def build_table(rows: Iterable[Row], layout: Layout, batch: int = 10_000) -> pa.Table:
    """Build a checked table from rows, of which only one batch at a time is in memory.

    Raises:
        ValueError: A row has an undeclared key, or the table breaks its layout.
    """
    tables = [layout.schema.empty_table()]
    for part in _split_into_batches(rows, batch):
        tables.append(_build_unchecked_table(part, layout))
    # In one piece, so that the written file does not depend on the batches.
    table = pa.concat_tables(tables).combine_chunks()
    check(table, layout)
    return table


def check(table: pa.Table, layout: Layout) -> None:
    """Raise a ValueError that names column and row if a table breaks its layout."""
    _check_columns(table, layout)
    _check_keys(table, layout)


def _build_unchecked_table(rows: Sequence[Row], layout: Layout) -> pa.Table:
    """Return the table of rows, which need not satisfy the layout except for the names of columns."""
    # Arrow would drop a misspelled key silently.
    unknown = set().union(*rows) - set(layout.schema.names)
    if unknown:
        raise ValueError(f"{layout.name}: undeclared columns {sorted(unknown)}")
    return pa.Table.from_pylist(rows, schema=layout.schema)


def _check_columns(table: pa.Table, layout: Layout, offset: int = 0) -> None:
    """Refuse a table with missing, undeclared or wrongly typed columns, or with nulls that the
    layout forbids.

    Args:
        table: The table.
        layout: Its layout.
        offset: Row of the file at which the table begins, for the error.
    """
    # Columns are compared one by one, so that the error can name column and row.
    for field in layout.schema:
        if field.name not in table.schema.names:
            raise ValueError(f"{layout.name}: column {field.name!r} is missing")
        column = table.column(field.name)
        if column.type != field.type:
            raise ValueError(
                f"{layout.name}: column {field.name!r} is {column.type}, not {field.type}"
            )
        has_forbidden_null = column.null_count > 0 and not field.nullable
        if has_forbidden_null:
            row = pc.index(pc.is_null(column), True).as_py()
            raise ValueError(
                f"{layout.name}: column {field.name!r} is null in row {offset + row}"
            )
    extra = sorted(set(table.schema.names) - set(layout.schema.names))
    if extra:
        raise ValueError(f"{layout.name}: undeclared columns {extra}")


def _check_keys(table: pa.Table, layout: Layout) -> None:
    """Refuse a table in which two rows have the same key."""
    # Number of rows of each key; pyarrow counts rows where no column is named.
    keys = (
        table.select(list(layout.key))
        .group_by(list(layout.key))
        .aggregate([([], "count_all")])
    )
    repeated = keys.filter(pc.greater(keys.column("count_all"), 1))
    if repeated.num_rows:
        first = {name: repeated.column(name)[0].as_py() for name in layout.key}
        raise ValueError(
            f"{layout.name}: {first} occurs in {repeated.column('count_all')[0]} rows"
        )
