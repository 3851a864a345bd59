"""Tables of the contributions of text and image: thesis 4.1 to 4.3, B.1, CV-Probes 5 to 7, 10 and 11."""

from waltz.reporting.tables.declaration import ENCODER, PAPER_SETTING, VISION, Declaration, NumberSource, locate_number
from waltz.reporting.tables.declared.models import ANSWERING, CLIP, ENCODERS, NOT_REPRODUCIBLE
from waltz.reporting.tables.declared.scores import AVERAGED

ALIGNMENT = "alignment"
SHARE = (
    "T-SHAP: text's share of the magnitude of all Shapley values, in percent; the image's is 100 minus it. Its ± is the"
    " deviation over items."
)
SKEW = (NumberSource("derived", "mm_skew", (PAPER_SETTING,)),)


def _locate_t_shap(role: str, *settings: str) -> tuple[NumberSource, ...]:
    """Return the source of T-SHAP of texts of a role."""
    return locate_number("shares", f"t_shap:{role}", *settings)


QUESTIONS = Declaration(
    id="thesis-4.1",
    title="Encoders on questions and on texts of other images",
    sources={
        "accuracy": locate_number("evaluation", "accuracy", "answering", "open"),
        "t_shap": _locate_t_shap("answer", "answering", "open"),
        "p_c": locate_number("evaluation", "p_c", ALIGNMENT),
        "p_f": locate_number("evaluation", "p_f", ALIGNMENT),
        "acc_r": locate_number("evaluation", "acc_r", ALIGNMENT),
        "t_shap_c": _locate_t_shap("caption", ALIGNMENT),
        "t_shap_f": (*_locate_t_shap("mismatched", ALIGNMENT), *_locate_t_shap("foil", ALIGNMENT)),
    },
    rows=("model",),
    columns="metric",
    column_groups=("setting", "dataset"),
    model_kinds=(ENCODER,),
    model_aliases=CLIP,
    extra_models=ANSWERING,
    dataset_aliases={("vqa", "isa"): ("vqa-pairs",), ("gqa", "isa"): ("gqa-pairs",), ("mscoco", "isa"): ("mscoco",)},
    known_reasons=NOT_REPRODUCIBLE,
    notes=("isa: an image with a text of its own, and with one of another image.", SHARE),
)
ENCODER_SHARES = Declaration(
    id="thesis-4.2",
    title="Accuracy and T-SHAP of encoders on VALSE",
    sources={
        "acc_r": locate_number("evaluation", "acc_r", ALIGNMENT),
        "acc": locate_number("evaluation", "acc", ALIGNMENT),
        "t_shap_c": _locate_t_shap("caption", ALIGNMENT),
        "mm_skew": SKEW,
    },
    rows=("metric", "model"),
    columns="dataset",
    side_metrics=("mm_skew",),
    model_kinds=(ENCODER,),
    derived=("skew",),
    model_aliases=CLIP,
    known_reasons=NOT_REPRODUCIBLE,
    notes=(SHARE, AVERAGED),
)
ENCODER_SHARES_ALL = Declaration(
    id="thesis-B.1",
    title="All scores and T-SHAP of encoders on VALSE",
    sources={
        "acc_r": locate_number("evaluation", "acc_r", ALIGNMENT),
        "acc": locate_number("evaluation", "acc", ALIGNMENT),
        "p_c": locate_number("evaluation", "p_c", ALIGNMENT),
        "p_f": locate_number("evaluation", "p_f", ALIGNMENT),
        "t_shap_c": _locate_t_shap("caption", ALIGNMENT),
        "t_shap_f": _locate_t_shap("foil", ALIGNMENT),
        "mm_skew": SKEW,
    },
    rows=("metric", "model"),
    columns="dataset",
    side_metrics=("mm_skew",),
    model_kinds=(ENCODER,),
    derived=("skew",),
    model_aliases=CLIP,
    known_reasons=NOT_REPRODUCIBLE,
    notes=ENCODER_SHARES.notes,
)
DECODER_SHARES = Declaration(
    id="thesis-4.3",
    title="Accuracy and T-SHAP of VL decoders on VALSE",
    sources={
        "acc_r": locate_number("evaluation", "acc_r", "pairwise"),
        "p_c": locate_number("evaluation", "p_c", "single"),
        "p_f": locate_number("evaluation", "p_f", "single"),
        "t_shap_r": locate_number("shares", "t_shap:", "pairwise"),
        "t_shap_c": _locate_t_shap("caption", "single"),
        "t_shap_f": _locate_t_shap("foil", "single"),
    },
    rows=("metric", "model"),
    columns="dataset",
    model_kinds=(VISION,),
    notes=(
        SHARE,
        "Accuracies are over all items that were scored, T-SHAP over those that were attributed; the thesis takes 100.",
        AVERAGED,
    ),
)


def _declare_verbs(number: int, model: str, name: str, adds_other_models: bool = False) -> Declaration:
    """Declare a table of T-SHAP and the verb's contribution on CV-Probes."""
    return Declaration(
        id=f"cv-probes-{number}",
        title=f"T-SHAP and the verb's contribution on CV-Probes: {name}",
        sources={
            metric: (NumberSource("attribution", metric, (PAPER_SETTING,)),)
            for metric in ("t_shap_overall", "verb_shap", "verb_share")
        },
        rows=("model", "setting", "metric"),
        columns="dataset",
        model_kinds=(ENCODER,),
        model_aliases={model: ENCODERS[model]} if model in ENCODERS else {},
        adds_other_models=adds_other_models,
        known_reasons=NOT_REPRODUCIBLE,
        notes=("Rows name the class that the model predicts. The verb's contribution is in the unit of the score.",),
    )


TABLES = (
    QUESTIONS,
    ENCODER_SHARES,
    DECODER_SHARES,
    ENCODER_SHARES_ALL,
    _declare_verbs(5, "blip", "BLIP", adds_other_models=True),
    _declare_verbs(6, "blip2", "BLIP 2"),
    _declare_verbs(7, "flava", "FLAVA"),
    _declare_verbs(10, "lxmert", "LXMERT"),
    _declare_verbs(11, "albef", "ALBEF"),
)
