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

    def with_dataset(self) -> "Layout":
        """Return the layout of files that hold the rows of several data sets."""
        schema = pa.schema([required_field("dataset", pa.string()), *self.schema])
        return Layout(self.name, schema, ("dataset", *self.key))


def required_field(name: str, kind: pa.DataType) -> pa.Field:
    """A column that holds no null."""
    return pa.field(name, kind, nullable=False)


CANDIDATE_FIELDS = [
    required_field("item_id", pa.string()),
    required_field("instrument", pa.string()),
    required_field("piece", pa.string()),
    required_field("source", pa.string()),
    pa.field("source_id", pa.string()),
    pa.field("split", pa.string()),
    required_field("image", pa.string()),
    required_field("caption", pa.string()),
    required_field("foil", pa.string()),
    pa.field("caption_span", SPAN),
    pa.field("foil_span", SPAN),
    required_field("caption_phrases", pa.list_(pa.string())),
    required_field("foil_phrases", pa.list_(pa.string())),
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
    required_field("kept", pa.bool_()),
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
            required_field("item_id", pa.string()),
            required_field("annotator", pa.string()),
            required_field("answer", pa.string()),
            required_field("caption_position", pa.string()),
        ]
    ),
    key=("item_id", "annotator"),
)
"""One row an answer, as it was presented: see `benchmark.votes`."""

MEASURE_FIELDS = [
    pa.field("value", pa.float64()),
    required_field("n", pa.int64()),
    pa.field("ci_low", pa.float64()),
    pa.field("ci_high", pa.float64()),
    pa.field("reason", pa.string()),
]
"""The fields of `core.measure.Measure`."""

STATISTICS = Layout(
    "validation statistics",
    pa.schema(
        [
            required_field("dataset", pa.string()),
            required_field("metric", pa.string()),
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
            required_field("dataset", pa.string()),
            required_field("kind", pa.string()),
            required_field("items", pa.string()),
            required_field("side", pa.string()),
            required_field("word", pa.string()),
            required_field("count", pa.int64()),
        ]
    ),
    key=("dataset", "kind", "items", "side", "word"),
)
"""How often a word stands in captions or foils (`side`), of all or of the valid `items`."""

FUNNEL = Layout(
    "funnel",
    pa.schema(
        [
            required_field("instrument", pa.string()),
            required_field("step", pa.string()),
            required_field("count", pa.int64()),
            required_field("lost", pa.list_(pa.struct([("reason", pa.string()), ("count", pa.int64())]))),
        ]
    ),
    key=("instrument", "step"),
)
"""How many candidates of an instrument are left after each step, and why the others are not."""

