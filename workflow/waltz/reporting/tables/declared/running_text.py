"""Table of the paper values that occur in running text only."""

from waltz.reporting.tables.declaration import PAPER_SETTING, Declaration, NumberSource, locate_number
from waltz.reporting.tables.declared.models import ANSWERING

RUNNING_TEXT = Declaration(
    id="running-text",
    title="Numbers in running text only",
    sources={
        "accuracy": (
            NumberSource("attribution", "accuracy", (PAPER_SETTING,)),
            NumberSource("attribution", "acc_r", (PAPER_SETTING,)),
        ),
        "perceptual_image": locate_number("attribution", "perceptual_image", PAPER_SETTING),
        "perceptual_text": locate_number("attribution", "perceptual_text", PAPER_SETTING),
        "t_shap": locate_number("shares", "t_shap:answer", "answering", "open"),
        "t_shap_sd": locate_number("derived", "t_shap_sd"),
        "rho_c": locate_number("derived", "rho_c"),
        "gruen_mean": locate_number("captions", "gruen_mean", PAPER_SETTING),
    },
    rows=("metric", "model", "dataset", "setting"),
    columns="profile",
    derived=("spread",),
    extra_models=ANSWERING,
    extra_sources=("shares",),
    adds_other_models=False,
    ragged=True,
    notes=(
        "accuracy: with one modality removed. ρ: rank correlation of a caption accepted as a match with its T-SHAP;"
        " the thesis says that it is about 0.02 for all models and rarely above 0.12.",
    ),
)
TABLES = (RUNNING_TEXT,)
