"""The released VALSE benchmark: eleven JSON files, quirks and all, as rows of the benchmark layout.

Ids repeat across the files, so a row's key is its file and its id. The file decides the instrument,
because `linguistic_phenomena` names only the piece; `dataset` is spelled in two ways.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from waltz.core.errors import UserError
from waltz.core.text import changed_spans

PIECES = {
    "existence": "existence",
    "plurality": "plurality",
    "counting-balanced": "counting",
    "counting-small": "counting",
    "counting-adversarial": "counting",
    "relations": "relations",
    "action-replacement": "actions",
    "actant-swap": "actions",
    "coreference-standard": "coreference",
    "coreference-clean": "coreference",
    "foil-it": "nouns",
}
"""Piece of each instrument."""

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

REQUIRED: dict[str, type | tuple[type, ...]] = {
    "dataset": str,
    "image_file": str,
    "caption": str,
    "foil": str,
    "classes": (str, int),
    "classes_foil": (str, int, list),
    "mturk": dict,
}
VOTES = ("caption", "foil", "other")


def read_release(path: str | Path, instrument: str, valid_votes: int) -> list[dict[str, Any]]:
    """Items of one file of the release.

    Args:
        path: JSON object of id → item.
        instrument: One of `PIECES`.
        valid_votes: Votes for the caption, of 3, that make an item valid.
    Returns:
        Rows of the benchmark layout; `release` holds the whole upstream record as JSON.
    Raises:
        UserError: Malformed JSON, a missing or mistyped field, a duplicate id or an unknown instrument;
            the message names file, id and field.
    """
    if instrument not in PIECES:
        raise UserError(f"{path}: unknown instrument {instrument!r}; the release has {', '.join(PIECES)}")
    return [_row(path, instrument, valid_votes, item_id, item) for item_id, item in _items(Path(path))]


def _items(path: Path) -> list[tuple[str, Any]]:
    """Ids and items in file order, duplicates refused."""
    try:
        pairs = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_Pairs)
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}; get the file again") from None
    except json.JSONDecodeError as error:
        raise UserError(
            f"{path}: malformed JSON at line {error.lineno}, column {error.colno}; get the file again"
        ) from None
    if not isinstance(pairs, _Pairs):
        raise UserError(f"{path}: the root is {_kind(pairs)}, not an object of id to item")
    seen: set[str] = set()
    for item_id, _ in pairs:
        if item_id in seen:
            raise UserError(f"{path}: id {item_id!r} stands twice")
        seen.add(item_id)
    return [(item_id, _as_dict(item)) for item_id, item in pairs]


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as it stands in the file, so that duplicate keys can be seen."""


def _as_dict(value: Any) -> Any:
    if isinstance(value, _Pairs):
        return {key: _as_dict(entry) for key, entry in value}
    if isinstance(value, list):
        return [_as_dict(entry) for entry in value]
    return value


def _row(path: str | Path, instrument: str, valid_votes: int, item_id: str, item: Any) -> dict[str, Any]:
    place = f"{path}: id {item_id!r}"
    if not isinstance(item, dict):
        raise UserError(f"{place}: the item is {_kind(item)}, not an object")
    for name, kind in REQUIRED.items():
        if name not in item:
            raise UserError(f"{place}: field {name!r} is missing")
        if not isinstance(item[name], kind):
            raise UserError(f"{place}: field {name!r} is {_kind(item[name])}")
    if item["dataset"] not in SOURCES:
        raise UserError(f"{place}: field 'dataset' is {item['dataset']!r}, which is none of {', '.join(SOURCES)}")
    votes = item["mturk"]
    for name in VOTES:
        if not isinstance(votes.get(name), int):
            raise UserError(f"{place}: field 'mturk.{name}' is {_kind(votes.get(name))}, not a number of votes")
    caption_phrases, foil_phrases = _phrases(instrument, item)
    caption_span, foil_span = changed_spans(item["caption"], item["foil"])
    nli = item.get("nli_scores", {})
    return {
        "item_id": item_id,
        "instrument": instrument,
        "piece": PIECES[instrument],
        "source": SOURCES[item["dataset"]],
        "source_id": None if "dataset_idx" not in item else str(item["dataset_idx"]),
        "split": item.get("original_split"),
        "image": item["image_file"],
        "caption": item["caption"],
        "foil": item["foil"],
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
        "votes_caption": votes["caption"],
        "votes_foil": votes["foil"],
        "votes_other": votes["other"],
        "valid": votes["caption"] >= valid_votes,
        "release": json.dumps(item, ensure_ascii=False),
    }


def _phrases(instrument: str, item: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The lexical items of caption and foil; in an actant swap both fillers stand in both."""
    caption, foil = _as_phrases(item["classes"]), _as_phrases(item["classes_foil"])
    return (caption + foil, caption + foil) if instrument == "actant-swap" else (caption, foil)


def _as_phrases(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [entry if isinstance(entry, str) else json.dumps(entry) for entry in values]


def _first(values: list[float] | None) -> float | None:
    return float(values[0]) if values else None


def _kind(value: Any) -> str:
    names = {dict: "an object", _Pairs: "an object", list: "a list", str: "a text", type(None): "null or absent"}
    return names.get(type(value), f"{value!r}")
