"""Items in the layout of the released VALSE benchmark, so that code written for the release can read them.

The reverse of `sources.formats.valse`: released items are exported byte for byte. Items built by waltz get every field
that the release has for their instrument; columns without such a field are in `waltz`.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from waltz.core.errors import UserError
from waltz.core.text_diff import slice_span
from waltz.foils.english.nouns import parse_number
from waltz.instruments import INSTRUMENTS
from waltz.sources.formats.pairs import DIRECTIONS

Row = Mapping[str, Any]

_COUNTED = ("dataset", "dataset_idx", "image_file", "linguistic_phenomena", "caption", "answer", "classes", "split")
_COUNTING = (*_COUNTED, "original_split", "classes_foil", "mturk", "foil")
_COREFERENCE = (
    *("dataset", "original_split", "linguistic_phenomena", "image_file", "only_caption", "caption"),
    *("classes", "classes_foil", "mturk", "foil"),
)
_FILTERED = ("classes", "classes_foil", "grammaticality_scores", "nli_scores")

FIELDS = {
    "existence": (
        *(*_COUNTED, "original_split", "classes_foil", "declarative_statement", "declarative_statement_foils"),
        *("provenance_of_foils", "mturk", "foil"),
    ),
    "plurality": (
        *("dataset", "original_split", "dataset_idx", "image_file", "linguistic_phenomena", "foil_method"),
        *(*_FILTERED, "orig_caption", "caption", "mturk", "foil"),
    ),
    "counting-balanced": _COUNTING,
    "counting-small": _COUNTING,
    "counting-adversarial": _COUNTING,
    "relations": (
        *("dataset", "original_split", "dataset_idx", "image_file", "linguistic_phenomena", "foil_method", "caption"),
        *(*_FILTERED, "key", "mturk", "foil"),
    ),
    "action-replacement": (
        *("dataset", "original_split", "dataset_idx", "linguistic_phenomena", "foiling_method", "image_file"),
        *("caption", "classes", "classes_foil", "nli_scores", "mturk", "foil"),
    ),
    "actant-swap": (
        *("dataset", "original_split", "dataset_idx", "linguistic_phenomena", "image_file", "caption"),
        *("classes", "classes_foil", "mturk", "foil"),
    ),
    "coreference-standard": _COREFERENCE,
    "coreference-clean": _COREFERENCE,
    "foil-it": (
        *("dataset", "dataset_idx", "original_split", "linguistic_phenomena", "image_file", "caption"),
        *("classes", "classes_foil", "mturk", "foil"),
    ),
}
"""Fields of each instrument's items, in the order of its file."""

PAIR_FIELDS = FIELDS["actant-swap"]
"""Fields of the items of a user's pairs: those that nearly every file of the release has."""

PHENOMENA = {"plurality": "plurals", "nouns": "noun phrases"}
"""Names of pieces in the release, where they differ from ours."""

METHODS = {direction: method for method, direction in DIRECTIONS.items()}
"""Names of directions in the release."""

EXTRA_COLUMNS = (
    *("instrument", "piece", "source", "source_id", "split", "direction", "proposal_rank", "proposal_score"),
    *("caption_grammaticality", "caption_perplexity", "caption_span", "foil_span", "caption_phrases", "foil_phrases"),
    *("voter", "valid"),
)
"""Columns that the release has no field for."""


def get_file_name(dataset: str) -> str:
    """Return the name of a data set's file, as in the release where it has one: `plurals.json` for plurality."""
    return f"{INSTRUMENTS[dataset].release_file if dataset in INSTRUMENTS else dataset}.json"


def restore_records(rows: Iterable[Row]) -> dict[str, dict[str, Any]]:
    """Return items of the release as their upstream records.

    Args:
        rows: Rows of the benchmark layout, with the upstream record in `release`.
    Returns:
        Records by item id. Where a study replaces the released votes by other annotations, `mturk` counts those, and
        `waltz` holds the released votes.
    """
    return {row["item_id"]: _restore_record(row) for row in rows}


def build_records(
    rows: Iterable[Row], originals: Mapping[str, Row], span_method: str, source_format: str
) -> dict[str, dict[str, Any]]:
    """Return items built by waltz with every field of the release and `waltz`.

    Args:
        originals: Rows of their source, by `source_id`, for the instruments that need it.
        span_method: Method that proposed the foils of relations, for the field `foil_method`.
        source_format: Format of their source; the release's names of data sets are for the formats that it used.
    Returns:
        Records by item id; votes are null where nobody voted.
    """
    return {row["item_id"]: _build_record(row, originals, span_method, source_format) for row in rows}


def build_pair_records(rows: Iterable[Row]) -> dict[str, dict[str, Any]]:
    """Return items of a user's pairs with the fields of `PAIR_FIELDS` and, in `waltz`, the user's record."""
    records = {}
    for row in rows:
        values = {name: _COMMON_FIELDS[name](row) for name in PAIR_FIELDS}
        values |= {"dataset": row["source"], "original_split": row["split"], "dataset_idx": row["source_id"]}
        extra = {name: row[name] for name in EXTRA_COLUMNS} | {"release": json.loads(row["release"])}
        records[row["item_id"]] = {**values, "waltz": extra}
    return records


