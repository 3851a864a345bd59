"""Items in the layout of the released VALSE benchmark, so that code written for the release can
read them.

The reverse of `sources.formats.valse`: released items are exported byte for byte. Items built by
waltz get every field that the release has for their instrument; columns without such a field are in
the field `waltz`.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from waltz.core.errors import UserError
from waltz.core.text_diff import slice_span
from waltz.foils.english.nouns import parse_number
from waltz.sources.formats.pairs import DIRECTIONS
from waltz.valse_release import RELEASE

Row = Mapping[str, Any]
"""Row of the layout `BENCHMARK`, or of a source."""
Fields = dict[str, Any]
"""Fields of an item in the release's layout, by name."""

_COUNTED = (
    "dataset",
    "dataset_idx",
    "image_file",
    "linguistic_phenomena",
    "caption",
    "answer",
    "classes",
    "split",
)
_COUNTING = (*_COUNTED, "original_split", "classes_foil", "mturk", "foil")
_COREFERENCE = (
    *(
        "dataset",
        "original_split",
        "linguistic_phenomena",
        "image_file",
        "only_caption",
        "caption",
    ),
    *("classes", "classes_foil", "mturk", "foil"),
)
_FILTERED = ("classes", "classes_foil", "grammaticality_scores", "nli_scores")

FIELDS = {
    "existence": (
        *(
            *_COUNTED,
            "original_split",
            "classes_foil",
            "declarative_statement",
            "declarative_statement_foils",
        ),
        *("provenance_of_foils", "mturk", "foil"),
    ),
    "plurality": (
        *(
            "dataset",
            "original_split",
            "dataset_idx",
            "image_file",
            "linguistic_phenomena",
            "foil_method",
        ),
        *(*_FILTERED, "orig_caption", "caption", "mturk", "foil"),
    ),
    "counting-balanced": _COUNTING,
    "counting-small": _COUNTING,
    "counting-adversarial": _COUNTING,
    "relations": (
        *(
            "dataset",
            "original_split",
            "dataset_idx",
            "image_file",
            "linguistic_phenomena",
            "foil_method",
            "caption",
        ),
        *(*_FILTERED, "key", "mturk", "foil"),
    ),
    "action-replacement": (
        *(
            "dataset",
            "original_split",
            "dataset_idx",
            "linguistic_phenomena",
            "foiling_method",
            "image_file",
        ),
        *("caption", "classes", "classes_foil", "nli_scores", "mturk", "foil"),
    ),
    "actant-swap": (
        *(
            "dataset",
            "original_split",
            "dataset_idx",
            "linguistic_phenomena",
            "image_file",
            "caption",
        ),
        *("classes", "classes_foil", "mturk", "foil"),
    ),
    "coreference-standard": _COREFERENCE,
    "coreference-clean": _COREFERENCE,
    "foil-it": (
        *(
            "dataset",
            "dataset_idx",
            "original_split",
            "linguistic_phenomena",
            "image_file",
            "caption",
        ),
        *("classes", "classes_foil", "mturk", "foil"),
    ),
}
"""Fields of each instrument's items, in the order of its file."""

PAIR_FIELDS = FIELDS["actant-swap"]
"""Fields of the items of a user's pairs, which nearly every file of the release has."""
OWN_FIELDS = (
    *(
        "dataset",
        "original_split",
        "dataset_idx",
        "image_file",
        "linguistic_phenomena",
        *_FILTERED,
    ),
    *("caption", "mturk", "foil"),
)
"""Fields of items of instruments that the release lacks: the same fields and the scores of the
filters.
"""

PHENOMENA = {"plurality": "plurals", "nouns": "noun phrases"}
"""Names of pieces in the release that differ from ours."""

METHODS = {direction: method for method, direction in DIRECTIONS.items()}
"""Names of directions in the release."""

