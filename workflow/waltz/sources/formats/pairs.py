"""Pairs of caption and foil as items of a benchmark: the released VALSE benchmark, or a user's file
of pairs.
"""

import functools
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from waltz.core.errors import UserError, list_names, shorten_value
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
from waltz.sources.pair_layouts import (
    FoundPair,
    choose_layout,
    find_pairs,
    is_absent,
    read_optional,
    spell_number,
)
from waltz.sources.raw_entry import RawEntry, describe_type
from waltz.sources.raw_files import find_half_pair, read_object_entries
from waltz.sources.tables import read_table
from waltz.valse_release import RELEASE

logger = logging.getLogger(__name__)

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


SAME_RECORD = "the same record stands above"
"""Reason why a repeated record is not an item."""


def read_pairs(
    path: str | Path,
    dataset: str,
    source: str,
    columns: Mapping[str, str] | None = None,
) -> list[ItemRecord]:
    """Return the items of a user's file, without votes.

    A caption that is the same text as its foil, and a record that stands twice, give items that are
    not kept, with the reason in `rejected`.

    An `id` is used unchanged; without one the item id is the position of the row in the file,
    starting with `1`. Rows with several pairs add the number of the pair (`7-1`, `7-2`). A
    `phenomenon` becomes the piece; without one the piece is the data set. Pairs of a row with two
    images get the id of the row as their `group`.

    Args:
        path: A file that `read_table` reads.
        columns: Column of `image`, `caption`, `foil`, `id` and `phenomenon` where it has another
            name; without it, the layout of a published set is recognised.
    """
    columns = columns or {}
    rows = read_table(path)
    layout = choose_layout(rows, columns)
    for name in layout.ignored:
        if name in rows[0].fields:
            _say_once(f"{path}: {name}: {layout.ignored[name]}")
    names: dict[str, str] = {}  # name of each record, by its content
    used_names: set[str] = set()
    items = []
    for position, row in enumerate(rows, 1):
        _check_texts(row.fields, row.location)
        record = _dump_record(row.fields)
        is_repeated = record in names
        if not is_repeated:
            name = _read_id(row, columns.get("id", "id")) or str(position)
            if name in used_names:
                raise UserError(
                    f"{row.location}: duplicate id {name!r}, with other content than above; give it another id"
                )
            used_names.add(name)
            names[record] = name
        for pair in find_pairs(row, layout):
            item = _build_item(row, pair, names[record], record)
            piece = _read_phenomenon(row, layout.phenomenon) or dataset
            item = replace(item, instrument=dataset, piece=piece, source=source)
            if layout.is_crossed:
                item = replace(item, group=names[record])
            if is_repeated:
                item = replace(item, kept=False, rejected=SAME_RECORD)
            items.append(item)
    if not any(item.kept for item in items):
        raise UserError(
            f"{path}: none of {len(items)} items can be used: {SAME_TEXT}; write another foil"
        )
    _warn_of_words(path, items)
    return items


def _warn_of_words(path: str | Path, items: Sequence[ItemRecord]) -> None:
    """Log a warning where a caption or foil is a word that other programs write for an absent value."""
    texts = chain.from_iterable((item.caption, item.foil) for item in items)
    if words := sorted(set(filter(is_absent, texts))):
        _say_once(
            f"{path}: captions or foils are words for absent values ({list_names(words, 'and')}), and count as"
            " texts; delete these rows if no texts are meant"
        )


@functools.cache
def _say_once(text: str) -> None:
    """Log a warning, once for a file that is read several times."""
    logger.warning("%s", text)


def _read_id(row: RawEntry, path: str) -> str | None:
    """Return the id of a row as a text; None where it has none."""
    value = read_optional(row, path)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a column with gaps has floating-point numbers
    if isinstance(value, bool) or not isinstance(value, str | int | None):
        raise UserError(
            f"{row.location}: 'id' is {describe_type(value)}, not a text or whole number; write one"
        )
    if value is None:
        return None
    return str(value).strip()


def _read_phenomenon(row: RawEntry, paths: Sequence[str]) -> str | None:
    """Return the phenomenon of a row; None where it has none."""
    values = (spell_number(read_optional(row, path)) for path in paths)
    value = next((value for value in values if value is not None), None)
    if isinstance(value, str | None):
        return value
    raise UserError(
        f"{row.location}: 'phenomenon' is not a text with content (got {_show(value)}); write one"
    )


def _read_text(row: RawEntry, name: str, value: object) -> str:
    """Return the caption, foil or image of a row, which must be a text with content."""
    text = spell_number(value)
    if isinstance(text, str) and fold_text(text):
        return text
    advice = "write one"
    if isinstance(value, dict):
        advice = f"name one of its fields, such as --columns {name}=COLUMN.{next(iter(value), 'text')}"
    raise UserError(
        f"{row.location}: {name!r} is not a text with content (got {_show(value)}); {advice}"
    )


def _show(value: object) -> str:
    """Return a value for a message, shortened; of a list or object its type."""
    if isinstance(value, dict | list):
        return describe_type(value)
    return shorten_value(repr(value))


def _dump_record(record: JsonObject) -> str:
    """Return a record as JSON, with null in place of NaN and infinities, which JSON lacks."""
    text = json.dumps(record, default=str)
    finite = json.loads(text, parse_constant=lambda _: None)
    return json.dumps(finite, ensure_ascii=False)


def _build_item(row: RawEntry, pair: FoundPair, name: str, record: str) -> ItemRecord:
    """Return the item of a pair, whose data set, source and piece are not known yet."""
    image = _read_text(row, "image", pair.image)
    caption = _read_text(row, "caption", pair.caption)
    foil = _read_text(row, "foil", pair.foil)
    # Pairs of one row share its name.
    item_id = name
    if pair.number is not None:
        item_id = f"{name}-{pair.number}"
    caption_span, foil_span = find_changed_spans(caption, foil)
    rejected = SAME_TEXT if are_same_text(caption, foil) else None
    return ItemRecord(
        item_id=item_id,
        instrument="",
        piece="",
        source="",
        source_id=item_id,
        image=image,
        caption=caption,
        foil=foil,
        caption_span=StoredSpan(**caption_span),
        foil_span=StoredSpan(**foil_span),
        caption_phrases=[slice_span(caption, caption_span)],
        foil_phrases=[slice_span(foil, foil_span)],
        kept=rejected is None,
        rejected=rejected,
        release=record,
    )
