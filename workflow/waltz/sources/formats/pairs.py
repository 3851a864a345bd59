"""Pairs of caption and foil in the benchmark layout: the released VALSE benchmark, or a user's file of pairs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from waltz.core.errors import UserError, get_first_line
from waltz.core.text_diff import find_changed_spans, slice_span
from waltz.instruments import INSTRUMENTS
from waltz.sources.raw_files import (
    describe_type,
    find_half_pair,
    read_csv_records,
    read_field,
    read_list_entries,
    read_object_entries,
    read_optional_field,
    read_root_type,
)

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


def read_release(path: str | Path, instrument: str, valid_votes: int) -> list[dict[str, Any]]:
    """Return the items of one file of the release, a JSON object of id to item, as rows of the benchmark layout.

    The file decides the instrument, because `linguistic_phenomena` names only the piece; ids repeat across files, and
    `dataset` has two spellings. `release` holds the whole upstream record as JSON.

    Args:
        valid_votes: Votes for the caption, of 3, that make an item valid.
    """
    if instrument not in INSTRUMENTS:
        raise UserError(f"{path}: unknown instrument {instrument!r}; the release has {', '.join(INSTRUMENTS)}")
    rows = []
    for item_id, item in read_object_entries(path, ""):
        where = f"{path}: id {item_id!r}"
        _check_texts({item_id: item}, where)
        rows.append({"item_id": item_id, **_build_released_row(item, instrument, valid_votes, where)})
    return rows


def _check_texts(record: Any, where: str) -> None:
    """Refuse an item with a text that cannot be stored: a benchmark's items are all used."""
    if fault := find_half_pair(record):
        raise UserError(f"{where}: {fault}; write the character that is meant")


def _build_released_row(item: Mapping[str, Any], instrument: str, valid_votes: int, where: str) -> dict[str, Any]:
    dataset = read_field(item, "dataset", str, where)
    if dataset not in SOURCES:
        raise UserError(f"{where}: field 'dataset' is {dataset!r}, which is none of {', '.join(SOURCES)}")
    caption, foil = read_field(item, "caption", str, where), read_field(item, "foil", str, where)
    caption_phrases, foil_phrases = _read_phrases(instrument, item, where)
    caption_span, foil_span = find_changed_spans(caption, foil)
    votes = read_field(item, "mturk", dict, where)
    counts = {f"votes_{side}": _read_vote_count(votes, side, f"{where}: mturk") for side in VOTE_KINDS}
    nli = read_optional_field(item, "nli_scores", dict, where) or {}
    return {
        "instrument": instrument,
        "piece": INSTRUMENTS[instrument].piece,
        "source": SOURCES[dataset],
        "source_id": None if "dataset_idx" not in item else str(item["dataset_idx"]),
        "split": item.get("original_split"),
        "image": read_field(item, "image_file", str, where),
        "caption": caption,
        "foil": foil,
        "caption_span": caption_span,
        "foil_span": foil_span,
        "caption_phrases": caption_phrases,
        "foil_phrases": foil_phrases,
        "direction": DIRECTIONS.get(item.get("foil_method") or item.get("provenance_of_foils") or ""),
        "grammaticality": _get_first(item.get("grammaticality_scores")),
        "nli_entailment": _get_first(nli.get("entail")),
        "nli_neutral": _get_first(nli.get("neutral")),
        "nli_contradiction": _get_first(nli.get("contradict")),
        "kept": True,
        **counts,
        "valid": None if counts["votes_caption"] is None else counts["votes_caption"] >= valid_votes,
        "release": json.dumps(item, ensure_ascii=False),
    }


def _read_vote_count(votes: Mapping[str, Any], side: str, where: str) -> int | None:
    """Return the votes for a side; None where nobody voted, which only exports of waltz contain, not the release."""
    return None if side in votes and votes[side] is None else read_field(votes, side, int, where)


def _read_phrases(instrument: str, item: Mapping[str, Any], where: str) -> tuple[list[str], list[str]]:
    """Return the lexical items of caption and foil; in an actant swap both texts contain both fillers."""
    caption, foil = _read_phrase_field(item, "classes", where), _read_phrase_field(item, "classes_foil", where)
    return (caption + foil, caption + foil) if instrument == "actant-swap" else (caption, foil)


def _read_phrase_field(item: Mapping[str, Any], name: str, where: str) -> list[str]:
    """Return the phrases of a field that is a text, a number, false, or a list of these."""
    value = item.get(name)
    values = value if isinstance(value, list) else [value]
    for entry in values:
        if not isinstance(entry, str | int):
            raise UserError(f"{where}: field {name!r} is {'missing' if name not in item else describe_type(entry)}")
    return [entry if isinstance(entry, str) else json.dumps(entry) for entry in values]


def _get_first(values: list[float] | None) -> float | None:
    return float(values[0]) if values else None


REQUIRED = ("image", "caption", "foil")
OPTIONAL = ("id", "phenomenon")
SUFFIXES = (".json", ".csv", ".parquet")


def read_pairs(path: str | Path, dataset: str, source: str) -> list[dict[str, Any]]:
    """Return the items of a user's file as rows of the benchmark layout, without votes.

    An `id` column is used unchanged; without one the item id is the position in the file, starting with `1`.
    A `phenomenon` becomes the piece; without one the piece is the data set.

    Args:
        path: A JSON list of objects (or object of id to object), a CSV file with a header, or Parquet.
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
                given = describe_type(value) if isinstance(value, dict | list) else repr(value)
                raise UserError(f"{path}: item {position}: {name!r} is no text (got {given}); write one")
        _check_texts(record, f"{path}: item {position}")
        item_id = str(record.get("id", position))
        if item_id in seen_ids:
            raise UserError(f"{path}: item {position}: duplicate id {item_id!r}")
        seen_ids.add(item_id)
        rows.append(_build_pair_row(record, item_id, dataset, source))
    return rows


def _build_pair_row(record: Mapping[str, Any], item_id: str, dataset: str, source: str) -> dict[str, Any]:
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
            return list(pq.read_table(path, partitioning=None, page_checksum_verification=True).to_pylist())
        except (OSError, pa.ArrowInvalid, UnicodeDecodeError) as error:
            raise UserError(f"{path}: cannot be read: {get_first_line(error)}") from None
    if read_root_type(path) == "an object":
        return [{"id": name, **record} for name, record in read_object_entries(path, "")]
    return list(read_list_entries(path, "", dict))