EXTRA_COLUMNS = (
    *(
        "instrument",
        "piece",
        "source",
        "source_id",
        "split",
        "direction",
        "proposal_rank",
        "proposal_score",
    ),
    *(
        "caption_grammaticality",
        "caption_perplexity",
        "caption_span",
        "foil_span",
        "caption_phrases",
        "foil_phrases",
    ),
    *("voter", "valid"),
)
"""Columns that the release has no field for."""


def get_file_name(dataset: str) -> str:
    """Return the name of a data set's file, as in the release if it has the data set:
    `plurals.json` for plurality.
    """
    if dataset in RELEASE:
        return f"{RELEASE[dataset].file}.json"
    return f"{dataset}.json"


def restore_records(rows: Iterable[Row]) -> dict[str, Fields]:
    """Return items of the release as their upstream records.

    Args:
        rows: Rows of the benchmark layout, with the upstream record in `release`.
    Returns:
        Records by item id. If a study replaces the released votes by other annotations, `mturk`
        counts the annotations, and `waltz` holds the released votes.
    """
    return {row["item_id"]: _restore_record(row) for row in rows}


def build_records(
    rows: Iterable[Row],
    originals: Mapping[str, Row],
    span_method: str,
    source_format: str,
) -> dict[str, Fields]:
    """Return items built by waltz with every field of the release and `waltz`.

    Args:
        rows: Rows of the benchmark layout.
        originals: Rows of the items' source by `source_id`, for the instruments that need them.
        span_method: Method that proposed the foils of relations, for the field `foil_method`.
        source_format: Format of the items' source; the release's names of data sets belong to the
            formats that it used.
    Returns:
        Records by item id; votes are null if nobody voted.
    Raises:
        UserError: A source lacks a row that an item needs.
    """
    return {
        row["item_id"]: _build_record(row, originals, span_method, source_format)
        for row in rows
    }


def build_pair_records(rows: Iterable[Row]) -> dict[str, Fields]:
    """Return items of a user's pairs with the fields of `PAIR_FIELDS` and, in `waltz`, the user's
    record.
    """
    records = {}
    for row in rows:
        record = {name: _COMMON_FIELDS[name](row) for name in PAIR_FIELDS}
        record |= {
            "dataset": row["source"],
            "original_split": row["split"],
            "dataset_idx": row["source_id"],
        }
        record["waltz"] = {name: row[name] for name in EXTRA_COLUMNS} | {
            "release": json.loads(row["release"])
        }
        records[row["item_id"]] = record
    return records


def render_json(records: Mapping[str, Fields]) -> str:
    """Render a file as in the release: indented by four, ASCII, without a final line break."""
    return json.dumps(records, indent=4)


def _restore_record(row: Row) -> Fields:
    record: Fields = json.loads(row["release"])
    # The votes of the study, for the answers that the release counts.
    votes = {answer: row[f"votes_{answer}"] for answer in record["mturk"]}
    if votes == record["mturk"]:
        return record
    return {
        **record,
        "mturk": votes,
        "waltz": {"valid": row["valid"], "released_mturk": record["mturk"]},
    }


def _build_record(
    row: Row, originals: Mapping[str, Row], span_method: str, source_format: str
) -> Fields:
    """Return an item built by waltz; see `build_records`."""
    instrument = row["instrument"]
    # An instrument of the user has the fields that nearly all instruments of the release have.
    fields: Iterable[str] = OWN_FIELDS
    special: Fields = {}
    if instrument in RELEASE:
        fields = FIELDS[instrument]
        original = _find_original(row, originals)
        special = _build_special_fields(row, original, span_method)
        # The release's name would be wrong for images of another source.
        if source_format != RELEASE[instrument].source_format:
            special["dataset"] = row["source"]
    record = {}
    for name in fields:
        record[name] = special[name] if name in special else _COMMON_FIELDS[name](row)
    record["waltz"] = {name: row[name] for name in EXTRA_COLUMNS}
    return record


