"""Typed rows of Parquet files: one dataclass a layout, from which its schema, its documentation and
its readers follow.

A layout is declared once, as a frozen dataclass with slots that derives from `Record`:

    @dataclass(frozen=True, slots=True, kw_only=True)
    class AnswerRecord(Record):
        '''One row per answer.

        Attributes:
            item_id: Name of the item.
            score: Score of the answer in percent; None where it could not be read.
        '''

        LAYOUT_NAME: ClassVar = "answers"
        KEY: ClassVar = ("item_id",)

        item_id: str
        score: float | None = None

`get_layout(AnswerRecord)` is its layout, `describe_columns(AnswerRecord)` the texts of its
docstring by column.

| annotation | column |
|---|---|
| `str`, `bool`, `float`, `int` | string, bool, float64, int64, without nulls |
| `Int32` | int32 |
| X or None | the type of X, nulls allowed |
| `Sequence[X]`, `Sequence[X or None]` | list of X, whose elements may be null |
| a dataclass | struct with its fields |
| `Annotated[X, INLINE]` with a dataclass X | the fields of X, each as a column |
| `Annotated[X, STORED_AS_NULLABLE]` | nulls are allowed by the schema of the file, but never occur |

Fields come in the order of the dataclass; the fields of a base class come first.

How a package adopts records: code that goes item by item takes `read_records(path, AnswerRecord)`
and reads attributes; code that aggregates takes `read_frame(path, AnswerRecord)` and works on
columns; what writes a file builds records and calls `write_records`. `group_files.read_run_records`
and `read_run_frames` do the same for the files of model jobs, which hold several data sets. A
record holds data and computes nothing.
"""

import inspect
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import pandas as pd
import pyarrow as pa

from waltz.core.files import parquet
from waltz.core.layout import Layout, Row

INLINE = "inline"
"""Marker of a field whose value is a dataclass: each field of that dataclass is a column of the
file.
"""
STORED_AS_NULLABLE = "stored as nullable"
"""Marker of a field that is never None but whose column allows nulls, as in the files of earlier
versions.
"""
Int32 = Annotated[int, pa.int32()]
"""Annotation of a field that is stored as int32."""

ARROW_TYPES = {str: pa.string(), bool: pa.bool_(), float: pa.float64(), int: pa.int64()}
"""Arrow type of a column for each Python type of a field."""
BATCH = 1_000
"""Number of rows that `read_records` converts at once: few, so that records take little memory next
to the table.
"""
COLUMN_DESCRIPTION = re.compile(
    r"^(?P<name>\w+): (?P<text>.+(?:\n +.+)*)", re.MULTILINE
)
"""Pattern of an entry in the section `Attributes` of a docstring; further lines of an entry are
indented more.
"""


class Record:
    """Base class of the records of a layout.

    Attributes:
        LAYOUT_NAME: Name of the layout for error messages.
        KEY: Columns whose values together identify a row.
    """

    __slots__ = ()
    LAYOUT_NAME: ClassVar[str]
    KEY: ClassVar[tuple[str, ...]]


AnyRecord = TypeVar("AnyRecord", bound=Record)


@dataclass(frozen=True)
class RecordField:
    """Description of how a field of a record is stored.

    Attributes:
        name: Name of the field, and of its column unless it is inlined.
        columns: The column of the field; the columns of an inlined dataclass.
        inlined: The dataclass of an inlined field, whose fields are columns; None for other fields.
        nested: The dataclass of a struct, or of a list of structs; None for other fields.
    """

    name: str
    columns: tuple[pa.Field, ...]
    inlined: type | None = None
    nested: type | None = None


def get_layout(record_type: type[Record]) -> Layout:
    """Return the layout of the files that contain records of a type."""
    schema = pa.schema(_list_columns(record_type))
    return Layout(record_type.LAYOUT_NAME, schema, record_type.KEY)


def _list_columns(record_type: type) -> tuple[pa.Field, ...]:
    """Return the columns that the fields of a dataclass are stored in, in order."""
    columns: list[pa.Field] = []
    for field in _list_fields(record_type):
        columns += field.columns
    return tuple(columns)


