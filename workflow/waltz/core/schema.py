"""Layouts of all Parquet files that pass between stages: columns, types and keys."""

from dataclasses import dataclass

import pyarrow as pa

SPAN = pa.struct([("start", pa.int32()), ("end", pa.int32())])
"""Half-open range of characters."""
REASON_COUNT = pa.struct([("reason", pa.string()), ("count", pa.int64())])
"""Number of items with a reason."""
EXCHANGE = pa.struct([("kind", pa.string()), ("seed", pa.int64()), ("given", pa.string()), ("reply", pa.string())])
"""A prompt and what the model generated."""

POSITION = "position"
"""Column of a shard with the position of its rows in the whole."""


@dataclass(frozen=True)
class Layout:
    """Layout of one kind of Parquet file.

    Attributes:
        name: Name for error messages.
        schema: Columns in order.
        key: Columns that together are unique.
    """

    name: str
    schema: pa.Schema
    key: tuple[str, ...]

    def with_dataset(self) -> "Layout":
        """Return the layout of files that hold the rows of several data sets."""
        schema = pa.schema([*build_required(pa.string(), "dataset"), *self.schema])
        return Layout(self.name, schema, ("dataset", *self.key))

    def with_position(self) -> "Layout":
        """Return the layout of a shard whose rows say where they stand in the whole: lists that sort as they do."""
        schema = pa.schema([*self.schema, pa.field(POSITION, pa.list_(pa.int32()), nullable=False)])
        return Layout(self.name, schema, self.key)


def build_required(kind: pa.DataType, *names: str) -> list[pa.Field]:
    """Return columns of one type without nulls."""
    return [pa.field(name, kind, nullable=False) for name in names]


def build_nullable(kind: pa.DataType, *names: str) -> list[pa.Field]:
    """Return columns of one type in which nulls may stand."""
    return [pa.field(name, kind) for name in names]


CANDIDATE_FIELDS = [
    *build_required(pa.string(), "item_id", "instrument", "piece", "source"),
    *build_nullable(pa.string(), "source_id", "split"),
    *build_required(pa.string(), "image", "caption", "foil"),
    *build_nullable(SPAN, "caption_span", "foil_span"),
    *build_required(pa.list_(pa.string()), "caption_phrases", "foil_phrases"),
    *build_nullable(pa.string(), "direction"),
    *build_nullable(pa.int32(), "proposal_rank"),
    *build_nullable(pa.float64(), "proposal_score"),
]

CANDIDATES = Layout("candidates", pa.schema([*CANDIDATE_FIELDS, pa.field("rejected", pa.string())]), key=("item_id",))
"""One row per candidate. `rejected` is the reason why the rules of its instrument cannot use it."""

FILTER_FIELDS = [
    *build_nullable(
        pa.float64(),
        "grammaticality",
        "caption_grammaticality",
        "caption_perplexity",
        "nli_entailment",
        "nli_neutral",
        "nli_contradiction",
    ),
    *build_required(pa.bool_(), "kept"),
    *build_nullable(pa.string(), "rejected"),
]

FILTERED = Layout("filtered candidates", pa.schema([*CANDIDATE_FIELDS, *FILTER_FIELDS]), key=("item_id",))
"""One row per candidate with the scores of the filters. `grammaticality` is the foil's; the caption's grammaticality
and perplexity are null unless alternatives of one caption are ranked."""

VOTE_FIELDS = [
    *build_nullable(pa.string(), "voter"),
    *build_nullable(pa.int32(), "votes_caption", "votes_foil", "votes_other"),
    *build_nullable(pa.bool_(), "valid"),
]

BENCHMARK = Layout(
    "benchmark",
    pa.schema([*CANDIDATE_FIELDS, *FILTER_FIELDS, *VOTE_FIELDS, pa.field("release", pa.string())]),
    key=("item_id",),
)
"""One row per item. `valid` is null without votes; `voter` is `people` or `oracle`; `release` is the upstream record as
JSON."""

ANNOTATIONS = Layout(
    "annotations",
    pa.schema(build_required(pa.string(), "item_id", "annotator", "answer", "caption_position")),
    key=("item_id", "annotator"),
)
"""One row per answer of an annotator; see `benchmark.votes`."""

MEASURE_FIELDS = [
    *build_nullable(pa.float64(), "value"),
    *build_required(pa.int64(), "n"),
    *build_nullable(pa.float64(), "ci_low", "ci_high"),
    *build_nullable(pa.string(), "reason"),
]
"""The fields of `intervals.Measure`."""

