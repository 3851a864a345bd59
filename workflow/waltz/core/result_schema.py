"""Arrow schemas of what models give: scores, attributions, tests of consistency, and what is made of them."""

import pyarrow as pa

from waltz.core.schema import MEASURE_FIELDS, SPAN, Layout, required

EVALUATION = Layout(
    "evaluation",
    pa.schema(
        [
            required("item_id", pa.string()),
            required("role", pa.string()),
            required("profile", pa.string()),
            required("setting", pa.string()),
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
            required("item_id", pa.string()),
            required("role", pa.string()),
            required("profile", pa.string()),
            required("setting", pa.string()),
            pa.field("image", pa.string()),
            required("text", pa.string()),
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
            required("model", pa.string()),
            required("dataset", pa.string()),
            required("profile", pa.string()),
            required("setting", pa.string()),
            required("metric", pa.string()),
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
            required("profile", pa.string()),
            required("dataset", pa.string()),
            required("setting", pa.string()),
            required("metric", pa.string()),
            required("model_a", pa.string()),
            required("model_b", pa.string()),
            required("test", pa.string()),
            pa.field("difference", pa.float64()),
            pa.field("ci_low", pa.float64()),
            pa.field("ci_high", pa.float64()),
            pa.field("p", pa.float64()),
            pa.field("p_holm", pa.float64()),
            required("n", pa.int64()),
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
            required("model", pa.string()),
            required("dataset", pa.string()),
            required("role", pa.string()),
            required("profile", pa.string()),
            required("setting", pa.string()),
            required("items", pa.int64()),
            *MEASURE_FIELDS,
            pa.field("sd", pa.float64()),
            pa.field("standard_error", pa.float64()),
            required("standard_error_n", pa.int64()),
            pa.field("noise", pa.float64()),
            pa.field("mm_skew", pa.string()),
            required("missing", pa.list_(pa.struct([("reason", pa.string()), ("count", pa.int64())]))),
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
            required("item_id", pa.string()),
            required("profile", pa.string()),
            required("setting", pa.string()),
            required("test", pa.string()),
            required("seed", pa.int64()),
            pa.field("image", pa.string()),
            required("text", pa.string()),
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
            required("item_id", pa.string()),
            required("profile", pa.string()),
            required("setting", pa.string()),
            required("kind", pa.string()),
            required("seed", pa.int64()),
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
            required("item_id", pa.string()),
            required("profile", pa.string()),
            required("setting", pa.string()),
            required("seed", pa.int64()),
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
