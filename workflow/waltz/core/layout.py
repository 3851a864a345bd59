"""Layout of a kind of Parquet file: the columns, their types, and the key that identifies a row."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

Row = Mapping[str, Any]
"""A row of a Parquet file as Arrow reads and writes it: value by column, of the types of a layout."""

POSITION = "position"
"""Name of the column of a shard that holds the position of each row in the merged file."""


@dataclass(frozen=True)
class Layout:
    """Layout of one kind of Parquet file.

    Attributes:
        name: Name for error messages.
        schema: Columns in order.
        key: Columns whose values together identify a row.
    """

    name: str
    schema: pa.Schema
    key: tuple[str, ...]

    def with_dataset(self) -> "Layout":
        """Return the layout of a file that holds the rows of several data sets: a column `dataset`
        comes first.
        """
        dataset = pa.field("dataset", pa.string(), nullable=False)
        return Layout(
            self.name, pa.schema([dataset, *self.schema]), ("dataset", *self.key)
        )

    def with_position(self) -> "Layout":
        """Return the layout of a shard: a last column `position` holds lists of int32 that sort as
        the merged rows.
        """
        position = pa.field(POSITION, pa.list_(pa.int32()), nullable=False)
        return Layout(self.name, pa.schema([*self.schema, position]), self.key)
