"""Columns of an exported data set: their meanings, and their types for the `datasets` library and Croissant."""

import json
from typing import Any

import pyarrow as pa

from waltz.core.schema import BENCHMARK, CONDITIONS, SPAN, Layout

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
"""Type of an image in the `datasets` library."""

ITEM_COLUMNS = {
    "item_id": "Name of the item, unique within its configuration. Ids repeat across configurations.",
    "instrument": "The test that the item belongs to.",
    "piece": "The linguistic phenomenon that the instrument tests.",
    "source": "Origin of image and caption.",
    "source_id": "Name of the annotation within its source.",
    "split": "Split of the source, not of this data set.",
    "image": "The image file, unchanged; null where it could not be opened.",
    "image_file": "File name of the image in its source.",
    "caption": "A text that is meant to be true of the image.",
    "foil": "The same text with a phrase exchanged, meant to be false of the image.",
    "caption_span": "Characters of the caption that differ from the foil, from start to before end.",
    "foil_span": "Characters of the foil that differ from the caption.",
    "caption_phrases": "The words exchanged, on the caption's side; balancing counts them.",
    "foil_phrases": "The words exchanged, on the foil's side.",
    "direction": "Kind of exchange within the instrument.",
    "proposal_rank": "Rank of the foil among the proposals of a language model, from 0; null where no model was used.",
    "proposal_score": "Score of that model, higher is better.",
    "grammaticality": "GRUEN grammaticality of the foil.",
    "caption_grammaticality": "GRUEN grammaticality of the caption, where captions were ranked.",
    "caption_perplexity": "Perplexity of the caption, where captions were ranked.",
    "nli_entailment": "Probability that the caption entails the foil, by a natural language inference model.",
    "nli_neutral": "Probability that it does neither.",
    "nli_contradiction": "Probability that the caption contradicts the foil.",
    "voter": "Voters: people, or the oracle of drawn scenes. Null where nobody voted or a release does not say.",
    "votes_caption": "Votes that the caption describes the image and the foil does not. Null where nobody voted.",
    "votes_foil": "Votes that the foil describes the image and the caption does not.",
    "votes_other": "Votes for both, neither or cannot tell.",
    "valid": "True if enough votes are for the caption. Null where nobody voted.",
    "release": "The upstream record as JSON, for items that were not built here.",
}
"""Columns of caption-and-foil items, in their order."""

PROBE_COLUMNS = {
    "item_id": "Name of the item.",
    "form": "original or simplified wording.",
    "condition": "Kind of image and kind of caption of the pair.",
    "verb": "The contextual verb.",
    "image": ITEM_COLUMNS["image"],
    "image_file": ITEM_COLUMNS["image_file"],
    "image_kind": "contextual if the image shows the action of the verb, plain if it does not.",
    "caption": "The text that goes with the image.",
    "caption_kind": "contextual if the caption names the action, plain if it does not.",
    "verb_span": "Characters of the caption's verb, from start to before end.",
    "match": "True if the caption is true of the image; false if it names an action that the image does not show.",
    "group": "The image with the action that the item is derived from; items of a group are not independent.",
}
"""Columns of CV-Probes, in their order."""

OMITTED_COLUMNS = ("kept", "rejected")
"""Columns of the benchmark layout that are not exported because they have the same value for every item."""

CROISSANT_TYPES = {
    pa.string(): "sc:Text",
    pa.bool_(): "sc:Boolean",
    pa.int32(): "sc:Integer",
    pa.int64(): "sc:Integer",
    pa.float64(): "sc:Float",
}


def get_column_descriptions(layout: Layout) -> dict[str, str]:
    """Return the meanings of the columns of an exported layout (`BENCHMARK` or `CONDITIONS`), in their order."""
    return {BENCHMARK.name: ITEM_COLUMNS, CONDITIONS.name: PROBE_COLUMNS}[layout.name]


def build_export_schema(layout: Layout, embedded: bool) -> pa.Schema:
    """Return the Arrow schema of an exported layout, with the metadata that marks images for the `datasets` library.

    Args:
        layout: `BENCHMARK` or `CONDITIONS`.
        embedded: Whether the images are included; otherwise `image` is missing, and `image_file` names them.
    """
    kinds = {field.name: field.type for field in layout.schema} | {"image": IMAGE, "image_file": pa.string()}
    names = [name for name in get_column_descriptions(layout) if embedded or name != "image"]
    schema = pa.schema([pa.field(name, kinds[name]) for name in names])
    features = {field.name: _describe_feature(field.type) for field in schema}
    info = json.dumps({"info": {"features": features}}, separators=(",", ":"))
    return schema.with_metadata({"huggingface": info})


def get_croissant_type(kind: pa.DataType) -> str:
    """Return Croissant's name of the type of a scalar column."""
    return "sc:ImageObject" if kind == IMAGE else CROISSANT_TYPES[kind]


def _describe_feature(kind: pa.DataType) -> dict[str, Any]:
    """Return a column's type as the `datasets` library describes it."""
    if kind == IMAGE:
        return {"_type": "Image"}
    if kind == SPAN:
        return {field.name: _describe_feature(field.type) for field in kind}
    if pa.types.is_list(kind):
        return {"feature": _describe_feature(kind.value_type), "length": -1, "_type": "Sequence"}
    return {"dtype": {pa.float64(): "float64"}.get(kind, str(kind)), "_type": "Value"}
