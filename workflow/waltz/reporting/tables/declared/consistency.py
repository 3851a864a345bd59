"""Tables of self-consistency tests: thesis 5.1, 5.2, 5.5, C.1 to C.3, C.25, the decoders paper's 2 and 3.

Two further tables hold the numbers of single seeds, which the papers only plot (thesis C.2, C.4, C.5; decoders paper
7, 8).
"""

from collections.abc import Iterable

from waltz.reporting.tables.declaration import LANGUAGE, PAPER_SETTING, VISION, Declaration, NumberSource, locate_number
from waltz.reporting.tables.declared.scores import AVERAGED

POST_HOC, COT = "post-hoc", "cot"
COT_TESTS = ("biasing_features", "early_answering", "filler_tokens", "adding_mistakes", "paraphrasing")
ANSWER_SETTINGS = ("choice", "answering", "open")
"""Settings of answers to questions."""
ACCURACY = (
    *locate_number("evaluation", "accuracy", *ANSWER_SETTINGS),
    *locate_number("evaluation", "acc_r", "pairwise"),
)
ACCURACY_AFTER_COT = (
    *locate_number("evaluation", "accuracy", *(f"{setting}-after-cot" for setting in ANSWER_SETTINGS)),
    *locate_number("evaluation", "acc_r", "pairwise-after-cot"),
)
TESTS = (
    "Tests: percent of the items with a verdict that are consistent. CC-SHAP: -1 to 1. ± is the deviation over seeds,"
    " where there are several."
)


def _locate_consistency(*metrics: str) -> dict[str, tuple[NumberSource, ...]]:
    """Return the sources of metrics of the consistency stage."""
    return {metric: (NumberSource("consistency", metric, (PAPER_SETTING,)),) for metric in metrics}


def _locate_correlations(metrics: Iterable[str]) -> dict[str, tuple[NumberSource, ...]]:
    """Return the sources of tests' correlations with CC-SHAP."""
    return {metric: (NumberSource("correlations", metric, (PAPER_SETTING,)),) for metric in metrics}


TEXT_METRICS = {
    "accuracy": ACCURACY,
    **_locate_consistency("counterfactual_edits", "input_from_explanation", "cc_shap_posthoc"),
    "accuracy_cot": ACCURACY_AFTER_COT,
    **_locate_consistency(*COT_TESTS, "cc_shap_cot"),
}
IMAGE_METRICS = {
    "accuracy": ACCURACY,
    "accuracy_cot": ACCURACY_AFTER_COT,
    **_locate_consistency("t_shap_prediction", "t_shap_explanation", "cc_shap_posthoc", "cc_shap_cot"),
    **_locate_consistency("counterfactual_edits", *COT_TESTS),
}
PAIR_METRICS = {
    "acc_r": locate_number("evaluation", "acc_r", "pairwise"),
    "acc_r_cot": locate_number("evaluation", "acc_r", "pairwise-after-cot"),
    **_locate_consistency("t_shap_prediction", "t_shap_explanation", "cc_shap_posthoc", "cc_shap_cot"),
    **_locate_consistency("counterfactual_edits", *COT_TESTS),
}


def _declare_seeds(
    part: str, title: str, kind: str, metrics: Iterable[str], rows: tuple[str, ...], columns: str
) -> Declaration:
    """Declare a table of the numbers of single seeds."""
    return Declaration(
        id=f"seeds-{part}",
        title=title,
        sources={metric: locate_number("derived", metric, PAPER_SETTING) for metric in metrics},
        rows=rows,
        columns=columns,
        model_kinds=(kind,),
        paper_table_ids=(),
        derived=("seeds",),
        extra_sources=("consistency",),
        marks_best=False,
        field_titles={"setting": "explanation, seed"},
        notes=(TESTS, "The papers plot deviations over three runs, without numbers."),
    )


def _declare_texts(number: str, title: str, *omitted_metrics: str) -> Declaration:
    """Declare a table of language models on text tasks."""
    return Declaration(
        id=f"thesis-{number}",
        title=title,
        sources={metric: places for metric, places in TEXT_METRICS.items() if metric not in omitted_metrics},
        rows=("dataset", "setting", "metric"),
        columns="model",
        model_kinds=(LANGUAGE,),
        notes=(TESTS,),
    )


