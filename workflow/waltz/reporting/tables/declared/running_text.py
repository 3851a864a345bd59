"""Numbers that are printed in running text only."""

from waltz.reporting.tables.declaration import SAME, Declaration, Where, one
from waltz.reporting.tables.declared.models import ANSWERING

RUNNING_TEXT = Declaration(
    id="running-text",
    title="Numbers printed in running text only",
    sources={
        "accuracy": (
            Where("attribution", "accuracy", (SAME,)),
            Where("attribution", "acc_r", (SAME,)),
        ),
        "perceptual_image": one("attribution", "perceptual_image", SAME),
        "perceptual_text": one("attribution", "perceptual_text", SAME),
        "t_shap": one("shares", "t_shap:answer", "answering", "open"),
        "t_shap_sd": one("derived", "t_shap_sd"),
        "rho_c": one("derived", "rho_c"),
        "gruen_mean": one("captions", "gruen_mean", SAME),
    },
    rows=("metric", "model", "dataset", "setting"),
    columns="profile",
    derived=("spread",),
    also=ANSWERING,
    needs=("shares",),
    others=False,
    ragged=True,
    notes=(
        "accuracy: with one modality taken away. ρ: rank correlation of a caption taken for a match with its T-SHAP;"
        " print says that it is about 0.02 for all models and rarely above 0.12.",
    ),
)
TABLES = (RUNNING_TEXT,)
