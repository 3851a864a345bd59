"""Layouts of the rows that readers yield: one table for each kind of content, with the same first columns.

`source_id` names a row within its source. `split` is null where neither the format nor the caller names one.
`rejected` is null, or the reason why the row cannot be used; a rejected row may lack its content.
"""

import pyarrow as pa

from waltz.core.schema import Layout


def _build_required_field(name: str, kind: pa.DataType) -> pa.Field:
    """Return a column without nulls."""
    return pa.field(name, kind, nullable=False)


def _build_layout(name: str, columns: list[pa.Field], image: bool = True) -> Layout:
    """Return a layout of common columns and further ones."""
    common = [
        _build_required_field("source", pa.string()),
        _build_required_field("source_id", pa.string()),
        pa.field("split", pa.string()),
        pa.field("image", pa.string(), nullable=not image),
    ]
    return Layout(name, pa.schema([*common, *columns, pa.field("rejected", pa.string())]), key=("source_id",))


CAPTIONS = _build_layout("captions", [_build_required_field("caption", pa.string())])
"""One row for each caption, on one line."""

QUESTIONS = _build_layout(
    "questions",
    [
        _build_required_field("question", pa.string()),
        pa.field("answer", pa.string()),
        _build_required_field("answers", pa.list_(pa.string())),
        _build_required_field("choices", pa.list_(pa.string())),
        pa.field("type", pa.string()),
        pa.field("answer_type", pa.string()),
        pa.field("full_answer", pa.string()),
        pa.field("balanced", pa.bool_()),
    ],
)
"""One row for each question about an image.

`answer` is the right answer, `answers` those of all annotators (VQA), `choices` the wrong answers offered (Visual7W),
`full_answer` a sentence, and `balanced` tells whether the question belongs to the balanced set (GQA)."""

FILLER = pa.struct(
    [
        _build_required_field("role", pa.string()),
        pa.field("noun", pa.string()),
        pa.field("gloss", pa.string()),
        pa.field("box", pa.list_(pa.float64())),
    ]
)
"""Filler of a role: WordNet synset, its first gloss, and its box (left, top, right, bottom) in pixels."""

FRAMES = _build_layout(
    "frames",
    [
        _build_required_field("verb", pa.string()),
        _build_required_field("annotator", pa.int32()),
        pa.field("abstract", pa.string()),
        _build_required_field("roles", pa.list_(FILLER)),
        pa.field("width", pa.int32()),
        pa.field("height", pa.int32()),
    ],
)
"""One row for each annotator of an image. `roles` are in the verb's order; an empty role has a null `noun`.
`abstract` is the verb's sentence with its roles in capitals; width and height are pixels."""

TURN = pa.struct([_build_required_field("question", pa.string()), _build_required_field("answer", pa.string())])
"""A question and its answer."""

TURNS = _build_layout(
    "dialogue turns",
    [
        _build_required_field("caption", pa.string()),
        _build_required_field("round", pa.int32()),
        pa.field("question", pa.string()),
        pa.field("answer", pa.string()),
        _build_required_field("history", pa.list_(TURN)),
    ],
)
"""One row for each round, from 1; `history` holds the rounds before it."""

FOIL_PAIRS = _build_layout(
    "foil pairs",
    [
        _build_required_field("caption_id", pa.string()),
        pa.field("caption", pa.string()),
        _build_required_field("foil", pa.string()),
        _build_required_field("target_word", pa.string()),
        _build_required_field("foil_word", pa.string()),
    ],
)
"""One row for each annotation of FOIL-it. `caption` is the COCO caption that the foil was derived from."""

TEXTS = _build_layout(
    "text tasks",
    [
        _build_required_field("task", pa.string()),
        pa.field("text", pa.string()),
        pa.field("premise", pa.string()),
        pa.field("hypothesis", pa.string()),
        _build_required_field("choices", pa.list_(pa.string())),
        pa.field("gold", pa.int32()),
        _build_required_field("explanations", pa.list_(pa.string())),
        _build_required_field("reconstructed", pa.bool_()),
    ],
    image=False,
)
"""One row for each item without image. `gold` is the index of the answer in `choices`, so its letter is A + gold;
`text` is the wording of the item in its file, choices included; `reconstructed` is true where the file is not the
original release."""
