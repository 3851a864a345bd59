"""Arrow schemas of everything that passes between stages."""

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


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


CANDIDATE_FIELDS = [
    _required("item_id", pa.string()),
    _required("instrument", pa.string()),
    _required("piece", pa.string()),
    _required("source", pa.string()),
    pa.field("source_id", pa.string()),
    pa.field("split", pa.string()),
    _required("image", pa.string()),
    _required("caption", pa.string()),
    _required("foil", pa.string()),
    pa.field("caption_span", SPAN),
    pa.field("foil_span", SPAN),
    _required("caption_phrases", pa.list_(pa.string())),
    _required("foil_phrases", pa.list_(pa.string())),
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
    _required("kept", pa.bool_()),
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
            _required("item_id", pa.string()),
            _required("annotator", pa.string()),
            _required("answer", pa.string()),
            _required("caption_position", pa.string()),
        ]
    ),
    key=("item_id", "annotator"),
)
"""One row an answer, as it was presented: see `benchmark.votes`."""

MEASURE_FIELDS = [
    pa.field("value", pa.float64()),
    _required("n", pa.int64()),
    pa.field("ci_low", pa.float64()),
    pa.field("ci_high", pa.float64()),
    pa.field("reason", pa.string()),
]
"""The fields of `core.measure.Measure`."""

STATISTICS = Layout(
    "validation statistics",
    pa.schema(
        [
            _required("dataset", pa.string()),
            _required("metric", pa.string()),
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
            _required("dataset", pa.string()),
            _required("kind", pa.string()),
            _required("items", pa.string()),
            _required("side", pa.string()),
            _required("word", pa.string()),
            _required("count", pa.int64()),
        ]
    ),
    key=("dataset", "kind", "items", "side", "word"),
)
"""How often a word stands in captions or foils (`side`), of all or of the valid `items`."""

FUNNEL = Layout(
    "funnel",
    pa.schema(
        [
            _required("instrument", pa.string()),
            _required("step", pa.string()),
            _required("count", pa.int64()),
            _required("lost", pa.list_(pa.struct([("reason", pa.string()), ("count", pa.int64())]))),
        ]
    ),
    key=("instrument", "step"),
)
"""How many candidates of an instrument are left after each step, and why the others are not."""

ORACLE = Layout(
    "oracle's verdicts",
    pa.schema(
        [
            _required("instrument", pa.string()),
            _required("candidates", pa.string()),
            _required("metric", pa.string()),
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
            _required("instrument", pa.string()),
            _required("judge", pa.string()),
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
            _required("caption_id", pa.string()),
            _required("kind", pa.string()),
            _required("verb", pa.string()),
            _required("image", pa.string()),
            _required("writer", pa.string()),
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
            _required("item_id", pa.string()),
            _required("form", pa.string()),
            _required("condition", pa.string()),
            _required("verb", pa.string()),
            _required("image", pa.string()),
            _required("image_kind", pa.string()),
            _required("caption", pa.string()),
            _required("caption_kind", pa.string()),
            pa.field("verb_span", SPAN),
            _required("match", pa.bool_()),
            _required("group", pa.string()),
        ]
    ),
    key=("item_id",),
)
"""One row an image beside a caption. `form` is `original` or `simplified`, `condition` one of `foils.cv_conditions`;
`group` is the image with the action that an item goes back to; `match` is false where the caption names an action
that the image does not show."""

REPRODUCTION = Layout(
    "construction fidelity",
    pa.schema([_required("instrument", pa.string()), _required("metric", pa.string()), *MEASURE_FIELDS]),
    key=("instrument", "metric"),
)
"""Percent of released items that the foiling functions make again."""

MISSES = Layout(
    "released items not made",
    pa.schema(
        [
            _required("instrument", pa.string()),
            _required("item_id", pa.string()),
            _required("caption", pa.string()),
            _required("foil", pa.string()),
            _required("cause", pa.string()),
        ]
    ),
    key=("instrument", "item_id"),
)
"""Why the foiling functions do not make a released item."""

EVALUATION = Layout(
    "evaluation",
    pa.schema(
        [
            _required("item_id", pa.string()),
            _required("role", pa.string()),
            _required("profile", pa.string()),
            _required("setting", pa.string()),
            pa.field("image", pa.string()),
            pa.field("score", pa.float64()),
            pa.field("tokens", pa.int32()),
            pa.field("probability", pa.float64()),
            pa.field("prediction", pa.string()),
            pa.field("correct", pa.bool_()),
            pa.field("order", pa.string()),
            pa.field("reasoning", pa.string()),
            pa.field("error", pa.string()),
        ]
    ),
    key=("item_id", "role", "profile", "setting"),
)
"""One row an item, role (caption, foil, mismatched), profile and setting. A higher `score` means
that the model likes the text better; `error` says why it is null."""