STATISTICS = Layout(
    "validation statistics",
    pa.schema([*build_required(pa.string(), "dataset", "metric"), *MEASURE_FIELDS]),
    key=("dataset", "metric"),
)
"""One row per data set and metric. `reason` says why a value is null."""

FREQUENCIES = Layout(
    "frequencies",
    pa.schema(
        [*build_required(pa.string(), "dataset", "kind", "items", "side", "word"), *build_required(pa.int64(), "count")]
    ),
    key=("dataset", "kind", "items", "side", "word"),
)
"""Number of times that a word occurs in captions or foils (`side`) of all or of the valid `items`."""

FUNNEL = Layout(
    "funnel",
    pa.schema(
        [
            *build_required(pa.string(), "instrument", "step"),
            *build_required(pa.int64(), "count"),
            *build_required(pa.list_(REASON_COUNT), "lost"),
        ]
    ),
    key=("instrument", "step"),
)
"""Number of candidates of an instrument after each step, and the reasons why the others were lost."""

ORACLE = Layout(
    "oracle's verdicts",
    pa.schema([*build_required(pa.string(), "instrument", "candidates", "metric"), *MEASURE_FIELDS]),
    key=("instrument", "candidates", "metric"),
)
"""Shares of true captions, of false foils and of sentences inside the grammar, by the scenes' oracle."""

AUDIT = Layout(
    "blind audit",
    pa.schema(
        [*build_required(pa.string(), "instrument", "judge"), *MEASURE_FIELDS, *build_nullable(pa.string(), "warning")]
    ),
    key=("instrument", "judge"),
)
"""Percent of pairs in which a judge that sees no image prefers the caption."""

PROBE_CAPTIONS = Layout(
    "CV-Probes' captions",
    pa.schema(
        [
            *build_required(pa.string(), "caption_id", "kind", "verb", "image", "writer"),
            *build_nullable(pa.string(), "caption", "simplified", "not_simplified", "plain_image"),
            *build_nullable(pa.float64(), "grammaticality"),
            *build_nullable(pa.string(), "rejected"),
        ]
    ),
    key=("caption_id",),
)
"""One row per caption of an image with an action. `rejected` says why it is not used, `not_simplified` why it has no
simplified form. `kind` is `contextual` or `plain`; `writer` is `rule`, the name of a model, an annotator or `scenes`;
`plain_image` shows what a plain caption says without the action."""

CONDITIONS = Layout(
    "CV-Probes",
    pa.schema(
        [
            *build_required(
                pa.string(), "item_id", "form", "condition", "verb", "image", "image_kind", "caption", "caption_kind"
            ),
            *build_nullable(SPAN, "verb_span"),
            *build_required(pa.bool_(), "match"),
            *build_required(pa.string(), "group"),
        ]
    ),
    key=("item_id",),
)
"""One row per image and caption. `form` is `original` or `simplified`, `condition` one of `PROBE_CONDITIONS`;
`group` is the image with the action that an item goes back to; `match` is false where the caption names an action
that the image does not show."""
PROBE_CONDITIONS = ("+img+cap", "+img-cap", "-img+cap", "-img-cap")
"""Kind of image and of caption, in the order of the paper's tables."""

REPRODUCTION = Layout(
    "construction fidelity",
    pa.schema([*build_required(pa.string(), "instrument", "metric"), *MEASURE_FIELDS]),
    key=("instrument", "metric"),
)
"""Percent of released items that the foiling functions reproduce."""

MISSES = Layout(
    "released items not reproduced",
    pa.schema(build_required(pa.string(), "instrument", "item_id", "caption", "foil", "cause")),
    key=("instrument", "item_id"),
)
"""Released items that the foiling functions do not reproduce, with the cause."""

IMAGE_FAULTS = Layout(
    "image faults",
    pa.schema(build_required(pa.string(), "image", "fault")),
    key=("image",),
)
"""One row per image that is missing or cannot be opened, with the fault."""

SCENE_SCORES = Layout(
    "scene model scores",
    pa.schema(
        [*build_required(pa.string(), "model", "metric"), *MEASURE_FIELDS, *build_nullable(pa.bool_(), "enough")]
    ),
    key=("model", "metric"),
)
"""One row per scene model and metric. `enough` is null for a metric without a threshold."""

EVALUATION = Layout(
    "evaluation",
    pa.schema(
        [
            *build_required(pa.string(), "item_id", "role", "profile", "setting"),
            *build_nullable(pa.string(), "image"),
            *build_nullable(pa.float64(), "score"),
            *build_nullable(pa.int32(), "tokens"),
            *build_nullable(pa.float64(), "probability"),
            *build_nullable(pa.string(), "prediction"),
            *build_nullable(pa.bool_(), "correct"),
            *build_nullable(pa.string(), "order", "reasoning", "error"),
        ]
    ),
    key=("item_id", "role", "profile", "setting"),
)
"""One row per item, role (caption, foil, mismatched), profile and setting. A higher `score` means that the model
prefers the text; `error` says why it is null. A recorded answer without log-probabilities has no score."""

