"""Findings about T-SHAP and CC-SHAP: the numbers of docs/explanation/measures.md."""

from tools.renew_findings.findings import (
    CLIP,
    LLAVA,
    MATCHER,
    RANDOM_MATCHER,
    Source,
)

ESTIMATOR = "estimator, 10 permutations"
BIAS_MODELS = (CLIP, MATCHER, RANDOM_MATCHER)
BIAS_QUANTITIES = ("bias_towards_players", "error", "covered", "interval_width")
CORRECTED_QUANTITIES = ("bias_towards_players_corrected", "error_corrected")
ESTIMATORS = ("permutation", "regression", "KernelSHAP", "UnbiasedKernelSHAP", "SVARM")
SEED = "another seed"
MASK_FAULTS = (SEED, "patch 0 stays", "corner masked", "old split")
NUMBERS = (
    (CLIP, "t_shap"),
    (MATCHER, "t_shap"),
    (LLAVA, "cc_shap"),
    (LLAVA, "t_shap_answer"),
)
"""Models and measures of the reliability."""
ORDERS = {"items": "seeds_needed", "data sets": "items_needed"}
"""Number that an order needs, by what is put in order."""
SCOPES = ("one setup", "any setup")
NOT_REACHED = "never"
GAMES = (
    "additive",
    "cancelling",
    "saturated text",
    "product",
    "saturated product",
    "conjunctive product",
    "cubic product",
    "exclusive or",
    "conjunction",
    "disjunction",
)
FINDINGS: dict[str, Source] = {
    **{
        f"bias_{model}_{quantity}_{level}": Source(
            "bias", quantity, model, "permutations", level
        )
        for model in BIAS_MODELS
        for level in ("2", "10", "50")
        for quantity in (*BIAS_QUANTITIES, *CORRECTED_QUANTITIES)
    },
    **{
        f"bias_{model}_{quantity}_regression": Source(
            "bias", quantity, model, ESTIMATOR, "regression"
        )
        for model in BIAS_MODELS
        for quantity in BIAS_QUANTITIES
    },
    **{
        f"bias_{model}_evaluations": Source(
            "bias", "evaluations_for_1_point", model, decimals=0
        )
        for model in BIAS_MODELS
    },
    **{
        f"bias_{model}_exact": Source("bias", "t_shap", model, "permutations", "all")
        for model in BIAS_MODELS
    },
    **{
        f"bias_{model}_players": Source("bias", "t_shap", model, "share of players")
        for model in BIAS_MODELS
    },
    **{
        f"bias_{model}_budget": Source(
            "bias", "evaluations", model, "permutations", "10", decimals=0
        )
        for model in BIAS_MODELS
    },
    **{
        f"estimator_{quantity}_{level}": Source(
            "bias", quantity, CLIP, ESTIMATOR, level
        )
        for level in ESTIMATORS
        for quantity in ("bias_towards_players", "error")
    },
    **{
        f"ruler_{model}_{level}": Source(
            "ground_truth", "error", model, "estimator", level
        )
        for model in ("ruler-0", "ruler-50", "ruler-100")
        for level in ESTIMATORS
    },
    **{
        f"ordered_{level}": Source(
            "ground_truth", "ordered", "", "estimator", level, decimals=0
        )
        for level in ESTIMATORS
    },
    **{
        f"game_{name}": Source(
            "ground_truth", "t_shap", name, "players", "4 tokens, 8 patches"
        )
        for name in GAMES
    },
    **{
        f"parity_{tokens}": Source(
            "ground_truth",
            "t_shap",
            "parity of text",
            "players",
            f"{tokens} tokens, {patches} patches",
        )
        for tokens, patches in ((3, 8), (4, 8), (5, 7))
    },
    **{
        f"control_{model}_{level}": Source(
            "controls", "t_shap", model, "control", level
        )
        for model in (CLIP, MATCHER)
        for level in ("none", "other image", "random weights", "share of players")
    },
    **{
        f"control_{quantity}_{model}_{level}": Source(
            "controls", quantity, model, "control", level, decimals=decimals
        )
        for model in (CLIP, MATCHER)
        for quantity, level, decimals in (
            ("t_shap_difference", "other image", 1),
            ("correlation", "other image", 2),
            ("correlation", SEED, 2),
            ("t_shap_sd_networks", "random weights", 1),
        )
    },
    **{
        f"floor_{kind}_{level}": Source(
            "controls", "cc_shap", LLAVA, f"control, {kind}", level, decimals=2
        )
        for kind in ("post-hoc", "cot")
        for level in ("none", "other explanation", "shuffled players")
    },
    **{
        f"excess_{kind}_{level}": Source(
            "controls", "cc_shap_excess", LLAVA, f"control, {kind}", level, decimals=2
        )
        for kind in ("post-hoc", "cot")
        for level in ("other explanation", "shuffled players")
    },
    **{
        f"{quantity}_{kind}": Source(
            "controls",
            quantity,
            LLAVA,
            f"control, {kind}",
            "other explanation",
            decimals=decimals,
        )
        for kind in ("post-hoc", "cot")
        for quantity, decimals in (
            ("excess_content", 2),
            ("excess_centered", 2),
            ("identified", 0),
        )
    },
    **{
        f"less_answer{excess}_{kind}_{level}": Source(
            "controls",
            f"t_shap_explanation_less_answer{excess}",
            LLAVA,
            f"control, {kind}",
            level,
        )
        for kind in ("post-hoc", "cot")
        for level in ("none", "other image", "random weights")
        for excess in ("", "_excess")
        if level != "none" or not excess
    },
    **{
        f"choice_{model}_{level}": Source(
            "multiverse", "t_shap_difference", model, factor, level
        )
        for model in (CLIP, MATCHER)
        for factor, level in (
            ("seed", SEED),
            ("masked patch", "black"),
            ("masked token", "id 0"),
            ("grid", "2 x 2"),
            ("grid", "6 x 6"),
            ("players", "special tokens"),
            ("players", "words"),
            ("profile", "published"),
            ("estimator", "SVARM"),
        )
    },
    **{
        f"order_{model or 'models'}_{factor}": Source(
            "multiverse", "kendall_tau", model, factor, "all", decimals=2
        )
        for model in ("", CLIP, MATCHER)
        for factor in ("one at a time", "cross")
    },
    **{
        f"order_{model}_seed": Source(
            "multiverse", "kendall_tau", model, "seed", SEED, decimals=2
        )
        for model in (CLIP, MATCHER)
    },
    **{
        f"order_{model}_{level}": Source(
            "multiverse", "kendall_tau", model, f"cross, {factor}", level, decimals=2
        )
        for model in (CLIP, MATCHER)
        for factor, level in (
            ("seed", SEED),
            ("masked patch", "black"),
            ("masked token", "id 0"),
            ("grid", "2 x 2"),
            ("players", "words"),
            ("profile", "published"),
            ("estimator", "permutation"),
            ("value", "probability"),
        )
    },
    **{
        f"reliability_share_{model}_{quantity}_{group}": Source(
            "reliability",
            "variance_share",
            model,
            f"{quantity}, items",
            group,
            decimals=0,
        )
        for model, quantity in NUMBERS
        for group in ("items", "setups", "items × setups", "seeds")
    },
    **{
        f"reliability_{coefficient}_{model}_{quantity}_{order}_{scope}": Source(
            "reliability",
            coefficient,
            model,
            f"{quantity}, {order}",
            scope,
            decimals=2,
        )
        for model, quantity in NUMBERS
        for order in ORDERS
        for scope in SCOPES
        for coefficient in ("g", "phi", "g_limit")
        if coefficient == "g" or (order == "items" and scope == "any setup")
    },
    **{
        f"reliability_needed_{model}_{quantity}_{order}_{scope}": Source(
            "reliability",
            needed,
            model,
            f"{quantity}, {order}",
            scope,
            decimals=0,
            undefined=NOT_REACHED,
        )
        for model, quantity in NUMBERS
        for order, needed in ORDERS.items()
        for scope in SCOPES
    },
    **{
        f"reliability_{quantity}_models_{scope}": Source(
            "reliability",
            quantity,
            "",
            "t_shap, models",
            scope,
            decimals=decimals,
            undefined=NOT_REACHED,
        )
        for scope in SCOPES
        for quantity, decimals in (("g", 2), ("items_needed", 0))
    },
    **{
        f"fault_{quantity}_{level}": Source(
            "released_faults",
            quantity,
            LLAVA,
            "fault",
            level,
            "all",
            decimals=2 if quantity.startswith("cc_shap") else 1,
        )
        for level in (
            *MASK_FAULTS,
            "first step only",
            "suffix by count",
            "end token explained",
            "special tokens play",
        )
        for quantity in (
            *("cc_shap_difference", "cc_shap_absolute_difference"),
            *("t_shap_answer_difference", "t_shap_answer_absolute_difference"),
        )
        if level != "old split" or not quantity.startswith("cc_shap")
    },
    **{
        f"fault_{model}_{quantity}_{level}": Source(
            "released_faults", quantity, model, "fault", level, "all"
        )
        for model in (CLIP, MATCHER)
        for level in MASK_FAULTS
        for quantity in ("t_shap_c_difference", "t_shap_c_absolute_difference")
    },
}
"""Numbers of the page by name."""
