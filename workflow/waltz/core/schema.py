"""Arrow schemas of what is built and passes between stages; those of what models give: `model_schema`."""

from dataclasses import dataclass

import pyarrow as pa

SPAN = pa.struct([("start", pa.int32()), ("end", pa.int32())])
"""Half-open range of characters."""


@dataclass(frozen=True)
class Layout:
    """The declared form of one kind of Parquet file.

    Attributes:
        name: What the file is, for error messages.
        schema: Columns in order; a field that is not nullable holds no null.
        key: Columns that together are unique.
    """

    name: str
    schema: pa.Schema
    key: tuple[str, ...]


def required(name: str, kind: pa.DataType) -> pa.Field:
    """A column that holds no null."""
    return pa.field(name, kind, nullable=False)


CANDIDATE_FIELDS = [
    required("item_id", pa.string()),
    required("instrument", pa.string()),
    required("piece", pa.string()),
    required("source", pa.string()),
    pa.field("source_id", pa.string()),
    pa.field("split", pa.string()),
    required("image", pa.string()),
    required("caption", pa.string()),
    required("foil", pa.string()),
    pa.field("caption_span", SPAN),
    pa.field("foil_span", SPAN),
    required("caption_phrases", pa.list_(pa.string())),
    required("foil_phrases", pa.list_(pa.string())),
    pa.field("direction", pa.string()),
    pa.field("proposal_rank", pa.int32()),
    pa.field("proposal_score", pa.float64()),
]

CANDIDATES = Layout("candidates", pa.schema([*CANDIDATE_FIELDS, pa.field("rejected", pa.string())]), key=("item_id",))
"""One row a candidate; `rejected` says why the rules of its instrument cannot use it."""

FILTER_FIELDS = [
    pa.field("grammaticality", pa.float64()),
    pa.field("caption_grammaticality", pa.float64()),
    pa.field("caption_perplexity", pa.float64()),
    pa.field("nli_entailment", pa.float64()),
    pa.field("nli_neutral", pa.float64()),
    pa.field("nli_contradiction", pa.float64()),
    required("kept", pa.bool_()),
    pa.field("rejected", pa.string()),
]

FILTERED = Layout("filtered candidates", pa.schema([*CANDIDATE_FIELDS, *FILTER_FIELDS]), key=("item_id",))
"""One row a candidate with what the filters say. `grammaticality` is the foil's; that of the caption, and its
perplexity, are there where alternatives of one caption are ranked."""

VOTE_FIELDS = [
    pa.field("voter", pa.string()),
    pa.field("votes_caption", pa.int32()),
    pa.field("votes_foil", pa.int32()),
    pa.field("votes_other", pa.int32()),
    pa.field("valid", pa.bool_()),
]

BENCHMARK = Layout(
    "benchmark",
    pa.schema([*CANDIDATE_FIELDS, *FILTER_FIELDS, *VOTE_FIELDS, pa.field("release", pa.string())]),
    key=("item_id",),
)
"""One row an item. `valid` is null where nobody voted; `voter` is `people` or `oracle`; `release` is the
upstream record as JSON."""

ANNOTATIONS = Layout(
    "annotations",
    pa.schema(
        [
            required("item_id", pa.string()),
            required("annotator", pa.string()),
            required("answer", pa.string()),
            required("caption_position", pa.string()),
        ]
    ),
    key=("item_id", "annotator"),
)
"""One row an answer, as it was presented: see `benchmark.votes`."""

MEASURE_FIELDS = [
    pa.field("value", pa.float64()),
    required("n", pa.int64()),
    pa.field("ci_low", pa.float64()),
    pa.field("ci_high", pa.float64()),
    pa.field("reason", pa.string()),
]
"""The fields of `core.measure.Measure`."""

STATISTICS = Layout(
    "validation statistics",
    pa.schema(
        [
            required("dataset", pa.string()),
            required("metric", pa.string()),
            *MEASURE_FIELDS,
        ]
    ),
    key=("dataset", "metric"),
)
"""One row a data set and metric; `reason` says why a value is null."""

FREQUENCIES = Layout(
    "frequencies",
    pa.schema(
        [
            required("dataset", pa.string()),
            required("kind", pa.string()),
            required("items", pa.string()),
            required("side", pa.string()),
            required("word", pa.string()),
            required("count", pa.int64()),
        ]
    ),
    key=("dataset", "kind", "items", "side", "word"),
)
"""How often a word stands in captions or foils (`side`), of all or of the valid `items`."""

