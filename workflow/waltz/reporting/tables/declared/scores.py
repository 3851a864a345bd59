"""Tables of accuracy: thesis 3.4, 3.5, A.1, the decoders paper's 1, CV-Probes 3 and 4."""

from waltz.reporting.tables.declaration import (
    ENCODER,
    LANGUAGE,
    PAPER_SETTING,
    VISION,
    Declaration,
    NumberSource,
    locate_number,
)
from waltz.reporting.tables.declared.models import CLIP, ENCODERS, NOT_REPRODUCIBLE
from waltz.reporting.tables.declared.models import LANGUAGE as LANGUAGE_MODELS

TEXT_SETTINGS = ("alignment", "perplexity")
"""Settings of scores of single texts."""
AVERAGED = "The average weighs each data set the same; its ± is the deviation over data sets."

PAIRWISE = Declaration(
    id="thesis-3.4",
    title="Pairwise ranking accuracy on VALSE",
    sources={
        metric: locate_number("evaluation", metric, *TEXT_SETTINGS) for metric in ("acc_r", "acc", "min_pc_pf", "auroc")
    },
    rows=("metric", "model"),
    columns="dataset",
    model_kinds=(ENCODER, LANGUAGE),
    model_aliases={**CLIP, **LANGUAGE_MODELS},
    known_reasons=NOT_REPRODUCIBLE,
    adds_own_datasets=True,
    notes=("A language model's score of a text is minus its log perplexity; it sees no image.", AVERAGED),
)
ALL_METRICS = Declaration(
    id="thesis-A.1",
    title="All metrics on VALSE",
    sources={
        metric: locate_number("evaluation", metric, *TEXT_SETTINGS)
        for metric in ("acc_r", "acc", "p_c", "p_f", "min_pc_pf", "auroc")
    },
    rows=("metric", "model"),
    columns="dataset",
    model_kinds=(ENCODER, LANGUAGE),
    model_aliases={**CLIP, **LANGUAGE_MODELS},
    known_reasons=NOT_REPRODUCIBLE,
    notes=PAIRWISE.notes,
)
DECODER_SCORES = {
    "acc_r": locate_number("evaluation", "acc_r", "pairwise"),
    "acc": locate_number("evaluation", "acc", "single"),
    "p_c": locate_number("evaluation", "p_c", "single"),
    "p_f": locate_number("evaluation", "p_f", "single"),
}
DECODERS = Declaration(
    id="thesis-3.5",
    title="VL decoders on all of VALSE",
    sources=DECODER_SCORES,
    rows=("metric", "model"),
    columns="dataset",
    model_kinds=(VISION,),
    adds_own_datasets=True,
    notes=("acc_r: which of caption and foil describes the image. p_c, p_f: whether a text does.", AVERAGED),
)
DECODERS_PAPER = Declaration(
    id="decoders-paper-1",
    title="VL decoders on all of VALSE, with mPLUG-Owl3",
    sources=DECODER_SCORES,
    rows=("metric", "model"),
    columns="dataset",
    model_kinds=(VISION,),
    notes=DECODERS.notes,
)


def _declare_probes(number: int, form: str) -> Declaration:
    """Declare a table of matching accuracy on CV-Probes."""
    return Declaration(
        id=f"cv-probes-{number}",
        title=f"Matching accuracy on CV-Probes, {form} captions",
        sources={"accuracy": (NumberSource("evaluation", "accuracy", (PAPER_SETTING,)),)},
        rows=("model",),
        columns="dataset",
        model_kinds=(ENCODER,),
        model_aliases=ENCODERS,
        known_reasons=NOT_REPRODUCIBLE,
    )


TABLES = (
    PAIRWISE,
    DECODERS,
    ALL_METRICS,
    DECODERS_PAPER,
    _declare_probes(3, "original"),
    _declare_probes(4, "simplified"),
)
