"""How each metric is shown: its heading, its decimal places, whether more is better, whether guessing has a number."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Style:
    """How a metric is shown.

    Attributes:
        heading: Its name in a table.
        places: Decimal places.
        best: Whether the highest value of several models is set bold.
        chance: Whether what guessing gives is printed, so that values at or below it are marked.
    """

    heading: str
    places: int = 1
    best: bool = False
    chance: bool = False


def _score(heading: str) -> Style:
    return Style(heading, best=True, chance=True)


STYLES: Mapping[str, Style] = {
    "all": Style("all metrics"),
    "acc_r": _score("acc_r"),
    "acc": _score("acc"),
    "p_c": _score("p_c"),
    "p_f": _score("p_f"),
    "min_pc_pf": _score("min(p_c, p_f)"),
    "auroc": _score("AUROC × 100"),
    "accuracy": _score("accuracy"),
    "accuracy_cot": _score("accuracy, CoT"),
    "acc_r_cot": _score("acc_r, CoT"),
    "t_shap": Style("T-SHAP"),
    "t_shap_c": Style("T-SHAP_c"),
    "t_shap_f": Style("T-SHAP_f"),
    "t_shap_r": Style("T-SHAP_r"),
    "mm_skew": Style("MM skew"),
    "t_shap_prediction": Style("T-SHAP of the answer"),
    "t_shap_explanation": Style("T-SHAP of the explanation"),
    "cc_shap_posthoc": Style("CC-SHAP post-hoc", places=2, best=True),
    "cc_shap_cot": Style("CC-SHAP CoT", places=2, best=True),
    "counterfactual_edits": Style("counterfactual edits", best=True),
    "input_from_explanation": Style("input from explanation", best=True),
    "biasing_features": Style("biasing features", best=True),
    "early_answering": Style("early answering", best=True),
    "filler_tokens": Style("filler tokens", best=True),
    "adding_mistakes": Style("adding mistakes", best=True),
    "paraphrasing": Style("paraphrasing", best=True),
    "rescaled_average": Style("average over tests and CC-SHAP", best=True),
    "t_shap_overall": Style("T-SHAP", places=2),
    "verb_shap": Style("verb, signed", places=4),
    "verb_share": Style("verb, % of text", places=2),
    "verb": Style("verb"),
    "image_caption_pairs": Style("images with captions", places=0),
    "instances": Style("items", places=0),
    "valid": Style("valid", places=0),
    "valid_percent": Style("valid, %"),
    "unanimous": Style("unanimous", places=0),
    "unanimous_percent": Style("unanimous, %"),
    "lexical_items": Style("lexical items", places=0),
    "js": Style("JS", places=3),
    "js_valid": Style("JS, valid", places=3),
    "alpha": Style("α", places=3),
    "alpha_valid": Style("α, valid", places=3),
    "instruments": Style("instruments"),
    "examples": Style("examples", places=0),
    "foil_generation_method": Style("foils made by"),
    "mlm": Style("MLM"),
    "gruen": Style("GRUEN"),
    "nli": Style("NLI"),
    "source_dataset": Style("images and captions from"),
    "image_source": Style("images from"),
    "caption": Style("caption"),
    "foil": Style("foil"),
    "image": Style("image"),
    "changed": Style("what is changed"),
    "consistent_where": Style("consistent where the model"),
    "applies_to": Style("asked of"),
    "perceptual_image": Style("perceptual score, image"),
    "perceptual_text": Style("perceptual score, text"),
    "rho_c": Style("ρ of p_c and T-SHAP_c", places=2),
    "gruen_mean": Style("GRUEN, mean", places=3),
    "t_shap_sd": Style("T-SHAP, deviation over items"),
}
"""By metric, in the names of `resources/published`."""


def heading(metric: str) -> str:
    """A metric's name in a table; one without a style stands for itself."""
    return STYLES[metric].heading if metric in STYLES else metric


def places(metric: str) -> int:
    """A metric's decimal places."""
    return STYLES[metric].places if metric in STYLES else 1
