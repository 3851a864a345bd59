"""Items in the layout of the released VALSE benchmark, so that code written for the release reads them.

The reverse of `sources.valse`: what was read from the release goes out as it came in, byte for byte. Items that were
built here get every field that the release has for their instrument; what it has no field for stands in `waltz`.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from waltz.core.errors import UserError
from waltz.core.text_diff import slice_span
from waltz.foils.english.numerals import number_of
from waltz.instruments import INSTRUMENTS
from waltz.sources.formats.valse import DIRECTIONS

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
"""Fields of the items of a user's own pairs: those that nearly every file has."""

PHENOMENA = {"plurality": "plurals", "nouns": "noun phrases"}
"""What the release calls a piece, where it is not our name."""

METHODS = {ours: theirs for theirs, ours in DIRECTIONS.items()}
"""What the release calls a direction."""

EXTRA_COLUMNS = (
    *("instrument", "piece", "source", "source_id", "split", "direction", "proposal_rank", "proposal_score"),
    *("caption_grammaticality", "caption_perplexity", "caption_span", "foil_span", "caption_phrases", "foil_phrases"),
    *("voter", "valid"),
)
"""Columns that the release has no field for."""


def get_file_name(dataset: str) -> str:
    """Name of a data set's file, as in the release where it has one: `plurals.json` for plurality."""
    return f"{INSTRUMENTS[dataset].release_file if dataset in INSTRUMENTS else dataset}.json"


def restore_records(rows: Iterable[Row]) -> dict[str, dict[str, Any]]:
    """Items that were read from the release, as they stand there.

    Args:
        rows: Rows of the benchmark layout, with the upstream record in `release`.
    Returns:
        Records by item id. Where other people's annotations took the place of the released votes, `mturk` counts those,
        and `waltz` holds the released votes.
    """
    return {row["item_id"]: _released(row) for row in rows}


def build_records(rows: Iterable[Row], originals: Mapping[str, Row], span_method: str) -> dict[str, dict[str, Any]]:
    """Items that were built here, with every field of the release and `waltz`.

    Args:
        rows: Rows of the benchmark layout.
        originals: Rows of their source, by `source_id`, for the instruments that need it.
        span_method: How relations' foils were proposed, which the release says in `foil_method`.
    Returns:
        Records by item id; votes that nobody gave are null.
    Raises:
        UserError: A row of the source is missing.
    """
    return {row["item_id"]: _built(row, originals, span_method) for row in rows}


def build_pair_records(rows: Iterable[Row]) -> dict[str, dict[str, Any]]:
    """Items of a user's own pairs, with the fields of `OWN_FIELDS` and, in `waltz`, the user's record.

    Args:
        rows: Rows of the benchmark layout.
    """
    found = {}
    for row in rows:
        values = {name: _value(name, row) for name in PAIR_FIELDS}
        values |= {"dataset": row["source"], "original_split": row["split"], "dataset_idx": row["source_id"]}
        kept = {name: row[name] for name in EXTRA_COLUMNS} | {"release": json.loads(row["release"])}
        found[row["item_id"]] = {**values, "waltz": kept}
    return found


def render_json(records: Mapping[str, Mapping[str, Any]]) -> str:
    """A file of the release: indented by four, ASCII, without a line end at its end."""
    return json.dumps(records, indent=4)


def _released(row: Row) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(row["release"])
    votes = {side: row[f"votes_{side}"] for side in record["mturk"]}
    if votes == record["mturk"]:
        return record
    return {**record, "mturk": votes, "waltz": {"valid": row["valid"], "released_mturk": record["mturk"]}}


def _built(row: Row, originals: Mapping[str, Row], span_method: str) -> dict[str, Any]:
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
        none = row["direction"] == "zero-to-something"
        special = {"answer": 0 if none else number_of(original["answer"]), "classes_foil": [] if none else [0]}
        special["classes"] = special["answer"]
    elif instrument == "plurality":
        special = {"orig_caption": original["caption"]}
    elif instrument == "relations":
        special = {"foil_method": span_method}
    elif instrument.startswith("counting"):
        number, other = int(row["caption_phrases"][0]), int(row["foil_phrases"][0])
        special = {"answer": number, "classes": number, "classes_foil": other}
    elif instrument == "action-replacement":
        special = {side: slice_span(row[text], row[f"{text}_span"]) for side, text in _SIDES.items()}
    elif instrument.startswith("coreference"):
        special = {"only_caption": original["caption"].strip().rstrip(".").lower()}
    values = {name: special[name] if name in special else _value(name, row) for name in FIELDS[instrument]}
    return {**values, "waltz": {name: row[name] for name in EXTRA_COLUMNS}}


_SIDES = {"classes": "caption", "classes_foil": "foil"}


def _value(name: str, row: Row) -> Any:
    """A field that means the same in all files."""
    return _COMMON[name](row)


def _dataset(row: Row) -> str:
    """Return the release's name for the origin of an item's image; for a user's own pairs the name of their source."""
    instrument = INSTRUMENTS.get(row["instrument"])
    return str(row["source"]) if instrument is None else instrument.release_dataset


def _index(row: Row) -> str | int:
    """COCO's or FOIL-it's id as a number, the image of an action, or else the id in the source."""
    identifier = str(row["source_id"])
    instrument = INSTRUMENTS.get(row["instrument"])
    if instrument is not None and instrument.numeric_index and identifier.isdecimal():
        return int(identifier)
    return str(row["image"]) if row["piece"] == "actions" else identifier


def _split(row: Row) -> str | None:
    """The split without the year that ours may end in."""
    return None if row["split"] is None else str(row["split"]).rstrip("0123456789")


def _inference(row: Row) -> dict[str, Any]:
    """Probabilities as lists of one, and the likeliest; empty lists where nobody asked."""
    found = {theirs: row[f"nli_{ours}"] for theirs, ours in _RELATIONS.items()}
    if None in found.values():
        return {**{name: [] for name in found}, "pred": []}
    return {**{name: [value] for name, value in found.items()}, "pred": [max(found, key=lambda name: found[name])]}


_RELATIONS = {"entail": "entailment", "neutral": "neutral", "contradict": "contradiction"}


def _grammaticality(row: Row) -> list[float]:
    return [] if row["grammaticality"] is None else [row["grammaticality"]]


_COMMON: dict[str, Callable[[Row], Any]] = {
    "dataset": _dataset,
    "dataset_idx": _index,
    "original_split": _split,
    "split": _split,
    "linguistic_phenomena": lambda row: PHENOMENA.get(row["piece"], row["piece"]),
    "image_file": lambda row: row["image"],
    "caption": lambda row: row["caption"],
    "foil": lambda row: row["foil"],
    "classes": lambda row: _first(row, "caption"),
    "classes_foil": lambda row: _first(row, "foil"),
    "declarative_statement": lambda row: row["caption"],
    "declarative_statement_foils": lambda row: [row["foil"]],
    "provenance_of_foils": lambda row: METHODS[row["direction"]],
    "foil_method": lambda row: METHODS[row["direction"]],
    "foiling_method": lambda row: "change_action",
    "grammaticality_scores": _grammaticality,
    "nli_scores": _inference,
    "key": lambda row: row["item_id"],
    "mturk": lambda row: {side: row[f"votes_{side}"] for side in ("foil", "caption", "other")},
}


def _first(row: Row, side: str) -> str:
    """The first of the words exchanged; in an actant swap each text has both fillers, its own first."""
    phrases = row[f"{side}_phrases"]
    return phrases[0] if phrases else ""