def describe_columns(record_type: type) -> dict[str, str]:
    """Return for each column its description on one line, from the docstrings of a record class and
    its base classes.

    Raises:
        ValueError: A column has no description.
    """
    texts: dict[str, str] = {}
    for base in reversed(record_type.__mro__):
        # Base classes come first: a subclass may describe a column again if its meaning changes.
        texts |= _read_attributes(base)

    descriptions: dict[str, str] = {}
    for field in _list_fields(record_type):
        # The columns of an inlined dataclass are described in its docstring.
        if field.inlined is not None:
            descriptions |= describe_columns(field.inlined)
        elif field.name in texts:
            descriptions[field.name] = texts[field.name]
        else:
            raise ValueError(
                f"column without a description: {record_type.__name__}.{field.name}; describe it in the section"
                " Attributes of the docstring"
            )
    return descriptions


def _read_attributes(documented: type) -> dict[str, str]:
    """Return the entries of the section `Attributes` in the docstring of a class: description by
    attribute.
    """
    docstring = inspect.getdoc(documented) or ""
    _, _, section = docstring.partition("Attributes:\n")
    entries = COLUMN_DESCRIPTION.finditer(inspect.cleandoc(section))
    return {entry["name"]: " ".join(entry["text"].split()) for entry in entries}


def build_struct(nested: type) -> pa.DataType:
    """Return the Arrow type of a struct with the fields of a dataclass."""
    return pa.struct(_list_columns(nested))


def read_records(path: str | Path, record_type: type[AnyRecord]) -> Iterator[AnyRecord]:
    """Read and check a file, and yield its rows as records, in order.

    Raises:
        UserError: The file is missing, damaged or of another layout; raised before the first
            record.
    """
    return convert_to_records(parquet.read(path, get_layout(record_type)), record_type)


def convert_to_records(
    table: pa.Table, record_type: type[AnyRecord]
) -> Iterator[AnyRecord]:
    """Yield the rows of a checked table as records."""
    # Rows as dictionaries take seven times the memory of the table: convert a few at a time.
    for batch in table.to_batches(max_chunksize=BATCH):
        for row in batch.to_pylist():
            yield from_row(row, record_type)


def read_frame(path: str | Path, record_type: type[Record]) -> pd.DataFrame:
    """Read and check a file, and return it as a data frame; raises as `read_records`.

    A null becomes NaN in a column of numbers, which becomes float64, and None in other columns.
    """
    return build_frame(parquet.read(path, get_layout(record_type)))


def build_frame(table: pa.Table) -> pd.DataFrame:
    """Return a table as a data frame, with nulls as in `read_frame`."""
    frame: pd.DataFrame = table.to_pandas()
    for column in table.schema:
        # pandas stores a missing text as NaN, which counts as true in `error or reason`.
        if pa.types.is_string(column.type) and table.column(column.name).null_count:
            texts = frame[column.name].astype(object)
            frame[column.name] = texts.where(texts.notna(), None)
    return frame


def write_records(
    path: str | Path,
    records: Iterable[AnyRecord],
    record_type: type[AnyRecord],
    **metadata: str,
) -> tuple[int, int]:
    """Check and write records in batches; returns and raises as `parquet.write_rows`."""
    return parquet.write_rows(
        path, map(to_row, records), get_layout(record_type), metadata=metadata
    )


def to_row(record: object) -> Row:
    """Return a record, or a nested dataclass, as a dictionary from column to value; a dictionary
    stays as it is.
    """
    if isinstance(record, Mapping):
        return dict(record)
    row: dict[str, object] = {}
    for field in _list_fields(type(record)):
        value = getattr(record, field.name)
        if field.inlined is not None:
            row.update(to_row(value))
        elif field.nested is not None:
            row[field.name] = _convert_nested(value, to_row)
        else:
            row[field.name] = value
    return row


def extend_record(
    record: Record, record_type: type[AnyRecord], **values: object
) -> AnyRecord:
    """Return the record of a derived class that has the values of a record, and further values."""
    inherited = {field.name: getattr(record, field.name) for field in fields(record)}  # type: ignore[arg-type]
    return record_type(**inherited, **values)


