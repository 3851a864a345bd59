"""Whether explanations agree with answers: thesis 5.1, 5.2, 5.5, C.1 to C.3, C.25, the decoders paper's 2 and 3.

Beside them the numbers of single seeds, of which print has figures alone (thesis C.2, C.4, C.5; decoders paper 7, 8).
"""

from collections.abc import Iterable

from waltz.reporting.tables.declaration import LANGUAGE, PAPER_SETTING, VISION, Declaration, NumberSource, locate_number
from waltz.reporting.tables.declared.scores import AVERAGED

POST_HOC, COT = "post-hoc", "cot"
COT_TESTS = ("biasing_features", "early_answering", "filler_tokens", "adding_mistakes", "paraphrasing")
ANSWERED = ("choice", "answering", "open")
"""Settings of answers to questions."""
ACCURACY = (*locate_number("evaluation", "accuracy", *ANSWERED), *locate_number("evaluation", "acc_r", "pairwise"))
AFTER_COT = (
    *locate_number("evaluation", "accuracy", *(f"{setting}-after-cot" for setting in ANSWERED)),
    *locate_number("evaluation", "acc_r", "pairwise-after-cot"),
)
TESTS = (
    "Tests: percent of the items with a verdict that are consistent. CC-SHAP: -1 to 1. ± is the deviation over seeds,"
    " where there are several."
)


def _found(*metrics: str) -> dict[str, tuple[NumberSource, ...]]:
    return {metric: (NumberSource("consistency", metric, (PAPER_SETTING,)),) for metric in metrics}


def _correlated(metrics: Iterable[str]) -> dict[str, tuple[NumberSource, ...]]:
    return {metric: (NumberSource("correlations", metric, (PAPER_SETTING,)),) for metric in metrics}


TEXT_METRICS = {
    "accuracy": ACCURACY,
    **_found("counterfactual_edits", "input_from_explanation", "cc_shap_posthoc"),
    "accuracy_cot": AFTER_COT,
    **_found(*COT_TESTS, "cc_shap_cot"),
}
IMAGE_METRICS = {
    "accuracy": ACCURACY,
    "accuracy_cot": AFTER_COT,
    **_found("t_shap_prediction", "t_shap_explanation", "cc_shap_posthoc", "cc_shap_cot"),
    **_found("counterfactual_edits", *COT_TESTS),
}
PAIR_METRICS = {
    "acc_r": locate_number("evaluation", "acc_r", "pairwise"),
    "acc_r_cot": locate_number("evaluation", "acc_r", "pairwise-after-cot"),
    **_found("t_shap_prediction", "t_shap_explanation", "cc_shap_posthoc", "cc_shap_cot"),
    **_found("counterfactual_edits", *COT_TESTS),
}


def _seeds(
    part: str, title: str, kind: str, metrics: Iterable[str], rows: tuple[str, ...], columns: str
) -> Declaration:
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
        notes=(TESTS, "Print shows deviations over three runs in figures, without numbers."),
    )


def _texts(number: str, title: str, *without: str) -> Declaration:
    return Declaration(
        id=f"thesis-{number}",
        title=title,
        sources={metric: places for metric, places in TEXT_METRICS.items() if metric not in without},
        rows=("dataset", "setting", "metric"),
        columns="model",
        model_kinds=(LANGUAGE,),
        notes=(TESTS,),
    )


def _images(table: str, title: str) -> Declaration:
    return Declaration(
        id=table,
        title=title,
        sources=IMAGE_METRICS,
        rows=("setting", "metric", "model"),
        columns="dataset",
        model_kinds=(VISION,),
        dataset_aliases={name: (f"{name}-decoders",) for name in ("vqa", "gqa", "gqa-balanced")},
        notes=(TESTS, "Accuracy on MSCOCO is acc_r: a caption beside one of another image."),
    )


def _pairs(table: str, title: str) -> Declaration:
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
        "Print shows bars without numbers: the published values here are made the same way from Tables 5.2 and C.2.",
    ),
)
CORRELATIONS = Declaration(
    id="thesis-C.3",
    title="Correlation of CC-SHAP with the other tests",
    sources=_correlated(("counterfactual_edits", *COT_TESTS, "input_from_explanation")),
    rows=("dataset", "setting", "metric"),
    columns="model",
    marks_best=False,
    model_kinds=(LANGUAGE,),
    notes=(
        "Point-biserial correlation times 100 over items; nan where a test or CC-SHAP is constant.",
        "The bar chart under the printed table shows these cells.",
    ),
)
TABLES = (
    OVERVIEW,
    _texts("5.2", "Language models: accuracy, tests and CC-SHAP on e-SNLI, disambiguation QA and ComVE"),
    _images("thesis-5.5", "Decoders that see: accuracy, T-SHAP, tests and CC-SHAP on questions and captions"),
    RESCALED,
    _texts(
        "C.2",
        "Language models: accuracy, tests and CC-SHAP on causal judgement and logical deduction",
        "input_from_explanation",
    ),
    CORRELATIONS,
    _pairs("thesis-C.25", "Decoders that see: accuracy, T-SHAP, tests and CC-SHAP on VALSE"),
    _seeds(
        "texts",
        "Language models: tests and CC-SHAP of each seed, and their deviation over seeds",
        LANGUAGE,
        ("counterfactual_edits", "input_from_explanation", *COT_TESTS, "cc_shap_posthoc", "cc_shap_cot"),
        rows=("dataset", "metric", "setting"),
        columns="model",
    ),
    _seeds(
        "images",
        "Decoders that see: tests, CC-SHAP and T-SHAP of each seed, and their deviation over seeds",
        VISION,
        (
            *("counterfactual_edits", *COT_TESTS, "cc_shap_posthoc", "cc_shap_cot"),
            *("t_shap_prediction", "t_shap_explanation"),
        ),
        rows=("metric", "setting", "model"),
        columns="dataset",
    ),
    _images("decoders-paper-2", "Decoders that see, with mPLUG-Owl3: accuracy, T-SHAP, tests and CC-SHAP"),
    _pairs("decoders-paper-3", "Decoders that see, with mPLUG-Owl3: accuracy, T-SHAP, tests and CC-SHAP on VALSE"),
)
