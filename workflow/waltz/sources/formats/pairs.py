"""Pairs of caption and foil as items of a benchmark: the released VALSE benchmark, or a user's file
of pairs.
"""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from waltz.core.errors import UserError, get_first_line
from waltz.core.files.json_objects import JsonObject
from waltz.core.schema import ItemRecord, StoredSpan
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


def read_release(
    path: str | Path, instrument: str, valid_votes: int
) -> list[ItemRecord]:
    """Return the items of one file of the release, a JSON object of id to item.

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
    items = []
    for item_id, fields in read_object_entries(path, ""):
        entry = RawEntry(fields, f"{path}: id {item_id!r}")
        _check_texts({item_id: fields}, entry.location)
        items.append(_build_released_item(item_id, entry, instrument, valid_votes))
    return items


def _check_texts(record: object, location: str) -> None:
    """Raise an error for an item with a text that cannot be stored, since no item of a benchmark is
    skipped.
    """
    if fault := find_half_pair(record):
        raise UserError(f"{location}: {fault}; write the character that is meant")


def _build_released_item(
    item_id: str, entry: RawEntry, instrument: str, valid_votes: int
) -> ItemRecord:
    dataset = entry.read("dataset", str)
    if dataset not in SOURCES:
        raise UserError(
            f"{entry.location}: field 'dataset' is {dataset!r}, which is none of {', '.join(SOURCES)}"
        )
    caption = entry.read("caption", str)
    foil = entry.read("foil", str)
    # The release has no spans: they are the parts in which the texts differ.
    caption_phrases, foil_phrases = _read_phrases(instrument, entry)
    caption_span, foil_span = find_changed_spans(caption, foil)
    method = entry.read_optional("foil_method", str)
    method = method or entry.read_optional("provenance_of_foils", str) or ""
    source_id = None
    if entry.fields.get("dataset_idx") is not None:
        source_id = entry.read_identifier("dataset_idx")

    votes = RawEntry(entry.read("mturk", dict), f"{entry.location}: mturk")
    votes_caption = _read_vote_count(votes, "caption")
    valid = None
    if votes_caption is not None:
        valid = votes_caption >= valid_votes
    nli = entry.read_optional_object("nli_scores")
    nli = nli.at(f"{entry.location}: nli_scores")
    return ItemRecord(
        item_id=item_id,
        instrument=instrument,
        piece=INSTRUMENTS[instrument].piece,
        source=SOURCES[dataset],
        source_id=source_id,
        split=entry.read_optional("original_split", str),
        image=entry.read("image_file", str),
        caption=caption,
        foil=foil,
        caption_span=StoredSpan(**caption_span),
        foil_span=StoredSpan(**foil_span),
        caption_phrases=caption_phrases,
        foil_phrases=foil_phrases,
        direction=DIRECTIONS.get(method),
        grammaticality=_read_score(entry, "grammaticality_scores"),
        nli_entailment=_read_score(nli, "entail"),
        nli_neutral=_read_score(nli, "neutral"),
        nli_contradiction=_read_score(nli, "contradict"),
        kept=True,
        votes_caption=votes_caption,
        votes_foil=_read_vote_count(votes, "foil"),
        votes_other=_read_vote_count(votes, "other"),
        valid=valid,
        release=json.dumps(entry.fields, ensure_ascii=False),
    )


def _read_vote_count(votes: RawEntry, kind: str) -> int | None:
    """Return the votes of a kind; None where nobody voted, which only exports of waltz contain, not
    the release.
    """
    votes.read(kind, object)  # a missing count is an error, a null is not
    return votes.read_optional_int32(kind)


def _read_score(entry: RawEntry, name: str) -> float | None:
    """Return the first score of a list; None where there is no list, or it is empty."""
    scores = entry.read_optional_numbers(name)
    return scores[0] if scores else None


def _read_phrases(instrument: str, entry: RawEntry) -> tuple[list[str], list[str]]:
    """Return the lexical items of caption and foil; in an actant swap both texts contain both
    fillers.
    """
    caption = _read_phrase_field(entry, "classes")
    foil = _read_phrase_field(entry, "classes_foil")
    if instrument == "actant-swap":
        return caption + foil, caption + foil
    return caption, foil


def _read_phrase_field(entry: RawEntry, name: str) -> list[str]:
    """Return the phrases of a field that is a text, a number, false, or a list of these."""
    value = entry.read(name, object)
    values = value if isinstance(value, list) else [value]
    phrases = []
    for phrase in values:
        if not isinstance(phrase, str | int):
            raise UserError(
                f"{entry.location}: field {name!r} is {describe_type(phrase)}; write a text or a number"
            )
        phrases.append(phrase if isinstance(phrase, str) else json.dumps(phrase))
    return phrases


REQUIRED = ("image", "caption", "foil")
OPTIONAL = ("id", "phenomenon")
SUFFIXES = (".json", ".csv", ".parquet")
MAX_PAIRS = 1_000_000
"""Pairs of one Parquet file; run lengths state millions of rows in a few bytes."""
MAX_TABLE_BYTES = 4 * 1024**3
"""Size limit of the values of one Parquet file, unpacked."""
BATCH_ROWS = 256
"""Rows that are unpacked at once."""


def read_pairs(path: str | Path, dataset: str, source: str) -> list[ItemRecord]:
    """Return the items of a user's file, without votes.

    A caption that is the same text as its foil gives an item that is not kept, with the reason in
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
    items = []
    for position, record in enumerate(records, 1):
        location = f"{path}: item {position}"
        fault = _find_fault(record)
        if fault is not None:
            raise UserError(f"{location}: {fault}")
        _check_texts(record, location)
        item_id = str(record.get("id", position))
        if item_id in seen_ids:
            raise UserError(f"{location}: duplicate id {item_id!r}")
        seen_ids.add(item_id)
        items.append(_build_item(record, item_id, dataset, source))
    if not any(item.kept for item in items):
        raise UserError(
            f"{path}: none of {len(items)} items can be used: {SAME_TEXT}; write another foil"
        )
    return items


