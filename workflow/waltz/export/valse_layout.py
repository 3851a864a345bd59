"""Items in the layout of the released VALSE benchmark, so that code written for the release can
read them.

The reverse of `sources.formats.valse`: released items are exported byte for byte. Items built by
waltz get every field that the release has for their instrument; columns without such a field are in
the field `waltz`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

from waltz.core.errors import UserError
from waltz.core.files.json_objects import JsonObject
from waltz.core.records import to_row
from waltz.core.schema import ItemRecord, StoredSpan
from waltz.foils.english.nouns import parse_number
from waltz.sources.formats.pairs import DIRECTIONS
from waltz.valse_release import RELEASE

SourceRow = Mapping[str, object]
"""Row of a source: value by column."""

_COUNTED = (
    "dataset dataset_idx image_file linguistic_phenomena caption answer classes split"
)
_COUNTING = f"{_COUNTED} original_split classes_foil mturk foil"
_ORIGIN = "dataset original_split dataset_idx"
_COREFERENCE = (
    "dataset original_split linguistic_phenomena image_file only_caption caption"
    " classes classes_foil mturk foil"
)
_FILTERED = "classes classes_foil grammaticality_scores nli_scores"

FIELDS = {
    instrument: tuple(names.split())
    for instrument, names in {
        "existence": f"{_COUNTED} original_split classes_foil declarative_statement declarative_statement_foils"
        " provenance_of_foils mturk foil",
        "plurality": f"{_ORIGIN} image_file linguistic_phenomena foil_method {_FILTERED} orig_caption caption mturk"
        " foil",
        "counting-balanced": _COUNTING,
        "counting-small": _COUNTING,
        "counting-adversarial": _COUNTING,
        "relations": f"{_ORIGIN} image_file linguistic_phenomena foil_method caption {_FILTERED} key mturk foil",
        "action-replacement": f"{_ORIGIN} linguistic_phenomena foiling_method image_file caption classes classes_foil"
        " nli_scores mturk foil",
        "actant-swap": f"{_ORIGIN} linguistic_phenomena image_file caption classes classes_foil mturk foil",
        "coreference-standard": _COREFERENCE,
        "coreference-clean": _COREFERENCE,
        "foil-it": "dataset dataset_idx original_split linguistic_phenomena image_file caption classes classes_foil"
        " mturk foil",
    }.items()
}
"""Fields of each instrument's items, in the order of its file."""

PAIR_FIELDS = FIELDS["actant-swap"]
"""Fields of the items of a user's pairs, which nearly every file of the release has."""
UNRELEASED_FIELDS = tuple(
    f"{_ORIGIN} image_file linguistic_phenomena {_FILTERED} caption mturk foil".split()
)
"""Fields of items of instruments that the release lacks: `PAIR_FIELDS` and the scores of the
filters.
"""

PHENOMENA = {"plurality": "plurals", "nouns": "noun phrases"}
"""Names of pieces in the release that differ from ours."""

METHODS = {direction: method for method, direction in DIRECTIONS.items()}
"""Names of directions in the release."""

EXTRA_COLUMNS = (
    "instrument",
    "piece",
    "source",
    "source_id",
    "split",
    "direction",
    "proposal_rank",
    "proposal_score",
    "caption_grammaticality",
    "caption_perplexity",
    "caption_span",
    "foil_span",
    "caption_phrases",
    "foil_phrases",
    "voter",
    "valid",
)
"""Columns that the release has no field for."""


def get_file_name(dataset: str) -> str:
    """Return the name of a data set's file, as in the release if it has the data set:
    `plurals.json` for plurality.
    """
    if dataset in RELEASE:
        return f"{RELEASE[dataset].file}.json"
    return f"{dataset}.json"