ATTRIBUTION = Layout(
    "attribution",
    pa.schema(
        [
            *build_required(pa.string(), "item_id", "role", "profile", "setting"),
            *build_nullable(pa.string(), "image"),
            *build_required(pa.string(), "text"),
            *build_nullable(pa.string(), "explained"),
            *build_nullable(pa.list_(pa.string()), "outputs"),
            *build_nullable(pa.float64(), "score"),
            *build_nullable(pa.list_(pa.string()), "tokens"),
            *build_nullable(pa.list_(SPAN), "spans"),
            *build_nullable(pa.int32(), "grid"),
            *build_nullable(pa.list_(pa.list_(pa.float64())), "phi"),
            *build_nullable(pa.list_(pa.float64()), "base_value", "value"),
            *build_nullable(pa.float64(), "t_shap", "t_shap_se"),
            *build_nullable(pa.string(), "reason", "estimator"),
            *build_nullable(pa.int64(), "budget", "evaluated"),
            *build_nullable(pa.float64(), "residual"),
            *build_nullable(pa.list_(pa.float64()), "without_text", "without_image"),
            *build_nullable(pa.int64(), "seed"),
            *build_nullable(pa.string(), "error"),
        ]
    ),
    key=("item_id", "role", "profile", "setting"),
)
"""One row per item, role, profile and setting. `explained` is the value of the game, such as `probability` or `logit`;
`outputs` are the explained tokens of a decoder, or the one answer of an encoder with an answering head;
recorded runs may hold contribution ratios in percent as `phi`, with `explained` `contribution ratio`. `tokens` and
`spans` belong to the text players, which come first in `phi` (players x outputs); grid x grid patches follow, row by
row. `budget` is the number of coalitions that the estimator may evaluate, `evaluated` that of distinct inputs.
`without_text` is the value of the patches alone. `t_shap` and its standard error are shares; `reason` says why one of
them is null, `error` why all numbers are. Settings of encoders: `alignment`, and `answering` for questions, followed by
`:regions` where precomputed regions are the players. Of decoders: `pairwise` and `single` for answers; in stage
consistency `post-hoc:answer`, `post-hoc:explanation`, `cot:answer` and `cot:explanation`, of edited items
`post-hoc-edited:answer` and `post-hoc-edited:explanation`."""
OF_REGIONS = ":regions"
"""Ends the setting of an attribution whose image players are regions."""

METRICS = Layout(
    "metrics",
    pa.schema([*build_required(pa.string(), "model", "dataset", "profile", "setting", "metric"), *MEASURE_FIELDS]),
    key=("model", "dataset", "profile", "setting", "metric"),
)
"""One row per model, data set, profile, setting and metric, in percent unless the metric says otherwise."""

COMPARISONS = Layout(
    "paired comparisons",
    pa.schema(
        [
            *build_required(pa.string(), "profile", "dataset", "setting", "metric", "model_a", "model_b", "test"),
            *build_nullable(pa.float64(), "difference", "ci_low", "ci_high", "p", "p_holm"),
            *build_required(pa.int64(), "n"),
            *build_nullable(pa.string(), "reason"),
        ]
    ),
    key=("profile", "dataset", "setting", "metric", "model_a", "model_b"),
)
"""One row per pair of models on the items that both scored: a minus b, in percentage points. `setting`: `single`
compares scores of single texts (an encoder's `alignment`, a language model's `perplexity`, a decoder's `single`),
`pairwise` the choices of decoders between caption and foil; both also with `-after-cot`."""

DETECTABLE = Layout(
    "smallest differences that paired tests show",
    pa.schema(
        [
            *build_required(pa.string(), "profile", "dataset", "setting", "metric", "model_a", "model_b"),
            *build_required(pa.float64(), "difference"),
            *build_nullable(pa.float64(), "detectable"),
            *build_required(pa.int64(), "n"),
        ]
    ),
    key=("profile", "dataset", "setting", "metric", "model_a", "model_b"),
)
"""One row per pair of models of one kind on the items that both scored: a minus b, and the smallest difference that a
test detects in four of five cases, items of an image counted as fewer, in percentage points; settings as in
`COMPARISONS`."""