def _find_fault(record: JsonObject) -> str | None:
    """Return why a record is not a pair: a field is missing, or is not a text with content."""
    optional = [name for name in OPTIONAL if name in record]
    for name in (*REQUIRED, *optional):
        if name not in record:
            return f"{name!r} is missing (got {', '.join(map(str, record))})"
        value = record[name]
        is_number = name == "id" and isinstance(value, int)
        is_text = isinstance(value, str) and fold_text(value)
        if not is_text and not is_number:
            shown = repr(value)
            if isinstance(value, dict | list):
                shown = describe_type(value)
            return f"{name!r} is not a text with content (got {shown}); write one"
    return None


def _dump_record(record: JsonObject) -> str:
    """Return a record as JSON, with null in place of NaN and infinities, which JSON lacks."""
    text = json.dumps(record, default=str)
    finite = json.loads(text, parse_constant=lambda _: None)
    return json.dumps(finite, ensure_ascii=False)


def _read_parquet_records(path: Path) -> list[JsonObject]:
    """Return the rows of a Parquet file, up to limits, because a small file may declare very many
    rows.
    """
    records: list[JsonObject] = []
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


def _build_item(
    record: JsonObject, item_id: str, dataset: str, source: str
) -> ItemRecord:
    caption, foil = record["caption"], record["foil"]
    caption_span, foil_span = find_changed_spans(caption, foil)
    rejected = SAME_TEXT if are_same_text(caption, foil) else None
    return ItemRecord(
        item_id=item_id,
        instrument=dataset,
        piece=record.get("phenomenon", dataset),
        source=source,
        source_id=item_id,
        image=record["image"],
        caption=caption,
        foil=foil,
        caption_span=StoredSpan(**caption_span),
        foil_span=StoredSpan(**foil_span),
        caption_phrases=[slice_span(caption, caption_span)],
        foil_phrases=[slice_span(foil, foil_span)],
        kept=rejected is None,
        rejected=rejected,
        release=_dump_record(record),
    )


def _read_records(path: Path) -> list[JsonObject]:
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