def restore_records(items: Iterable[ItemRecord]) -> dict[str, JsonObject]:
    """Return items of the release as their upstream records.

    Args:
        items: Items with the upstream record in `release`.
    Returns:
        Records by item id. If a study replaces the released votes by other annotations, `mturk`
        counts the annotations, and `waltz` holds the released votes.
    """
    records = {}
    for item in items:
        record = _read_release(item)
        released_votes = record["mturk"]
        # The votes of the study, for the answers that the release counts.
        votes = {answer: _get_votes(item)[answer] for answer in released_votes}
        if votes != released_votes:
            record["mturk"] = votes
            record["waltz"] = {"valid": item.valid, "released_mturk": released_votes}
        records[item.item_id] = record
    return records


def build_valse_records(
    items: Iterable[ItemRecord],
    originals: Mapping[str, SourceRow],
    span_method: str,
    source_format: str,
) -> dict[str, JsonObject]:
    """Return items built by waltz with every field of the release and `waltz`.

    Args:
        items: Items of one instrument.
        originals: Rows of the items' source by `source_id`, for the instruments that need them.
        span_method: Method that proposed the foils of relations, for the field `foil_method`.
        source_format: Format of the items' source; the release's names of data sets belong to the
            formats that it used.
    Returns:
        Records by item id; votes are null if nobody voted.
    Raises:
        UserError: A source lacks a row that an item needs.
    """
    records = {}
    for item in items:
        values = _build_common_fields(item)
        # An instrument of the user has the fields that nearly all instruments of the release have.
        names = UNRELEASED_FIELDS
        released = RELEASE.get(item.instrument)
        if released is not None:
            names = FIELDS[item.instrument]
            original = _find_original(item, originals)
            values |= _build_special_fields(item, original, span_method)
            # The release's name would be wrong for images of another source.
            if source_format != released.source_format:
                values["dataset"] = item.source
        record = {name: values[name] for name in names}
        record["waltz"] = _get_extra_columns(item)
        records[item.item_id] = record
    return records


def build_pair_records(items: Iterable[ItemRecord]) -> dict[str, JsonObject]:
    """Return items of a user's pairs with the fields of `PAIR_FIELDS` and, in `waltz`, the user's
    record.
    """
    records = {}
    for item in items:
        values = _build_common_fields(item)
        values["dataset"] = item.source
        values["original_split"] = item.split
        values["dataset_idx"] = item.source_id
        record = {name: values[name] for name in PAIR_FIELDS}
        record["waltz"] = {**_get_extra_columns(item), "release": _read_release(item)}
        records[item.item_id] = record
    return records


def render_json(records: Mapping[str, JsonObject]) -> str:
    """Render a file as in the release: indented by four, ASCII, without a final line break."""
    return json.dumps(records, indent=4)


def _read_release(item: ItemRecord) -> JsonObject:
    """Return the upstream record of an item that the study did not build."""
    assert item.release is not None
    record: JsonObject = json.loads(item.release)
    return record


def _get_extra_columns(item: ItemRecord) -> JsonObject:
    row = to_row(item)
    return {name: row[name] for name in EXTRA_COLUMNS}


def _find_original(item: ItemRecord, originals: Mapping[str, SourceRow]) -> SourceRow:
    """Return the row of the source that an item was built from; empty if its instrument needs none."""
    if not RELEASE[item.instrument].needs_source_row:
        return {}
    original = originals.get(item.source_id or "")
    if original is None:
        raise UserError(
            f"item {item.item_id!r}: {item.source} has no row {item.source_id!r}; run the workflow again"
        )
    return original


def _build_common_fields(item: ItemRecord) -> JsonObject:
    """Return the fields whose content is the same for all instruments."""
    grammaticality = []
    if item.grammaticality is not None:
        grammaticality.append(item.grammaticality)
    return {
        "dataset": _get_dataset(item),
        "dataset_idx": _get_index(item),
        "original_split": _get_split(item),
        "split": _get_split(item),
        "linguistic_phenomena": PHENOMENA.get(item.piece, item.piece),
        "image_file": item.image,
        "caption": item.caption,
        "foil": item.foil,
        "classes": _get_first_phrase(item.caption_phrases),
        "classes_foil": _get_first_phrase(item.foil_phrases),
        "declarative_statement": item.caption,
        "declarative_statement_foils": [item.foil],
        "foiling_method": "change_action",
        "grammaticality_scores": grammaticality,
        "nli_scores": _get_nli_scores(item),
        "key": item.item_id,
        "mturk": _get_votes(item),
    }