ATTRIBUTION = Layout(
    "attribution",
    pa.schema(
        [
            _required("item_id", pa.string()),
            _required("role", pa.string()),
            _required("profile", pa.string()),
            _required("setting", pa.string()),
            _required("image", pa.string()),
            _required("text", pa.string()),
            pa.field("explained", pa.string()),
            pa.field("score", pa.float64()),
            pa.field("tokens", pa.list_(pa.string())),
            pa.field("spans", pa.list_(SPAN)),
            pa.field("grid", pa.int32()),
            pa.field("phi", pa.list_(pa.list_(pa.float64()))),
            pa.field("base_value", pa.list_(pa.float64())),
            pa.field("value", pa.list_(pa.float64())),
            pa.field("t_shap", pa.float64()),
            pa.field("t_shap_se", pa.float64()),
            pa.field("reason", pa.string()),
            pa.field("estimator", pa.string()),
            pa.field("asked", pa.int64()),
            pa.field("evaluated", pa.int64()),
            pa.field("residual", pa.float64()),
            pa.field("without_text", pa.list_(pa.float64())),
            pa.field("without_image", pa.list_(pa.float64())),
            pa.field("seed", pa.int64()),
            pa.field("error", pa.string()),
        ]
    ),
    key=("item_id", "role", "profile", "setting"),
)
"""One row an item, role, profile and setting. `explained` is `probability` or `logit`. `tokens` and `spans` are the
text players', which come first in `phi` (players x outputs); grid x grid patches follow, row by row. `without_text` is
the value of the patches alone. `t_shap` and its standard error are shares; `reason` says why one of them is null,
`error` why there is nothing at all."""

METRICS = Layout(
    "metrics",
    pa.schema(
        [
            _required("model", pa.string()),
            _required("dataset", pa.string()),
            _required("profile", pa.string()),
            _required("setting", pa.string()),
            _required("metric", pa.string()),
            *MEASURE_FIELDS,
        ]
    ),
    key=("model", "dataset", "profile", "setting", "metric"),
)
"""One row a model, data set, profile, setting and metric, in percent unless the metric says otherwise."""

COMPARISONS = Layout(
    "paired comparisons",
    pa.schema(
        [
            _required("profile", pa.string()),
            _required("dataset", pa.string()),
            _required("metric", pa.string()),
            _required("model_a", pa.string()),
            _required("model_b", pa.string()),
            _required("test", pa.string()),
            pa.field("difference", pa.float64()),
            pa.field("ci_low", pa.float64()),
            pa.field("ci_high", pa.float64()),
            pa.field("p", pa.float64()),
            pa.field("p_holm", pa.float64()),
            _required("n", pa.int64()),
            pa.field("reason", pa.string()),
        ]
    ),
    key=("profile", "dataset", "metric", "model_a", "model_b"),
)
"""One row two models on the items that both scored: a less b, in percentage points."""

SHARES = Layout(
    "shares of text",
    pa.schema(
        [
            _required("model", pa.string()),
            _required("dataset", pa.string()),
            _required("role", pa.string()),
            _required("profile", pa.string()),
            _required("setting", pa.string()),
            _required("items", pa.int64()),
            *MEASURE_FIELDS,
            pa.field("sd", pa.float64()),
            pa.field("standard_error", pa.float64()),
            _required("standard_error_n", pa.int64()),
            pa.field("noise", pa.float64()),
            pa.field("mm_skew", pa.string()),
            _required("missing", pa.list_(pa.struct([("reason", pa.string()), ("count", pa.int64())]))),
            pa.field("rho", pa.float64()),
            pa.field("rho_low", pa.float64()),
            pa.field("rho_high", pa.float64()),
            pa.field("rho_p", pa.float64()),
            pa.field("rho_reason", pa.string()),
        ]
    ),
    key=("model", "dataset", "role", "profile", "setting"),
)
"""Mean T-SHAP in percent of a model on a data set; `sd` over items and `standard_error` of an item are percentage
points, `noise` the share of variance that estimation adds, `rho` Spearman's correlation with correctness."""

IMAGE_FAULTS = Layout(
    "image faults",
    pa.schema([_required("image", pa.string()), _required("fault", pa.string())]),
    key=("image",),
)
"""One row an image that is missing or cannot be opened, and why."""

SCENE_SCORES = Layout(
    "scene model scores",
    pa.schema(
        [
            _required("model", pa.string()),
            _required("metric", pa.string()),
            *MEASURE_FIELDS,
            pa.field("enough", pa.bool_()),
        ]
    ),
    key=("model", "metric"),
)
"""One row a scene model and metric; `enough` is null where nothing is asked of it."""