def _convert_nested(value: Any, convert: Callable[[Any], Any]) -> Any:
    """Convert a dataclass or its dictionary, or each one in a list; return None unchanged."""
    if isinstance(value, Sequence):
        return [convert(element) for element in value]
    if value is None:
        return None
    return convert(value)


NestedRecord = TypeVar("NestedRecord")


def from_row(row: Row, record_type: type[NestedRecord]) -> NestedRecord:
    """Return the record, or nested dataclass, of a dictionary from column to value."""
    # An inlined dataclass takes its columns from the row itself, a struct from a dictionary in its
    # column.
    values: dict[str, object] = {}
    for field in _list_fields(record_type):
        if field.inlined is not None:
            values[field.name] = from_row(row, field.inlined)
        elif field.nested is not None:
            convert = partial(from_row, record_type=field.nested)
            values[field.name] = _convert_nested(row[field.name], convert)
        else:
            values[field.name] = row[field.name]
    return record_type(**values)


def _list_fields(record_type: type) -> tuple[RecordField, ...]:
    """Return for each field of a dataclass, in order, how it is stored."""
    # A dictionary instead of functools.cache, whose arguments type checkers refuse when they are
    # classes.
    if record_type not in _FIELDS:
        hints = get_type_hints(record_type, include_extras=True)
        _FIELDS[record_type] = tuple(
            _build_field(field.name, hints[field.name]) for field in fields(record_type)
        )
    return _FIELDS[record_type]


_FIELDS: dict[type, tuple[RecordField, ...]] = {}
"""Results of `_list_fields` by dataclass, because reading annotations is slow."""


def _build_field(name: str, annotation: Any) -> RecordField:
    """Return how a field with an annotation is stored."""
    annotation, is_optional = _strip_none(annotation)
    inner, markers = _strip_markers(annotation)
    if INLINE in markers:
        # The fields of the dataclass are columns of the file.
        return RecordField(name, _list_columns(inner), inlined=inner)

    element = get_args(inner)[0] if get_origin(inner) is Sequence else inner
    nested = element if _is_dataclass(element) else None
    is_nullable = is_optional or STORED_AS_NULLABLE in markers
    # The markers tell int32 from int64, so the type is read from the whole annotation.
    column = pa.field(name, _get_arrow_type(annotation), nullable=is_nullable)
    return RecordField(name, (column,), nested=nested)


def _strip_none(annotation: Any) -> tuple[Any, bool]:
    """Return `X` and True for `X | None`; return other annotations unchanged with False."""
    is_union = get_origin(annotation) in (Union, types.UnionType)
    if not is_union:
        return annotation, False
    # `X | None` has one member besides None; a column cannot have several types.
    members = [
        member for member in get_args(annotation) if member is not types.NoneType
    ]
    if len(members) != 1:
        raise TypeError(
            f"column of several types: {annotation}; name one type, or one type and None"
        )
    return members[0], True


def _strip_markers(annotation: Any) -> tuple[Any, Sequence[Any]]:
    """Return `X` and the markers of `Annotated[X, ...]`; return other annotations unchanged without
    markers.
    """
    if get_origin(annotation) is not Annotated:
        return annotation, ()
    inner, *markers = get_args(annotation)
    return inner, markers


def _is_dataclass(annotation: Any) -> bool:
    """Return whether an annotation is a dataclass itself, not an instance of one."""
    return isinstance(annotation, type) and is_dataclass(annotation)


def _get_arrow_type(annotation: Any) -> pa.DataType:
    """Return the Arrow type of an annotation without None."""
    inner, markers = _strip_markers(annotation)
    for marker in markers:
        if isinstance(marker, pa.DataType):
            return marker  # such as int32
    # Lists and structs are built from the types of their elements and fields.
    if get_origin(inner) is Sequence:
        # Parquet allows nulls in every list.
        element, _ = _strip_none(get_args(inner)[0])
        return pa.list_(_get_arrow_type(element))
    if _is_dataclass(inner):
        return build_struct(inner)
    if inner in ARROW_TYPES:
        return ARROW_TYPES[inner]
    raise TypeError(
        f"annotation without an Arrow type: {inner}; the docstring of core/records.py lists those"
    )
