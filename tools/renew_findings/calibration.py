"""Findings about self-consistency tests, CC-SHAP and benchmarks: the numbers of
docs/explanation/calibration.md.
"""

from tools.renew_findings.findings import CLIP, LLAVA, MATCHER, SMOLLM2, Source
from waltz.consistency.cc_shap.dialogue import EXPLANATION_KINDS
from waltz.consistency.edit_tests.tests import TESTS
from waltz.measures.calibration import CC_SHAP, MIXTURES, name_rate
from waltz.measures.constructed import DECODERS
from waltz.measures.power import COMPARISONS
from waltz.measures.validity import CC_SHAP_EXCESS, DOSES, SHUFFLED, UNFAITHFUL
from waltz.measures.validity_decoders import FAITHFUL

FILTERS = {
    "existence": "none",
    "plurality": "grammaticality, contradiction",
    "counting-balanced": "none",
    "counting-adversarial": "none",
    "action-replacement": "ranking",
    "actant-swap": "ranking",
    "foil-it": "none",
    "all": "",
}
"""Filters of data sets, as levels of the measurement of plausibility; those of all together are not
named.
"""
RELEASED = (
    *(
        "existence",
        "plurality",
        "counting-balanced",
        "counting-small",
        "counting-adversarial",
        "relations",
    ),
    *(
        "action-replacement",
        "actant-swap",
        "coreference-standard",
        "coreference-clean",
        "foil-it",
        "all",
    ),
)
"""Data sets of VALSE as released, whose files do not say which filters they passed, and all
together.
"""
ITEMS = {
    "existence": (250, 505),
    "plurality": (324, 851),
    "counting-balanced": (297, 868),
    "foil-it": (447, 943),
    "action-replacement": (27, 648),
}
"""Number of items of data sets here, and of VALSE as released."""
VALIDITY_SCORES = (
    *TESTS,
    *(
        f"{name} {kind}"
        for name in (CC_SHAP, CC_SHAP_EXCESS)
        for kind in EXPLANATION_KINDS
    ),
)
"""Scores of decoders that are trained to explain."""
VALIDITY_CHECKS = (
    "accuracy",
    "follows the deciding word",
    "names the deciding word",
    "changed by an edit",
    "changed by the suggestion",
)
"""What is checked of these decoders."""
FINDINGS: dict[str, Source] = {
    **{
        f"validity_{quantity}_{explaining.name}": Source(
            "validity", quantity, explaining.name, decimals=0
        )
        for quantity in VALIDITY_CHECKS
        for explaining in (*DOSES, SHUFFLED)
    },
    **{
        f"validity_{score}_{explaining.name}": Source(
            "validity",
            "consistent" if score in TESTS else "mean",
            explaining.name,
            "measure",
            score,
            decimals=0 if score in TESTS else 2,
        )
        for score in VALIDITY_SCORES
        for explaining in (FAITHFUL, *UNFAITHFUL)
    },
    **{
        f"validity_auroc_{score}_{explaining.name}": Source(
            "validity", "auroc", explaining.name, "measure", score, decimals=0
        )
        for score in VALIDITY_SCORES
        for explaining in UNFAITHFUL
    },
    **{
        f"validity_order_{score}": Source(
            "validity", "order of doses", "", "measure", score, decimals=0
        )
        for score in VALIDITY_SCORES
    },
    **{
        f"calibration_{test}_{decoder.name}": Source(
            "calibration",
            name_rate(decoder),
            decoder.name,
            "equations",
            test,
            "comve",
            decimals=0,
        )
        for test in (*TESTS, CC_SHAP)
        for decoder in DECODERS
        if test != CC_SHAP
        or decoder.reads == ("reasoning" if decoder.faithful else "input")
    },
    "calibration_published_input_from_explanation_faithful": Source(
        "calibration",
        "specificity",
        "faithful",
        "published",
        "input_from_explanation",
        "comve",
        decimals=0,
    ),
    **{
        f"cc_shap_equations_{decoder.name}": Source(
            "calibration",
            "cc_shap",
            decoder.name,
            "equations",
            CC_SHAP,
            "comve",
            decimals=2,
        )
        for decoder in DECODERS
        if decoder.reads == ("reasoning" if decoder.faithful else "input")
    },
    "cc_shap_background_faithful": Source(
        "calibration",
        "cc_shap",
        "faithful",
        "equations",
        "cc_shap, background 0.1",
        "comve",
        decimals=2,
    ),
    "cc_shap_published_faithful": Source(
        "calibration", "cc_shap", "faithful", "published", CC_SHAP, "comve", decimals=2
    ),
    "auroc_equations_fixed text": Source(
        "calibration", "auroc", "fixed text", "equations", CC_SHAP, "comve"
    ),
    "auroc_background_1_fixed text": Source(
        "calibration",
        "auroc",
        "fixed text",
        "equations",
        "cc_shap, background 1",
        "comve",
    ),
    "auroc_published_background_1_fixed text": Source(
        "calibration",
        "auroc",
        "fixed text",
        "published",
        "cc_shap, background 1",
        "comve",
    ),
    **{
        f"mixture_{test}_{share}": Source(
            "calibration",
            "cc_shap of mixture" if test == CC_SHAP else "consistent",
            f"faithful on {share} %",
            "equations",
            test,
            "comve",
            decimals=2 if test == CC_SHAP else 0,
        )
        for test in (*TESTS, CC_SHAP)
        for share in MIXTURES
    },
    **{
        f"mixture_ordered_{test}": Source(
            "calibration", "ordered", "", "equations", test, "comve", decimals=0
        )
        for test in (*TESTS, CC_SHAP)
    },
    **{
        f"ceiling_{quantity}_{level}": Source(
            "ceiling",
            quantity,
            LLAVA,
            "permutations",
            level,
            decimals=0 if "share" in quantity else 2,
        )
        for quantity in (
            "cc_shap",
            "cc_shap crossed",
            "retest of answer",
            "retest of explanation",
            "ceiling",
            "share of ceiling",
        )
        for level in ("1", "2", "4", "8")
    },
    **{
        f"plausibility_lm_{dataset}": Source(
            "plausibility",
            "acc_r",
            "scenes-causal-lm",
            "filters" if filters else "",
            filters,
            dataset,
            decimals=0,
        )
        for dataset, filters in FILTERS.items()
    },
    **{
        f"plausibility_{name}_{dataset}": Source(
            "plausibility", "acc_r", model, dataset=dataset, decimals=0
        )
        for name, model in (("clip", CLIP), ("matcher", MATCHER))
        for dataset in FILTERS
    },
    **{
        f"plausibility_released_{dataset}": Source(
            "plausibility", "acc_r", SMOLLM2, dataset=dataset, decimals=0
        )
        for dataset in RELEASED
    },
    **{
        f"plausibility_equal_{name}_{dataset}": Source(
            "plausibility",
            "acc_r at equal likelihood",
            model,
            dataset=dataset,
            decimals=0,
        )
        for name, model in (("clip", CLIP), ("matcher", MATCHER))
        for dataset in FILTERS
        if dataset not in ("counting-adversarial", "actant-swap")
    },
    **{
        f"power_discordant_{dataset}": Source(
            "power", "discordant", f"{CLIP} / {MATCHER}", dataset=dataset, decimals=0
        )
        for dataset in ITEMS
    },
    **{
        f"power_design_{dataset}": Source(
            "power", "design effect", f"{CLIP} / {MATCHER}", dataset=dataset, decimals=2
        )
        for dataset in ITEMS
    },
    **{
        f"power_{name}_{dataset}": Source(
            "power",
            "acc_r detectable",
            f"{CLIP} / {MATCHER}",
            "items",
            str(count),
            dataset,
        )
        for dataset, counts in ITEMS.items()
        for name, count in zip(
            ("here", "released", "1000"), (*counts, 1000), strict=True
        )
    },
    **{
        f"power_bold_{comparisons}": Source(
            "power",
            "acc_r power",
            f"{CLIP} / {MATCHER}",
            "comparisons",
            str(comparisons),
            "existence",
            decimals=0,
        )
        for comparisons in COMPARISONS
    },
}
"""Numbers of the page by name."""
