"""Headings, decimal places and marks of each metric in tables."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class MetricStyle:
    """Heading, decimal places and marks of a metric.

    Attributes:
        heading: Name of the metric in tables.
        places: Decimal places.
        best: Whether the highest value of several models is bold.
        chance: Whether values at or below the chance level are marked.
    """

    heading: str
    places: int = 1
    best: bool = False
    chance: bool = False


def _make_score_style(heading: str) -> MetricStyle:
    return MetricStyle(heading, best=True, chance=True)


STYLES: Mapping[str, MetricStyle] = {
    "all": MetricStyle("all metrics"),
    "acc_r": _make_score_style("acc_r"),
    "acc": _make_score_style("acc"),
    "p_c": _make_score_style("p_c"),
    "p_f": _make_score_style("p_f"),
    "min_pc_pf": _make_score_style("min(p_c, p_f)"),
    "auroc": _make_score_style("AUROC × 100"),
    "accuracy": _make_score_style("accuracy"),
    "accuracy_cot": _make_score_style("accuracy, CoT"),
    "acc_r_cot": _make_score_style("acc_r, CoT"),
    "t_shap": MetricStyle("T-SHAP"),
    "t_shap_c": MetricStyle("T-SHAP_c"),
    "t_shap_f": MetricStyle("T-SHAP_f"),
    "t_shap_r": MetricStyle("T-SHAP_r"),
    "mm_skew": MetricStyle("MM skew"),
    "t_shap_prediction": MetricStyle("T-SHAP of the answer"),
    "t_shap_explanation": MetricStyle("T-SHAP of the explanation"),
    "cc_shap_posthoc": MetricStyle("CC-SHAP post-hoc", places=2, best=True),
    "cc_shap_cot": MetricStyle("CC-SHAP CoT", places=2, best=True),
    "counterfactual_edits": MetricStyle("counterfactual edits", best=True),
    "input_from_explanation": MetricStyle("input from explanation", best=True),
    "biasing_features": MetricStyle("biasing features", best=True),
    "early_answering": MetricStyle("early answering", best=True),
    "filler_tokens": MetricStyle("filler tokens", best=True),
    "adding_mistakes": MetricStyle("adding mistakes", best=True),
    "paraphrasing": MetricStyle("paraphrasing", best=True),
    "rescaled_average": MetricStyle("average over tests and CC-SHAP", best=True),
    "t_shap_overall": MetricStyle("T-SHAP", places=2),
    "verb_shap": MetricStyle("verb, signed", places=4),
    "verb_share": MetricStyle("verb, % of text", places=2),
    "verb": MetricStyle("verb"),
    "image_caption_pairs": MetricStyle("images with captions", places=0),
    "instances": MetricStyle("items", places=0),
    "valid": MetricStyle("valid", places=0),
    "valid_percent": MetricStyle("valid, %"),
    "unanimous": MetricStyle("unanimous", places=0),
    "unanimous_percent": MetricStyle("unanimous, %"),
    "lexical_items": MetricStyle("lexical items", places=0),
    "js": MetricStyle("JS", places=3),
    "js_valid": MetricStyle("JS, valid", places=3),
    "alpha": MetricStyle("α", places=3),
    "alpha_valid": MetricStyle("α, valid", places=3),
    "instruments": MetricStyle("instruments"),
    "examples": MetricStyle("examples", places=0),
    "foil_generation_method": MetricStyle("foils made by"),
    "mlm": MetricStyle("MLM"),
    "gruen": MetricStyle("GRUEN"),
    "nli": MetricStyle("NLI"),
    "source_dataset": MetricStyle("images and captions from"),
    "image_source": MetricStyle("images from"),
    "caption": MetricStyle("caption"),
    "foil": MetricStyle("foil"),
    "image": MetricStyle("image"),
    "changed": MetricStyle("what is changed"),
    "consistent_where": MetricStyle("consistent where the model"),
    "applies_to": MetricStyle("asked of"),
    "perceptual_image": MetricStyle("perceptual score, image"),
    "perceptual_text": MetricStyle("perceptual score, text"),
    "rho_c": MetricStyle("ρ of p_c and T-SHAP_c", places=2),
    "gruen_mean": MetricStyle("GRUEN, mean", places=3),
    "t_shap_sd": MetricStyle("T-SHAP, deviation over items"),
}
"""By metric, in the names of `resources/published`."""


def get_heading(metric: str) -> str:
    """Return a metric's heading; its own name where it has no style."""
    return STYLES[metric].heading if metric in STYLES else metric


def get_decimals(metric: str) -> int:
    """Return a metric's decimal places."""
    return STYLES[metric].places if metric in STYLES else 1
