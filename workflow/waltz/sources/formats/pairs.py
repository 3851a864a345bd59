"""Pairs of caption and foil in the benchmark layout: the released VALSE benchmark, or a user's file
of pairs.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from waltz.core.errors import UserError, get_first_line
from waltz.core.text_diff import (
    SAME_TEXT,
    are_same_text,
    find_changed_spans,
    fold_text,
    slice_span,
)
from waltz.instruments import INSTRUMENTS
from waltz.sources.raw_entry import RawEntry, describe_type
from waltz.sources.raw_files import (
    find_half_pair,
    read_csv_records,
    read_list_entries,
    read_object_entries,
    read_root_type,
)
from waltz.valse_release import RELEASE

SOURCES = {
    "visual7w": "visual7w",
    "coco2017": "coco2017",
    "coco_2017": "coco2017",
    "SWiG": "swig",
    "VisDial_v1.0": "visdial",
    "FOIL dataset": "foil-it",
}
"""Name of each source in waltz, by the spellings of the release."""

DIRECTIONS = {
    "checklist method, change NP to PL": "sg2pl",
    "checklist method, change NP to SG": "pl2sg",
    "zero_to_something": "zero-to-something",
    "something_to_zero": "something-to-zero",
}
"""Direction of a foil, by the method that the release names."""

VOTE_KINDS = ("caption", "foil", "other")


def read_release(
    path: str | Path, instrument: str, valid_votes: int
) -> list[dict[str, Any]]:
    """Return the items of one file of the release, a JSON object of id to item, as rows of the
    benchmark layout.

    The file decides the instrument, because `linguistic_phenomena` names only the piece; ids repeat
    across files, and `dataset` has two spellings. `release` holds the whole upstream record as
    JSON.

    Args:
        valid_votes: Number of votes for the caption, of 3, that makes an item valid.
    """
    if instrument not in RELEASE:
        raise UserError(
            f"{path}: unknown instrument {instrument!r}; the release has {', '.join(RELEASE)}"
        )
    rows = []
    for item_id, fields in read_object_entries(path, ""):
        item = RawEntry(fields, f"{path}: id {item_id!r}")
        _check_texts({item_id: fields}, item.location)
        rows.append(
            {"item_id": item_id, **_build_released_row(item, instrument, valid_votes)}
        )
    return rows


def _check_texts(record: Any, location: str) -> None:
    """Raise an error for an item with a text that cannot be stored, since no item of a benchmark is
    skipped.
    """
    if fault := find_half_pair(record):
        raise UserError(f"{location}: {fault}; write the character that is meant")


def _build_released_row(
    item: RawEntry, instrument: str, valid_votes: int
) -> dict[str, Any]:
    dataset = item.read("dataset", str)
    if dataset not in SOURCES:
        raise UserError(
            f"{item.location}: field 'dataset' is {dataset!r}, which is none of {', '.join(SOURCES)}"
        )
    caption = item.read("caption", str)
    foil = item.read("foil", str)
    # The release has no spans: they are the parts in which the texts differ.
    caption_phrases, foil_phrases = _read_phrases(instrument, item)
    caption_span, foil_span = find_changed_spans(caption, foil)
    votes = RawEntry(item.read("mturk", dict), f"{item.location}: mturk")
    counts = {f"votes_{kind}": _read_vote_count(votes, kind) for kind in VOTE_KINDS}
    nli = item.read_optional_object("nli_scores").fields
    return {
        "instrument": instrument,
        "piece": INSTRUMENTS[instrument].piece,
        "source": SOURCES[dataset],
        "source_id": None
        if "dataset_idx" not in item.fields
        else str(item.fields["dataset_idx"]),
        "split": item.fields.get("original_split"),
        "image": item.read("image_file", str),
        "caption": caption,
        "foil": foil,
        "caption_span": caption_span,
        "foil_span": foil_span,
        "caption_phrases": caption_phrases,
        "foil_phrases": foil_phrases,
        "direction": DIRECTIONS.get(
            item.fields.get("foil_method")
            or item.fields.get("provenance_of_foils")
            or ""
        ),
        "grammaticality": _get_first(item.fields.get("grammaticality_scores")),
        "nli_entailment": _get_first(nli.get("entail")),
        "nli_neutral": _get_first(nli.get("neutral")),
        "nli_contradiction": _get_first(nli.get("contradict")),
        "kept": True,
        **counts,
        "valid": None
        if counts["votes_caption"] is None
        else counts["votes_caption"] >= valid_votes,
        "release": json.dumps(item.fields, ensure_ascii=False),
    }


def _read_vote_count(votes: RawEntry, kind: str) -> int | None:
    """Return the votes of a kind; None where nobody voted, which only exports of waltz contain, not
    the release.
    """
    if kind in votes.fields and votes.fields[kind] is None:
        return None
    return votes.read(kind, int)


def _read_phrases(instrument: str, item: RawEntry) -> tuple[list[str], list[str]]:
    """Return the lexical items of caption and foil; in an actant swap both texts contain both
    fillers.
    """
    caption = _read_phrase_field(item, "classes")
    foil = _read_phrase_field(item, "classes_foil")
    if instrument == "actant-swap":
        return caption + foil, caption + foil
    return caption, foil


def _read_phrase_field(item: RawEntry, name: str) -> list[str]:
    """Return the phrases of a field that is a text, a number, false, or a list of these."""
    value = item.read(name, object)
    entries = value if isinstance(value, list) else [value]
    phrases = []
    for entry in entries:
        if not isinstance(entry, str | int):
            raise UserError(
                f"{item.location}: field {name!r} is {describe_type(entry)}; write a text or a number"
            )
        phrases.append(entry if isinstance(entry, str) else json.dumps(entry))
    return phrases


def _get_first(values: list[float] | None) -> float | None:
    return float(values[0]) if values else None


REQUIRED = ("image", "caption", "foil")
OPTIONAL = ("id", "phenomenon")
SUFFIXES = (".json", ".csv", ".parquet")
MAX_PAIRS = 1_000_000
"""Pairs of one Parquet file; run lengths state millions of rows in a few bytes."""
MAX_TABLE_BYTES = 4 * 1024**3
"""Size limit of the values of one Parquet file, unpacked."""
BATCH_ROWS = 256
"""Rows that are unpacked at once."""


def read_pairs(path: str | Path, dataset: str, source: str) -> list[dict[str, Any]]:
    """Return the items of a user's file as rows of the benchmark layout, without votes.

    A caption that is the same text as its foil gives a row that is not kept, with the reason in
    `rejected`.

    An `id` column is used unchanged; without one the item id is the position in the file, starting
    with `1`. A `phenomenon` becomes the piece; without one the piece is the data set.

    Args:
        path: A JSON list of objects (or object of id to object), a CSV file with a header, or
            Parquet.
    """
    path = Path(path)
    records = _read_records(path)
    if not records:
        raise UserError(f"{path}: no pairs in the file")
    seen_ids: set[str] = set()
    rows = []
    for position, record in enumerate(records, 1):
        # Required fields, and optional fields that are there, must be texts with content.
        for name in (*REQUIRED, *(name for name in OPTIONAL if name in record)):
            if name not in record:
                raise UserError(
                    f"{path}: item {position}: {name!r} is missing (got {', '.join(map(str, record))})"
                )
            value = record[name]
            if name == "id" and isinstance(value, int):
                continue
            if not isinstance(value, str) or not fold_text(value):
                shown = (
                    describe_type(value)
                    if isinstance(value, dict | list)
                    else repr(value)
                )
                raise UserError(
                    f"{path}: item {position}: {name!r} is no text (got {shown}); write one"
                )
        _check_texts(record, f"{path}: item {position}")
        item_id = str(record.get("id", position))
        if item_id in seen_ids:
            raise UserError(f"{path}: item {position}: duplicate id {item_id!r}")
        seen_ids.add(item_id)
        rows.append(_build_pair_row(record, item_id, dataset, source))
    if not any(row["kept"] for row in rows):
        raise UserError(
            f"{path}: none of {len(rows)} items can be used: {SAME_TEXT}; write another foil"
        )
    return rows


def _dump_record(record: Mapping[str, object]) -> str:
    """Return a record as JSON, with null in place of NaN and infinities, which JSON lacks."""
    text = json.dumps(record, default=str)
    finite = json.loads(text, parse_constant=lambda _: None)
    return json.dumps(finite, ensure_ascii=False)


def _read_parquet_records(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a Parquet file, up to limits, because a small file may declare very many
    rows.
    """
    records: list[dict[str, Any]] = []
    size = 0
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            if file.metadata.num_rows > MAX_PAIRS:
                raise UserError(
                    f"{path}: too many pairs (got {file.metadata.num_rows}, expected {MAX_PAIRS} or fewer); divide it"
                )
            # A few rows at a time, so that the limit holds before all values are in memory.
            for batch in file.iter_batches(BATCH_ROWS):
                size += batch.nbytes
                if size > MAX_TABLE_BYTES:
                    raise UserError(
                        f"{path}: its values are too large (expected {MAX_TABLE_BYTES} bytes or fewer); divide it"
                    )
                records += batch.to_pylist()
    except (
        OSError,
        pa.ArrowException,
        ValueError,
        OverflowError,
        LookupError,
    ) as error:
        raise UserError(
            f"{path}: cannot be read: {get_first_line(error)}; correct the file"
        ) from None
    return records


def _build_pair_row(
    record: Mapping[str, Any], item_id: str, dataset: str, source: str
) -> dict[str, Any]:
    caption, foil = record["caption"], record["foil"]
    caption_span, foil_span = find_changed_spans(caption, foil)
    rejected = SAME_TEXT if are_same_text(caption, foil) else None
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
        "kept": rejected is None,
        "rejected": rejected,
        "release": _dump_record(record),
    }


def _read_records(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of pairs; all values of a CSV file are texts."""
    if path.suffix not in SUFFIXES:
        raise UserError(
            f"{path}: its name ends in {path.suffix or 'nothing'}; pairs are read from {', '.join(SUFFIXES)}"
        )
    if path.suffix == ".csv":
        return [dict(record) for _, record in read_csv_records(path, required=REQUIRED)]
    if path.suffix == ".parquet":
        return _read_parquet_records(path)
    if read_root_type(path) == "an object":
        return [
            {"id": name, **record} for name, record in read_object_entries(path, "")
        ]
    return list(read_list_entries(path, "", dict))
