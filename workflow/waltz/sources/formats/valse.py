"""The released VALSE benchmark: eleven JSON files, quirks and all, as rows of the benchmark layout.

Ids repeat across the files, so a row's key is its file and its id. The file decides the instrument,
because `linguistic_phenomena` names only the piece; `dataset` is spelled in two ways.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from waltz.core.errors import UserError
from waltz.core.text_diff import find_changed_spans
from waltz.instruments import INSTRUMENTS
from waltz.sources.fields import check_unique, describe_type, read_field, read_optional_field
from waltz.sources.raw_files import read_object_entries

SOURCES = {
    "visual7w": "visual7w",
    "coco2017": "coco2017",
    "coco_2017": "coco2017",
    "SWiG": "swig",
    "VisDial_v1.0": "visdial",
    "FOIL dataset": "foil-it",
}
"""Our name of each source, by the release's spellings."""

DIRECTIONS = {
    "checklist method, change NP to PL": "sg2pl",
    "checklist method, change NP to SG": "pl2sg",
    "zero_to_something": "zero-to-something",
    "something_to_zero": "something-to-zero",
}

VOTE_KINDS = ("caption", "foil", "other")


def read_release(path: str | Path, instrument: str, valid_votes: int) -> list[dict[str, Any]]:
    """Items of one file of the release.

    Args:
        path: JSON object of id → item.
        instrument: One of `waltz.instruments.INSTRUMENTS`.
        valid_votes: Votes for the caption, of 3, that make an item valid.
    Returns:
        Rows of the benchmark layout; `release` holds the whole upstream record as JSON.
    Raises:
        UserError: Malformed JSON, a missing or mistyped field, a duplicate id or an unknown instrument;
            the message names file, id and field.
    """
    if instrument not in INSTRUMENTS:
        raise UserError(f"{path}: unknown instrument {instrument!r}; the release has {', '.join(INSTRUMENTS)}")
    seen: set[str] = set()
    rows = []
    for item_id, item in read_object_entries(path, ""):
        place = f"{path}: id {item_id!r}"
        check_unique(seen, item_id, place)
        rows.append({"item_id": item_id, **_row(item, instrument, valid_votes, place)})
    return rows


def _row(item: Mapping[str, Any], instrument: str, valid_votes: int, place: str) -> dict[str, Any]:
    dataset = read_field(item, "dataset", str, place)
    if dataset not in SOURCES:
        raise UserError(f"{place}: field 'dataset' is {dataset!r}, which is none of {', '.join(SOURCES)}")
    caption, foil = read_field(item, "caption", str, place), read_field(item, "foil", str, place)
    caption_phrases, foil_phrases = _phrases(instrument, item, place)
    caption_span, foil_span = find_changed_spans(caption, foil)
    votes = read_field(item, "mturk", dict, place)
    counts = {f"votes_{side}": _count(votes, side, f"{place}: mturk") for side in VOTE_KINDS}
    nli = read_optional_field(item, "nli_scores", dict, place) or {}
    return {
        "instrument": instrument,
        "piece": INSTRUMENTS[instrument].piece,
        "source": SOURCES[dataset],
        "source_id": None if "dataset_idx" not in item else str(item["dataset_idx"]),
        "split": item.get("original_split"),
        "image": read_field(item, "image_file", str, place),
        "caption": caption,
        "foil": foil,
        "caption_span": caption_span,
        "foil_span": foil_span,
        "caption_phrases": caption_phrases,
        "foil_phrases": foil_phrases,
        "direction": DIRECTIONS.get(item.get("foil_method") or item.get("provenance_of_foils") or ""),
        "grammaticality": _first(item.get("grammaticality_scores")),
        "nli_entailment": _first(nli.get("entail")),
        "nli_neutral": _first(nli.get("neutral")),
        "nli_contradiction": _first(nli.get("contradict")),
        "kept": True,
        **counts,
        "valid": None if counts["votes_caption"] is None else counts["votes_caption"] >= valid_votes,
        "release": json.dumps(item, ensure_ascii=False),
    }


def _count(votes: Mapping[str, Any], side: str, place: str) -> int | None:
    """Votes for a side; null, which our own exports have and the release never, where nobody voted."""
    return None if side in votes and votes[side] is None else read_field(votes, side, int, place)


def _phrases(instrument: str, item: Mapping[str, Any], place: str) -> tuple[list[str], list[str]]:
    """The lexical items of caption and foil; in an actant swap both fillers stand in both."""
    caption, foil = _as_phrases(item, "classes", place), _as_phrases(item, "classes_foil", place)
    return (caption + foil, caption + foil) if instrument == "actant-swap" else (caption, foil)


def _as_phrases(item: Mapping[str, Any], name: str, place: str) -> list[str]:
    """A text, a number, false, or a list of these."""
    value = item.get(name)
    values = value if isinstance(value, list) else [value]
    for entry in values:
        if not isinstance(entry, str | int):
            raise UserError(f"{place}: field {name!r} is {'missing' if name not in item else describe_type(entry)}")
    return [entry if isinstance(entry, str) else json.dumps(entry) for entry in values]


def _first(values: list[float] | None) -> float | None:
    return float(values[0]) if values else None