MEASURES = Layout(
    "measurements of measures",
    pa.schema(
        [
            *build_required(pa.string(), "measurement", "model", "dataset", "factor", "level", "quantity"),
            *MEASURE_FIELDS,
        ]
    ),
    key=("measurement", "model", "dataset", "factor", "level", "quantity"),
)
"""One row per number that says what a measure is worth. `factor` is what was varied and `level` its value, such as
evaluations and 300; empty texts stand for all models, all data sets, and no factor. Shares are in percent, differences
of shares in percentage points."""

SHARES = Layout(
    "shares of text",
    pa.schema(
        [
            *build_required(pa.string(), "model", "dataset", "role", "profile", "setting"),
            *build_required(pa.int64(), "items"),
            *MEASURE_FIELDS,
            *build_nullable(pa.float64(), "sd", "standard_error"),
            *build_required(pa.int64(), "standard_error_n"),
            *build_nullable(pa.float64(), "noise"),
            *build_nullable(pa.string(), "mm_skew"),
            *build_required(pa.list_(REASON_COUNT), "missing"),
            *build_nullable(pa.float64(), "rho", "rho_low", "rho_high", "rho_p"),
            *build_nullable(pa.string(), "rho_reason"),
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
            *build_required(pa.string(), "item_id", "profile", "setting", "test"),
            *build_required(pa.int64(), "seed"),
            *build_nullable(pa.string(), "image"),
            *build_required(pa.string(), "text"),
            *build_nullable(pa.int32(), "verdict"),
            *build_nullable(pa.float64(), "score"),
            *build_nullable(
                pa.string(),
                "answer",
                "edited_answer",
                "reason",
                "explanation",
                "edited_input",
                "edited_explanation",
                "inserted",
            ),
            *build_nullable(pa.bool_(), "flipped", "correct"),
            *build_nullable(pa.list_(EXCHANGE), "exchanges"),
            *build_nullable(pa.string(), "error"),
        ]
    ),
    key=("item_id", "profile", "setting", "test", "seed"),
)
"""One row per item, test and seed. `setting` is the form of the question: `pairwise`, `open` or `choice`; `text` is the
item in words before any edit. `verdict` is 1 if the model is consistent; `reason` says why there is none or what
decided it, `error` why the item has no prompt. `flipped` says whether the counterfactual edit of the row changed the
answer; if none did, the row holds the first edit. `exchanges` are all prompts and generations; `given` holds what a
prompt contains besides the question, as JSON."""

CC_SHAP = Layout(
    "CC-SHAP",
    pa.schema(
        [
            *build_required(pa.string(), "item_id", "profile", "setting", "kind"),
            *build_required(pa.int64(), "seed"),
            *build_nullable(pa.string(), "image"),
            *build_nullable(
                pa.float64(), "value", "standard_error", "correlation", "mse", "variance", "kl", "js", "with_weak"
            ),
            *build_nullable(pa.int32(), "weak_answer", "weak_explanation"),
            *build_nullable(pa.list_(pa.float64()), "ratios_answer", "ratios_explanation"),
            *build_nullable(
                pa.float64(), "t_shap_answer", "t_shap_answer_se", "t_shap_explanation", "t_shap_explanation_se"
            ),
            *build_nullable(pa.string(), "answer", "explanation"),
            *build_nullable(pa.int64(), "evaluated"),
            *build_nullable(pa.string(), "reason", "error"),
        ]
    ),
    key=("item_id", "profile", "setting", "kind", "seed"),
)
"""One row per item, kind of explanation (`post-hoc`, `cot`) and seed. `value` is CC-SHAP, the five columns after its
standard error are other distances, `with_weak` is CC-SHAP with the tokens to which next to nothing contributes;
`weak_answer` and `weak_explanation` count those. `t_shap_explanation` is null for text tasks."""

EDITED = Layout(
    "contributions under edits",
    pa.schema(
        [
            *build_required(pa.string(), "item_id", "profile", "setting"),
            *build_required(pa.int64(), "seed"),
            *build_nullable(pa.string(), "image"),
            *build_nullable(pa.float64(), "answer", "explanation", "inserted_answer", "inserted_explanation"),
            *build_nullable(pa.string(), "edited_input", "inserted"),
            *build_nullable(pa.bool_(), "flipped"),
            *build_nullable(pa.string(), "edited_answer", "edited_explanation"),
            *build_nullable(pa.float64(), "cc_shap"),
            *build_nullable(pa.string(), "reason", "error"),
        ]
    ),
    key=("item_id", "profile", "setting", "seed"),
)
"""One row per item with a counterfactual edit, which changed the answer (`flipped`) or not. `answer` and `explanation`
are cosine distances between the contributions before and after the edit, `inserted_answer` and `inserted_explanation`
the shares of the inserted players. `edited_answer`, `edited_explanation` and `cc_shap` belong to the edited item."""