def render_json(records: Mapping[str, Mapping[str, Any]]) -> str:
    """Render a file as in the release: indented by four, ASCII, without a final line break."""
    return json.dumps(records, indent=4)


def _restore_record(row: Row) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(row["release"])
    votes = {side: row[f"votes_{side}"] for side in record["mturk"]}
    if votes == record["mturk"]:
        return record
    return {**record, "mturk": votes, "waltz": {"valid": row["valid"], "released_mturk": record["mturk"]}}


def _build_record(row: Row, originals: Mapping[str, Row], span_method: str, source_format: str) -> dict[str, Any]:
    instrument = row["instrument"]
    original: Row = {}
    if INSTRUMENTS[instrument].needs_source_row:
        if row["source_id"] not in originals:
            raise UserError(
                f"item {row['item_id']!r}: {row['source']} has no row {row['source_id']!r}; run the workflow again"
            )
        original = originals[row["source_id"]]
    special: dict[str, Any] = {}
    if instrument == "existence":
        caption_denies = row["direction"] == "zero-to-something"
        special = {
            "answer": 0 if caption_denies else parse_number(original.get("answer") or ""),
            "classes_foil": [] if caption_denies else [0],
        }
        special["classes"] = special["answer"]
    elif instrument == "plurality":
        special = {"orig_caption": original["caption"]}
    elif instrument == "relations":
        special = {"foil_method": span_method}
    elif instrument.startswith("counting"):
        number, foil_number = int(row["caption_phrases"][0]), int(row["foil_phrases"][0])
        special = {"answer": number, "classes": number, "classes_foil": foil_number}
    elif instrument == "action-replacement":
        special = {field: slice_span(row[side], row[f"{side}_span"]) for field, side in _CLASS_FIELDS.items()}
    elif instrument.startswith("coreference"):
        special = {"only_caption": original["caption"].strip().rstrip(".").lower()}
    if source_format != INSTRUMENTS[instrument].source_format:
        special["dataset"] = row["source"]
    values = {name: special[name] if name in special else _COMMON_FIELDS[name](row) for name in FIELDS[instrument]}
    return {**values, "waltz": {name: row[name] for name in EXTRA_COLUMNS}}


_CLASS_FIELDS = {"classes": "caption", "classes_foil": "foil"}


def _get_dataset(row: Row) -> str:
    """Return the release's name for the origin of an item's image; for a user's own pairs the name of their source."""
    instrument = INSTRUMENTS.get(row["instrument"])
    return str(row["source"]) if instrument is None else instrument.release_dataset


def _get_index(row: Row) -> str | int:
    """Return COCO's or FOIL-it's id as a number, the image of an action, or else the id in the source."""
    identifier = str(row["source_id"])
    instrument = INSTRUMENTS.get(row["instrument"])
    if instrument is not None and instrument.numeric_index and identifier.isdecimal():
        return int(identifier)
    return str(row["image"]) if row["piece"] == "actions" else identifier


def _get_split(row: Row) -> str | None:
    """Return the split without the year at its end."""
    return None if row["split"] is None else str(row["split"]).rstrip("0123456789")


def _get_nli_scores(row: Row) -> dict[str, Any]:
    """Return each probability as a list of one value, and the likeliest relation; empty lists without probabilities."""
    scores = {name: row[f"nli_{relation}"] for name, relation in _RELATIONS.items()}
    if None in scores.values():
        return {**{name: [] for name in scores}, "pred": []}
    return {**{name: [score] for name, score in scores.items()}, "pred": [max(scores, key=lambda name: scores[name])]}


_RELATIONS = {"entail": "entailment", "neutral": "neutral", "contradict": "contradiction"}


def _get_grammaticality(row: Row) -> list[float]:
    return [] if row["grammaticality"] is None else [row["grammaticality"]]


_COMMON_FIELDS: dict[str, Callable[[Row], Any]] = {
    "dataset": _get_dataset,
    "dataset_idx": _get_index,
    "original_split": _get_split,
    "split": _get_split,
    "linguistic_phenomena": lambda row: PHENOMENA.get(row["piece"], row["piece"]),
    "image_file": lambda row: row["image"],
    "caption": lambda row: row["caption"],
    "foil": lambda row: row["foil"],
    "classes": lambda row: _get_first_phrase(row, "caption"),
    "classes_foil": lambda row: _get_first_phrase(row, "foil"),
    "declarative_statement": lambda row: row["caption"],
    "declarative_statement_foils": lambda row: [row["foil"]],
    "provenance_of_foils": lambda row: METHODS[row["direction"]],
    "foil_method": lambda row: METHODS[row["direction"]],
    "foiling_method": lambda row: "change_action",
    "grammaticality_scores": _get_grammaticality,
    "nli_scores": _get_nli_scores,
    "key": lambda row: row["item_id"],
    "mturk": lambda row: {side: row[f"votes_{side}"] for side in ("foil", "caption", "other")},
}


def _get_first_phrase(row: Row, side: str) -> str:
    """Return the first exchanged phrase; in an actant swap each text has both fillers, its own first."""
    phrases = row[f"{side}_phrases"]
    return phrases[0] if phrases else ""
