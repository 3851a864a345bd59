"""Pairs of a user: a JSON, CSV or Parquet file of image, caption, foil and, optionally, phenomenon."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from waltz.core.errors import UserError
from waltz.core.text_diff import find_changed_spans, slice_span
from waltz.sources.raw_files import read_csv_records, read_list_entries, read_object_entries, read_root_type

REQUIRED = ("image", "caption", "foil")
OPTIONAL = ("id", "phenomenon")
SUFFIXES = (".json", ".csv", ".parquet")


def read_pairs(path: str | Path, dataset: str, source: str) -> list[dict[str, Any]]:
    """Return the items of a user's file.

    An `id` column is used unchanged; without one the item id is the position in the file, starting with `1`.
    A `phenomenon` becomes the piece; without one the piece is the data set.

    Args:
        path: A JSON list of objects (or object of id to object), a CSV file with a header, or Parquet.
        dataset: Name of the data set.
        source: Name of the source.
    Returns:
        Rows of the benchmark layout, without votes.
    Raises:
        UserError: The file cannot be read, lacks a column, has an empty or mistyped cell, a repeated id, or no rows.
    """
    path = Path(path)
    records = _read_records(path)
    if not records:
        raise UserError(f"{path}: no pairs in the file")
    seen_ids: set[str] = set()
    rows = []
    for position, record in enumerate(records, 1):
        for name in (*REQUIRED, *(name for name in OPTIONAL if name in record)):
            if name not in record:
                raise UserError(f"{path}: item {position}: {name!r} is missing (got {', '.join(map(str, record))})")
            value = record[name]
            if name == "id" and isinstance(value, int):
                continue
            if not isinstance(value, str) or not value.strip():
                raise UserError(f"{path}: item {position}: {name!r} is {value!r}, not a text")
        item_id = str(record.get("id", position))
        if item_id in seen_ids:
            raise UserError(f"{path}: item {position}: duplicate id {item_id!r}")
        seen_ids.add(item_id)
        rows.append(_build_row(record, item_id, dataset, source))
    return rows


def _build_row(record: Mapping[str, Any], item_id: str, dataset: str, source: str) -> dict[str, Any]:
    caption, foil = record["caption"], record["foil"]
    caption_span, foil_span = find_changed_spans(caption, foil)
    return {
        "item_id": item_id,
        "instrument": dataset,
        "piece": record.get("phenomenon", dataset),
        "source": source,
        "source_id": item_id,
        "image": record["image"],
        "caption": caption,
        "foil": foil,
        "caption_span": caption_span,
        "foil_span": foil_span,
        "caption_phrases": [slice_span(caption, caption_span)],
        "foil_phrases": [slice_span(foil, foil_span)],
        "kept": True,
        "release": json.dumps(dict(record), ensure_ascii=False, default=str),
    }


def _read_records(path: Path) -> list[dict[str, Any]]:
    """Return the file's rows; every value of a CSV file is a text."""
    if path.suffix not in SUFFIXES:
        raise UserError(
            f"{path}: its name ends in {path.suffix or 'nothing'}; pairs are read from {', '.join(SUFFIXES)}"
        )
    if path.suffix == ".csv":
        return [dict(record) for _, record in read_csv_records(path, required=REQUIRED)]
    if path.suffix == ".parquet":
        try:
            return list(pq.read_table(path, partitioning=None).to_pylist())
        except (OSError, pa.ArrowInvalid) as error:
            raise UserError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from None
    if read_root_type(path) == "an object":
        return [{"id": name, **record} for name, record in read_object_entries(path, "")]
    return list(read_list_entries(path, "", dict))