FUNNEL = Layout(
    "funnel",
    pa.schema(
        [
            required("instrument", pa.string()),
            required("step", pa.string()),
            required("count", pa.int64()),
            required("lost", pa.list_(pa.struct([("reason", pa.string()), ("count", pa.int64())]))),
        ]
    ),
    key=("instrument", "step"),
)
"""How many candidates of an instrument are left after each step, and why the others are not."""

ORACLE = Layout(
    "oracle's verdicts",
    pa.schema(
        [
            required("instrument", pa.string()),
            required("candidates", pa.string()),
            required("metric", pa.string()),
            *MEASURE_FIELDS,
        ]
    ),
    key=("instrument", "candidates", "metric"),
)
"""Shares of captions that are true, foils that are false and sentences inside the grammar, by the scenes' oracle."""

AUDIT = Layout(
    "blind audit",
    pa.schema(
        [
            required("instrument", pa.string()),
            required("judge", pa.string()),
            *MEASURE_FIELDS,
            pa.field("warning", pa.string()),
        ]
    ),
    key=("instrument", "judge"),
)
"""Percent of pairs in which a judge that sees no image prefers the caption."""

PROBE_CAPTIONS = Layout(
    "CV-Probes' captions",
    pa.schema(
        [
            required("caption_id", pa.string()),
            required("kind", pa.string()),
            required("verb", pa.string()),
            required("image", pa.string()),
            required("writer", pa.string()),
            pa.field("caption", pa.string()),
            pa.field("simplified", pa.string()),
            pa.field("not_simplified", pa.string()),
            pa.field("plain_image", pa.string()),
            pa.field("grammaticality", pa.float64()),
            pa.field("rejected", pa.string()),
        ]
    ),
    key=("caption_id",),
)
"""One row a caption that was made or written for an image with an action; `rejected` says why it is not used, and
`not_simplified` why it has no simplified form. `kind` is `contextual` or `plain`; `writer` is `rule`, the name of a
model, an annotator or `scenes`; `plain_image` shows what a plain caption says without the action."""

CONDITIONS = Layout(
    "CV-Probes",
    pa.schema(
        [
            required("item_id", pa.string()),
            required("form", pa.string()),
            required("condition", pa.string()),
            required("verb", pa.string()),
            required("image", pa.string()),
            required("image_kind", pa.string()),
            required("caption", pa.string()),
            required("caption_kind", pa.string()),
            pa.field("verb_span", SPAN),
            required("match", pa.bool_()),
            required("group", pa.string()),
        ]
    ),
    key=("item_id",),
)
"""One row an image beside a caption. `form` is `original` or `simplified`, `condition` one of `PROBE_CONDITIONS`;
`group` is the image with the action that an item goes back to; `match` is false where the caption names an action
that the image does not show."""
PROBE_CONDITIONS = ("+img+cap", "+img-cap", "-img+cap", "-img-cap")
"""Kind of image and of caption, in the order of the paper's tables."""

REPRODUCTION = Layout(
    "construction fidelity",
    pa.schema([required("instrument", pa.string()), required("metric", pa.string()), *MEASURE_FIELDS]),
    key=("instrument", "metric"),
)
"""Percent of released items that the foiling functions make again."""

MISSES = Layout(
    "released items not made",
    pa.schema(
        [
            required("instrument", pa.string()),
            required("item_id", pa.string()),
            required("caption", pa.string()),
            required("foil", pa.string()),
            required("cause", pa.string()),
        ]
    ),
    key=("instrument", "item_id"),
)
"""Why the foiling functions do not make a released item."""

IMAGE_FAULTS = Layout(
    "image faults",
    pa.schema([required("image", pa.string()), required("fault", pa.string())]),
    key=("image",),
)
"""One row an image that is missing or cannot be opened, and why."""

SCENE_SCORES = Layout(
    "scene model scores",
    pa.schema(
        [
            required("model", pa.string()),
            required("metric", pa.string()),
            *MEASURE_FIELDS,
            pa.field("enough", pa.bool_()),
        ]
    ),
    key=("model", "metric"),
)
"""One row a scene model and metric; `enough` is null where nothing is asked of it."""