def _build_special_fields(
    item: ItemRecord, original: SourceRow, span_method: str
) -> JsonObject:
    """Return the fields whose content depends on the instrument."""
    if item.instrument == "existence":
        return _build_existence_fields(item, original)
    if item.instrument == "plurality":
        return {
            "orig_caption": original["caption"],
            "foil_method": METHODS[item.direction or ""],
        }
    if item.instrument == "relations":
        return {"foil_method": span_method}
    if item.instrument.startswith("counting"):
        # The exchanged phrases are digits.
        number, foil_number = int(item.caption_phrases[0]), int(item.foil_phrases[0])
        return {"answer": number, "classes": number, "classes_foil": foil_number}
    if item.instrument == "action-replacement":
        return {
            "classes": _get_characters(item.caption, item.caption_span),
            "classes_foil": _get_characters(item.foil, item.foil_span),
        }
    if item.instrument.startswith("coreference"):
        caption = str(original["caption"])
        return {"only_caption": caption.strip().rstrip(".").lower()}
    return {}


def _build_existence_fields(item: ItemRecord, original: SourceRow) -> JsonObject:
    """Return the method of existence, and the numbers of things that caption and foil state; a foil
    that affirms states no number.
    """
    # "There are no ..." is true of the image: its number is 0, and the foil states none.
    answer: int | None = 0
    foil_numbers = []
    if item.direction != "zero-to-something":
        answer = parse_number(str(original.get("answer") or ""))
        foil_numbers = [0]
    return {
        "answer": answer,
        "classes": answer,
        "classes_foil": foil_numbers,
        "provenance_of_foils": METHODS[item.direction or ""],
    }


def _get_characters(text: str, span: StoredSpan | None) -> str:
    # Caption and foil of an action differ, so that both have a span.
    assert span is not None
    return text[span.start : span.end]


def _get_dataset(item: ItemRecord) -> str:
    """Return the release's name for the origin of an item's image, or the source if it lacks the
    instrument.
    """
    released = RELEASE.get(item.instrument)
    if released is None:
        return item.source
    return released.dataset


def _get_index(item: ItemRecord) -> str | int:
    """Return COCO's or FOIL-it's id as a number, the image of an action, or else the id in the
    source.
    """
    identifier = str(item.source_id)
    released = RELEASE.get(item.instrument)
    # COCO's and FOIL-it's ids are numbers in the release.
    has_numbers = released is not None and released.numeric_index
    if has_numbers and identifier.isdecimal():
        return int(identifier)
    if item.piece == "actions":
        return item.image
    return identifier


def _get_split(item: ItemRecord) -> str | None:
    """Return the split without the year at its end, e.g. `val` for `val2017`."""
    if item.split is None:
        return None
    return item.split.rstrip("0123456789")


def _get_nli_scores(item: ItemRecord) -> dict[str, list[float] | list[str]]:
    """Return each probability as a list of one value, and the likeliest relation; empty lists
    without probabilities.
    """
    scores = {
        "entail": item.nli_entailment,
        "neutral": item.nli_neutral,
        "contradict": item.nli_contradiction,
    }
    probabilities = {name: score for name, score in scores.items() if score is not None}
    if len(probabilities) < len(scores):
        return {**{name: [] for name in scores}, "pred": []}
    # The first of several maxima.
    likeliest = max(probabilities, key=lambda name: probabilities[name])
    lists = {name: [score] for name, score in probabilities.items()}
    return {**lists, "pred": [likeliest]}


def _get_votes(item: ItemRecord) -> dict[str, int | None]:
    return {
        "foil": item.votes_foil,
        "caption": item.votes_caption,
        "other": item.votes_other,
    }


def _get_first_phrase(phrases: Sequence[str]) -> str:
    """Return the first exchanged phrase of a text; empty without one.

    In an actant swap each text has both fillers, first the filler before its verb.
    """
    if not phrases:
        return ""
    return phrases[0]