ORACLE = Layout(
    "oracle's verdicts",
    pa.schema(
        [
            required_field("instrument", pa.string()),
            required_field("candidates", pa.string()),
            required_field("metric", pa.string()),
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
            required_field("instrument", pa.string()),
            required_field("judge", pa.string()),
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
            required_field("caption_id", pa.string()),
            required_field("kind", pa.string()),
            required_field("verb", pa.string()),
            required_field("image", pa.string()),
            required_field("writer", pa.string()),
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
            required_field("item_id", pa.string()),
            required_field("form", pa.string()),
            required_field("condition", pa.string()),
            required_field("verb", pa.string()),
            required_field("image", pa.string()),
            required_field("image_kind", pa.string()),
            required_field("caption", pa.string()),
            required_field("caption_kind", pa.string()),
            pa.field("verb_span", SPAN),
            required_field("match", pa.bool_()),
            required_field("group", pa.string()),
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
    pa.schema([required_field("instrument", pa.string()), required_field("metric", pa.string()), *MEASURE_FIELDS]),
    key=("instrument", "metric"),
)
"""Percent of released items that the foiling functions make again."""

MISSES = Layout(
    "released items not made",
    pa.schema(
        [
            required_field("instrument", pa.string()),
            required_field("item_id", pa.string()),
            required_field("caption", pa.string()),
            required_field("foil", pa.string()),
            required_field("cause", pa.string()),
        ]
    ),
    key=("instrument", "item_id"),
)
"""Why the foiling functions do not make a released item."""

IMAGE_FAULTS = Layout(
    "image faults",
    pa.schema([required_field("image", pa.string()), required_field("fault", pa.string())]),
    key=("image",),
)
"""One row an image that is missing or cannot be opened, and why."""

SCENE_SCORES = Layout(
    "scene model scores",
    pa.schema(
        [
            required_field("model", pa.string()),
            required_field("metric", pa.string()),
            *MEASURE_FIELDS,
            pa.field("enough", pa.bool_()),
        ]
    ),
    key=("model", "metric"),
)
"""One row a scene model and metric; `enough` is null where nothing is asked of it."""


pass

EVALUATION = Layout(
    "evaluation",
    pa.schema(
        [
            required_field("item_id", pa.string()),
            required_field("role", pa.string()),
            required_field("profile", pa.string()),
            required_field("setting", pa.string()),
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
            required_field("item_id", pa.string()),
            required_field("role", pa.string()),
            required_field("profile", pa.string()),
            required_field("setting", pa.string()),
            pa.field("image", pa.string()),
            required_field("text", pa.string()),
            pa.field("explained", pa.string()),
            pa.field("outputs", pa.list_(pa.string())),
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
"""One row an item, role, profile and setting. `explained` is the value of the game, such as `probability` or `logit`;
`outputs` are the tokens of a decoder that it is of, or the one answer of an encoder that answers. `tokens` and `spans`
are the text players', which come first in `phi` (players x outputs); grid x grid patches follow, row by row.
`without_text` is the value of the patches alone. `t_shap` and its standard error are shares; `reason` says why one of
them is null, `error` why there is nothing at all. Settings of encoders: `alignment`, and `answering` for questions,
with `:regions` behind it where regions found before play in the place of patches. Of decoders: `pairwise` and `single`
for answers; in stage consistency `post-hoc:answer`, `post-hoc:explanation`, `cot:answer` and `cot:explanation`, of
edited items `post-hoc-edited:answer` and `post-hoc-edited:explanation`."""
OF_REGIONS = ":regions"
"""Ends the setting of an attribution whose image players are regions."""

METRICS = Layout(
    "metrics",
    pa.schema(
        [
            required_field("model", pa.string()),
            required_field("dataset", pa.string()),
            required_field("profile", pa.string()),
            required_field("setting", pa.string()),
            required_field("metric", pa.string()),
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
            required_field("profile", pa.string()),
            required_field("dataset", pa.string()),
            required_field("setting", pa.string()),
            required_field("metric", pa.string()),
            required_field("model_a", pa.string()),
            required_field("model_b", pa.string()),
            required_field("test", pa.string()),
            pa.field("difference", pa.float64()),
            pa.field("ci_low", pa.float64()),
            pa.field("ci_high", pa.float64()),
            pa.field("p", pa.float64()),
            pa.field("p_holm", pa.float64()),
            required_field("n", pa.int64()),
            pa.field("reason", pa.string()),
        ]
    ),
    key=("profile", "dataset", "setting", "metric", "model_a", "model_b"),
)
"""One row two models on the items that both scored: a less b, in percentage points. `setting`: `single` compares what
each makes of each text for itself (an encoder's `alignment`, a language model's `perplexity`, a decoder's `single`),
`pairwise` which of caption and foil decoders choose; either as well `-after-cot`."""

SHARES = Layout(
    "shares of text",
    pa.schema(
        [
            required_field("model", pa.string()),
            required_field("dataset", pa.string()),
            required_field("role", pa.string()),
            required_field("profile", pa.string()),
            required_field("setting", pa.string()),
            required_field("items", pa.int64()),
            *MEASURE_FIELDS,
            pa.field("sd", pa.float64()),
            pa.field("standard_error", pa.float64()),
            required_field("standard_error_n", pa.int64()),
            pa.field("noise", pa.float64()),
            pa.field("mm_skew", pa.string()),
            required_field("missing", pa.list_(pa.struct([("reason", pa.string()), ("count", pa.int64())]))),
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

CONSISTENCY = Layout(
    "self-consistency tests",
    pa.schema(
        [
            required_field("item_id", pa.string()),
            required_field("profile", pa.string()),
            required_field("setting", pa.string()),
            required_field("test", pa.string()),
            required_field("seed", pa.int64()),
            pa.field("image", pa.string()),
            required_field("text", pa.string()),
            pa.field("verdict", pa.int32()),
            pa.field("score", pa.float64()),
            pa.field("answer", pa.string()),
            pa.field("edited_answer", pa.string()),
            pa.field("reason", pa.string()),
            pa.field("explanation", pa.string()),
            pa.field("edited_input", pa.string()),
            pa.field("edited_explanation", pa.string()),
            pa.field("inserted", pa.string()),
            pa.field("flipped", pa.bool_()),
            pa.field(
                "exchanges",
                pa.list_(
                    pa.struct(
                        [
                            ("kind", pa.string()),
                            ("seed", pa.int64()),
                            ("given", pa.string()),
                            ("reply", pa.string()),
                        ]
                    )
                ),
            ),
            pa.field("error", pa.string()),
        ]
    ),
    key=("item_id", "profile", "setting", "test", "seed"),
)
"""One row an item, test and seed. `setting` is how the item is asked: `pairwise`, `open` or `choice`; `text` is the
item in words, as it is before any edit. `verdict` is 1 where the model is consistent; `reason` says why there is none
or what decided it, `error` why the item could not be asked. `flipped` says whether the counterfactual edit told of
changed the answer; where none did, it is the first that was tried. `exchanges` are all requests and replies, what a
prompt needed beside the question as JSON in `given`."""

CC_SHAP = Layout(
    "CC-SHAP",
    pa.schema(
        [
            required_field("item_id", pa.string()),
            required_field("profile", pa.string()),
            required_field("setting", pa.string()),
            required_field("kind", pa.string()),
            required_field("seed", pa.int64()),
            pa.field("image", pa.string()),
            pa.field("value", pa.float64()),
            pa.field("standard_error", pa.float64()),
            pa.field("correlation", pa.float64()),
            pa.field("mse", pa.float64()),
            pa.field("variance", pa.float64()),
            pa.field("kl", pa.float64()),
            pa.field("js", pa.float64()),
            pa.field("with_weak", pa.float64()),
            pa.field("weak_answer", pa.int32()),
            pa.field("weak_explanation", pa.int32()),
            pa.field("ratios_answer", pa.list_(pa.float64())),
            pa.field("ratios_explanation", pa.list_(pa.float64())),
            pa.field("t_shap_answer", pa.float64()),
            pa.field("t_shap_answer_se", pa.float64()),
            pa.field("t_shap_explanation", pa.float64()),
            pa.field("t_shap_explanation_se", pa.float64()),
            pa.field("answer", pa.string()),
            pa.field("explanation", pa.string()),
            pa.field("evaluated", pa.int64()),
            pa.field("reason", pa.string()),
            pa.field("error", pa.string()),
        ]
    ),
    key=("item_id", "profile", "setting", "kind", "seed"),
)
"""One row an item, kind of explanation (`post-hoc`, `cot`) and seed. `value` is CC-SHAP, the five after its standard
error its companions, `with_weak` CC-SHAP with the tokens to which next to nothing contributes; `weak_answer` and
`weak_explanation` count those. `t_shap_explanation` is null for text tasks."""

EDITED = Layout(
    "contributions under edits",
    pa.schema(
        [
            required_field("item_id", pa.string()),
            required_field("profile", pa.string()),
            required_field("setting", pa.string()),
            required_field("seed", pa.int64()),
            pa.field("image", pa.string()),
            pa.field("answer", pa.float64()),
            pa.field("explanation", pa.float64()),
            pa.field("inserted_answer", pa.float64()),
            pa.field("inserted_explanation", pa.float64()),
            pa.field("edited_input", pa.string()),
            pa.field("inserted", pa.string()),
            pa.field("flipped", pa.bool_()),
            pa.field("edited_answer", pa.string()),
            pa.field("edited_explanation", pa.string()),
            pa.field("cc_shap", pa.float64()),
            pa.field("reason", pa.string()),
            pa.field("error", pa.string()),
        ]
    ),
    key=("item_id", "profile", "setting", "seed"),
)
"""One row an item with a counterfactual edit, which changed the answer (`flipped`) or not: how far contributions to the
answer and to the explanation moved (cosine distance), and what share of them the inserted players carry.
`edited_answer`, `edited_explanation` and `cc_shap` are of the edited item."""