def _declare_images(table: str, title: str) -> Declaration:
    """Declare a table of vision-language decoders on questions and captions."""
    return Declaration(
        id=table,
        title=title,
        sources=IMAGE_METRICS,
        rows=("setting", "metric", "model"),
        columns="dataset",
        model_kinds=(VISION,),
        dataset_aliases={name: (f"{name}-decoders",) for name in ("vqa", "gqa", "gqa-balanced")},
        notes=(TESTS, "Accuracy on MSCOCO is acc_r: a caption with one of another image."),
    )


def _declare_pairs(table: str, title: str) -> Declaration:
    """Declare a table of vision-language decoders on VALSE."""
    return Declaration(
        id=table,
        title=title,
        sources=PAIR_METRICS,
        rows=("setting", "metric", "model"),
        columns="dataset",
        model_kinds=(VISION,),
        notes=(TESTS, AVERAGED),
    )


OVERVIEW = Declaration(
    id="thesis-5.1",
    title="The self-consistency tests",
    sources={
        metric: locate_number("derived", metric, PAPER_SETTING)
        for metric in ("changed", "consistent_where", "applies_to")
    },
    rows=("setting", "dataset"),
    columns="metric",
    paper_table_ids=(),
    derived=("tests",),
    profile_independent=True,
    field_titles={"dataset": "test", "setting": "explanation"},
)
RESCALED = Declaration(
    id="thesis-C.1",
    title="Tests and CC-SHAP averaged over all five text tasks",
    sources={"rescaled_average": locate_number("derived", "rescaled_average")},
    rows=("model",),
    columns="metric",
    model_kinds=(LANGUAGE,),
    paper_table_ids=("thesis-5.2", "thesis-C.2"),
    derived=("rescaled",),
    extra_sources=("consistency",),
    notes=(
        "CC-SHAP is moved from -1…1 to 0…100; tests and CC-SHAP are averaged in each data set, then data sets.",
        "The thesis plots bars without numbers: the paper values here are computed from Tables 5.2 and C.2.",
    ),
)
CORRELATIONS = Declaration(
    id="thesis-C.3",
    title="Correlation of CC-SHAP with the other tests",
    sources=_locate_correlations(("counterfactual_edits", *COT_TESTS, "input_from_explanation")),
    rows=("dataset", "setting", "metric"),
    columns="model",
    marks_best=False,
    model_kinds=(LANGUAGE,),
    notes=(
        "Point-biserial correlation times 100 over items; nan where a test or CC-SHAP is constant.",
        "The bar chart below the table in the thesis shows these cells.",
    ),
)
TABLES = (
    OVERVIEW,
    _declare_texts("5.2", "Language models: accuracy, tests and CC-SHAP on e-SNLI, disambiguation QA and ComVE"),
    _declare_images("thesis-5.5", "VL decoders: accuracy, T-SHAP, tests and CC-SHAP on questions and captions"),
    RESCALED,
    _declare_texts(
        "C.2",
        "Language models: accuracy, tests and CC-SHAP on causal judgement and logical deduction",
        "input_from_explanation",
    ),
    CORRELATIONS,
    _declare_pairs("thesis-C.25", "VL decoders: accuracy, T-SHAP, tests and CC-SHAP on VALSE"),
    _declare_seeds(
        "texts",
        "Language models: tests and CC-SHAP of each seed, and their deviation over seeds",
        LANGUAGE,
        ("counterfactual_edits", "input_from_explanation", *COT_TESTS, "cc_shap_posthoc", "cc_shap_cot"),
        rows=("dataset", "metric", "setting"),
        columns="model",
    ),
    _declare_seeds(
        "images",
        "VL decoders: tests, CC-SHAP and T-SHAP of each seed, and their deviation over seeds",
        VISION,
        (
            *("counterfactual_edits", *COT_TESTS, "cc_shap_posthoc", "cc_shap_cot"),
            *("t_shap_prediction", "t_shap_explanation"),
        ),
        rows=("metric", "setting", "model"),
        columns="dataset",
    ),
    _declare_images("decoders-paper-2", "VL decoders, with mPLUG-Owl3: accuracy, T-SHAP, tests and CC-SHAP"),
    _declare_pairs("decoders-paper-3", "VL decoders, with mPLUG-Owl3: accuracy, T-SHAP, tests and CC-SHAP on VALSE"),
)
