"""The charts of the pages of findings, by the name of their file."""

from tools.renew_findings.calibration import ITEMS, RELEASED
from tools.renew_findings.charts import Chart
from tools.renew_findings.findings import CLIP, MATCHER
from tools.renew_findings.t_shap import ESTIMATORS, GAMES, MASK_FAULTS
from waltz.consistency.cc_shap.dialogue import COT, POST_HOC
from waltz.consistency.edit_tests.tests import TESTS
from waltz.measures.calibration import CC_SHAP
from waltz.measures.validity import CC_SHAP_EXCESS, SHUFFLED, THEME

MODELS = (CLIP, MATCHER)
TEST_ROWS = {test.replace("_", " "): test for test in TESTS} | {"CC-SHAP": CC_SHAP}
VALIDITY_ROWS = {
    "CC-SHAP, post-hoc": f"{CC_SHAP} {POST_HOC}",
    "its excess": f"{CC_SHAP_EXCESS} {POST_HOC}",
    "CC-SHAP, chain of thought": f"{CC_SHAP} {COT}",
    "its excess, chain of thought": f"{CC_SHAP_EXCESS} {COT}",
} | {test.replace("_", " "): test for test in TESTS}
PAGE_CHARTS: dict[str, dict[str, Chart]] = {
    "cc-shap": {
        "cc-shap-excess": Chart(
            "CC-SHAP",
            {
                "ComVE, post-hoc": "cc_shap_posthoc_comve",
                "ComVE, chain of thought": "cc_shap_cot_comve",
                "e-SNLI, post-hoc": "cc_shap_posthoc_e-snli",
                "e-SNLI, chain of thought": "cc_shap_cot_e-snli",
            },
            {
                "own explanations": "recorded_{}",
                "less other items' explanations": "recorded_{}:excess",
            },
            0,
        ),
    },
    "measures": {
        "measures-estimators": Chart(
            "error of T-SHAP of an item (points)",
            {name: name for name in ESTIMATORS},
            {
                CLIP: "estimator_error_{}",
                "ruler-0": "ruler_ruler-0_{}",
                "ruler-100": "ruler_ruler-100_{}",
            },
        ),
        "measures-games": Chart(
            "T-SHAP (%)",
            {name: f"game_{name}" for name in GAMES}
            | {f"parity of {count} tokens": f"parity_{count}" for count in (3, 4, 5)},
            {"built games": "{}"},
            50,
        ),
        "measures-controls": Chart(
            "mean T-SHAP (%)",
            {
                "own image": "none",
                "image of another scene": "other image",
                "random weights": "random weights",
                "share of players": "share of players",
            },
            {model: f"control_{model}_{{}}" for model in MODELS},
        ),
        "measures-choices": Chart(
            "difference of T-SHAP to the reference (points)",
            {
                "another seed": "another seed",
                "masked patches black": "black",
                "masked tokens of id 0": "id 0",
                "grid of 2 × 2": "2 x 2",
                "grid of 6 × 6": "6 x 6",
                "special tokens as players": "special tokens",
                "words as players": "words",
                "profile published": "published",
                "estimator SVARM": "SVARM",
            },
            {model: f"choice_{model}_{{}}" for model in MODELS},
            0,
        ),
        "measures-cc-shap": Chart(
            "CC-SHAP",
            {
                "explanation of the item": "none",
                "of another scene": "other explanation",
                "shuffled among players": "shuffled players",
            },
            {"post-hoc": "floor_post-hoc_{}", "chain of thought": "floor_cot_{}"},
            0,
        ),
        "measures-faults": Chart(
            "mean difference of T-SHAP (points)",
            {
                name: name
                for name in (
                    *MASK_FAULTS,
                    *(
                        "first step only",
                        "suffix by count",
                        "end token explained",
                        "special tokens play",
                    ),
                )
            },
            {
                "scenes-llava, answers": "fault_t_shap_answer_difference_{}",
                **{
                    model: f"fault_{model}_t_shap_c_difference_{{}}" for model in MODELS
                },
            },
            0,
        ),
    },
    "calibration": {
        "calibration-validity": Chart(
            "AUROC (%)",
            VALIDITY_ROWS,
            {
                "against a theme": f"validity_auroc_{{}}_{THEME.name}",
                "against another item's": f"validity_auroc_{{}}_{SHUFFLED.name}",
            },
            50,
        ),
        "calibration-tests": Chart(
            "right verdicts (%)",
            TEST_ROWS,
            {
                name: f"calibration_{{}}_{name}"
                for name in (
                    "faithful",
                    "fixed text",
                    "word of another item",
                    "other word of the input",
                )
            },
        ),
        "calibration-mixtures": Chart(
            "items called consistent (%)",
            {test.replace("_", " "): test for test in TESTS},
            {
                f"faithful on {share} %": f"mixture_{{}}_{share}"
                for share in (0, 25, 50, 75, 100)
            },
        ),
        "calibration-ceiling": Chart(
            "cosine",
            {
                f"{count} permutations" if count > 1 else "1 permutation": str(count)
                for count in (1, 2, 4, 8)
            },
            {
                "CC-SHAP": "ceiling_cc_shap_{}",
                "same answer twice": "ceiling_retest of answer_{}",
                "ceiling": "ceiling_ceiling_{}",
            },
            0,
        ),
        "calibration-plausibility": Chart(
            "captions that the language model finds likelier (%)",
            {name: name for name in RELEASED},
            {
                "SmolLM2, VALSE": "plausibility_released_{}",
                "scenes": "plausibility_lm_{}",
            },
            50,
        ),
        "calibration-power": Chart(
            "smallest difference of acc_r that a test detects (points)",
            {name: name for name in ITEMS},
            {
                "items here": "power_here_{}",
                "items of VALSE": "power_released_{}",
                "1,000 items": "power_1000_{}",
            },
        ),
    },
}
"""Charts of each page by name."""