def _find_original(row: Row, originals: Mapping[str, Row]) -> Row:
    """Return the row of the source that an item was built from; empty if its instrument needs none."""
    if not RELEASE[row["instrument"]].needs_source_row:
        return {}
    if row["source_id"] not in originals:
        raise UserError(
            f"item {row['item_id']!r}: {row['source']} has no row {row['source_id']!r}; run the workflow again"
        )
    return originals[row["source_id"]]


def _build_special_fields(row: Row, original: Row, span_method: str) -> Fields:
    """Return the fields whose content depends on the instrument."""
    instrument = row["instrument"]
    if instrument == "existence":
        return _build_existence_fields(row, original)
    if instrument == "plurality":
        return {"orig_caption": original["caption"]}
    if instrument == "relations":
        return {"foil_method": span_method}
    if instrument.startswith("counting"):
        # The exchanged phrases are digits.
        number, foil_number = (
            int(row["caption_phrases"][0]),
            int(row["foil_phrases"][0]),
        )
        return {"answer": number, "classes": number, "classes_foil": foil_number}
    if instrument == "action-replacement":
        return {
            "classes": slice_span(row["caption"], row["caption_span"]),
            "classes_foil": slice_span(row["foil"], row["foil_span"]),
        }
    if instrument.startswith("coreference"):
        return {"only_caption": original["caption"].strip().rstrip(".").lower()}
    return {}


def _build_existence_fields(row: Row, original: Row) -> Fields:
    """Return the numbers of things that caption and foil of existence state; a foil that affirms
    states no number.
    """
    # "There are no ..." is true of the image: its number is 0, and the foil states none.
    caption_denies = row["direction"] == "zero-to-something"
    if caption_denies:
        return {"answer": 0, "classes": 0, "classes_foil": []}
    answer = parse_number(original.get("answer") or "")
    return {"answer": answer, "classes": answer, "classes_foil": [0]}


def _get_dataset(row: Row) -> str:
    """Return the release's name for the origin of an item's image, or the source if it lacks the
    instrument.
    """
    released = RELEASE.get(row["instrument"])
    if released is None:
        return str(row["source"])
    return released.dataset


def _get_index(row: Row) -> str | int:
    """Return COCO's or FOIL-it's id as a number, the image of an action, or else the id in the
    source.
    """
    identifier = str(row["source_id"])
    released = RELEASE.get(row["instrument"])
    # COCO's and FOIL-it's ids are numbers in the release.
    has_numbers = released is not None and released.numeric_index
    if has_numbers and identifier.isdecimal():
        return int(identifier)
    if row["piece"] == "actions":
        return str(row["image"])
    return identifier


def _get_split(row: Row) -> str | None:
    """Return the split without the year at its end, e.g. `val` for `val2017`."""
    if row["split"] is None:
        return None
    return str(row["split"]).rstrip("0123456789")


def _get_nli_scores(row: Row) -> Fields:
    """Return each probability as a list of one value, and the likeliest relation; empty lists
    without probabilities.
    """
    scores = {name: row[f"nli_{relation}"] for name, relation in _RELATIONS.items()}
    if None in scores.values():
        return {**{name: [] for name in scores}, "pred": []}
    # The first of several maxima.
    likeliest = max(scores, key=lambda name: scores[name])
    return {**{name: [score] for name, score in scores.items()}, "pred": [likeliest]}


_RELATIONS = {
    "entail": "entailment",
    "neutral": "neutral",
    "contradict": "contradiction",
}


def _get_grammaticality(row: Row) -> list[float]:
    if row["grammaticality"] is None:
        return []
    return [row["grammaticality"]]


def _get_votes(row: Row) -> dict[str, int | None]:
    return {answer: row[f"votes_{answer}"] for answer in ("foil", "caption", "other")}


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
    "mturk": _get_votes,
}


def _get_first_phrase(row: Row, role: str) -> str:
    """Return the first exchanged phrase of a text; empty without one.

    In an actant swap each text has both fillers, first the filler before its verb.
    """
    phrases = row[f"{role}_phrases"]
    if not phrases:
        return ""
    return str(phrases[0])
