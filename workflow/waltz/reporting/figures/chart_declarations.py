"""Declarations of charts: each shows cells of some tables, arranged as in the paper's figure.

The papers show these figures without numbers. The declarations follow the captions of the figures
and the text about them, and use the tables with the same numbers; docs/reference/figures.md
compares each chart with its figure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from waltz.consistency.metrics import (
    CC_SHAP_METRICS,
    COT_TESTS,
    POST_HOC_TESTS,
    RESCALED_AVERAGES,
)
from waltz.reporting.tables.declaration import AVERAGE
from waltz.reporting.tables.declarations import get_style
from waltz.valse_release import RELEASE

PERCENT = "percent"
CC_SHAP_UNIT = "CC-SHAP, -1 to 1"


@dataclass(frozen=True)
class Part:
    """Part of a chart: the cells of one panel, row or series.

    Attributes:
        label: Name of the panel, row or series in the chart.
        fields: Values that a cell of the part may have, by field of `Cell`; other fields may have
            any value.
        unit: Unit of the numbers, which is written at the axis of a panel.
    """

    label: str
    fields: Mapping[str, tuple[str, ...]]
    unit: str = PERCENT


@dataclass(frozen=True)
class Chart:
    """Declaration of one chart, which shows the cells that belong to one of its panels, rows and
    series.

    Attributes:
        id: Id of the paper's figure.
        title: One line that says what the chart shows.
        tables: Ids of the tables whose cells it shows, in order of preference. Our number of a
            point comes from the first table that has it. A study without the first table has no
            such chart.
        panels: Panels in their order; a panel without cells is not drawn.
        rows: Rows of each panel, or the field whose values name them.
        series: Series, each with a marker and a color, or the field whose values name them.
        kind: `points`, with a row for each model or data set; `trends` over the sizes of models,
            with lines of a linear regression; or `counts`, drawn as bars.
        derived: Cells that are computed from other cells first, keys of
            `chart_cells.DERIVED_CELLS`.
        hidden_models: Models of the papers that the figure does not show.
        over_seeds: Whether numbers are shown with their standard deviation over seeds instead of an
            interval, and with the number of each seed.
        further_figures: Ids of further paper figures that it corresponds to.
        note: Remark that a reader needs.
    """

    id: str
    title: str
    tables: tuple[str, ...]
    panels: tuple[Part, ...]
    rows: tuple[Part, ...] | str
    series: tuple[Part, ...] | str
    kind: Literal["points", "trends", "counts"] = "points"
    derived: tuple[str, ...] = ()
    hidden_models: tuple[str, ...] = ()
    over_seeds: bool = False
    further_figures: tuple[str, ...] = field(default=())
    note: str = ""

    @property
    def figures(self) -> str:
        """Names of all paper figures that the chart corresponds to."""
        return ", ".join(
            name.replace("-", " ") for name in (self.id, *self.further_figures)
        )


def select(label: str, unit: str = PERCENT, **fields: str | tuple[str, ...]) -> Part:
    """Return the part of a chart whose cells have some values in some fields.

    Args:
        label: Name of the part.
        unit: Unit of the numbers.
        **fields: A value, or several alternative values, by field of `Cell`.
    """
    values_by_field = {}
    for name, values in fields.items():
        values_by_field[name] = (values,) if isinstance(values, str) else values
    return Part(label, values_by_field, unit)


def select_metrics(metrics: tuple[str, ...], unit: str = PERCENT) -> tuple[Part, ...]:
    """Return one part for each metric, whose label is the metric's heading in tables."""
    return tuple(
        select(get_style(metric).heading, unit, metric=metric) for metric in metrics
    )


CC_SHAPS = tuple(CC_SHAP_METRICS.values())
TESTS = (*POST_HOC_TESTS, *COT_TESTS)
# Of the post-hoc tests, only counterfactual edits are run on items with images.
TESTS_WITH_IMAGES = ("counterfactual_edits", *COT_TESTS)
ACCURACIES = (
    select("accuracy", metric=("accuracy", "acc_r"), setting="post-hoc"),
    select("accuracy after a chain of thought", metric=("accuracy_cot", "acc_r_cot")),
)
T_SHAP_OF_ANSWERS = select(
    "T-SHAP of the answer", metric="t_shap_prediction", setting="post-hoc"
)
T_SHAPS = (
    T_SHAP_OF_ANSWERS,
    select(
        "T-SHAP of the post-hoc explanation",
        metric="t_shap_explanation",
        setting="post-hoc",
    ),
    select(
        "T-SHAP of the chain of thought", metric="t_shap_explanation", setting="cot"
    ),
)
VQA, GQA, GQA_BALANCED, MSCOCO = (
    select(label, dataset=name)
    for label, name in (
        ("VQA", "vqa"),
        ("GQA", "gqa"),
        ("GQA balanced", "gqa-balanced"),
        ("MSCOCO", "mscoco"),
    )
)
VALSE_ROWS = tuple(select(name, dataset=name) for name in (*RELEASE, AVERAGE))
SEED_ROWS = (
    select("existence (choice between caption and foil)", dataset="existence"),
    select("VQA (generated answer)", dataset=("vqa", "vqa-decoders")),
)
# Pairwise accuracy and accuracy of single texts, averaged over the data sets of VALSE.
PAIRWISE_PANELS = tuple(
    replace(part, fields={**part.fields, "dataset": (AVERAGE,)})
    for part in select_metrics(("acc_r", "acc"))
)

# The decoders paper shows these two figures of the thesis again, with its own tables (below).
ACCURACY_AND_T_SHAP = Chart(
    "thesis-5.2",
    "VL decoders: accuracy and share of text in answers and explanations",
    ("thesis-C.25", "thesis-5.5"),
    panels=(select("VALSE, average", dataset=AVERAGE), VQA, MSCOCO, GQA, GQA_BALANCED),
    rows="model",
    series=(*ACCURACIES, *T_SHAPS),
    note="Accuracy on VALSE and MSCOCO is acc_r.",
)
CC_SHAP_ON_VALSE = Chart(
    "thesis-5.3",
    "VL decoders on VALSE: CC-SHAP and counterfactual edits",
    ("thesis-C.25",),
    panels=(
        *select_metrics(CC_SHAPS, CC_SHAP_UNIT),
        *select_metrics(("counterfactual_edits",), "percent consistent"),
    ),
    rows=VALSE_ROWS,
    series="model",
)
CHARTS = (
    Chart(
        "thesis-3.2",
        "Accuracy on captions and foils, averages over VALSE",
        ("thesis-3.4", "thesis-3.5"),
        panels=PAIRWISE_PANELS,
        rows="model",
        series=(
            select("encoders and language models", table="thesis-3.4"),
            select("VL decoders", table="thesis-3.5"),
        ),
    ),
    Chart(
        "thesis-4.4",
        "VL decoders: accuracy and share of text in answers",
        ("thesis-5.5",),
        panels=(VQA, GQA, GQA_BALANCED, MSCOCO),
        rows="model",
        series=(ACCURACIES[0], T_SHAP_OF_ANSWERS),
        note="Accuracy on MSCOCO is acc_r.",
    ),
    Chart(
        "thesis-4.5",
        "Encoders and VL decoders: accuracy and share of text, averages over VALSE",
        ("thesis-4.2", "thesis-4.3"),
        panels=(
            *PAIRWISE_PANELS,
            select(
                "T-SHAP_r (caption and foil together)",
                metric="t_shap_r",
                dataset=AVERAGE,
            ),
            select("T-SHAP_c (caption alone)", metric="t_shap_c", dataset=AVERAGE),
        ),
        rows="model",
        series=(
            select("encoders", table="thesis-4.2"),
            select("VL decoders", table="thesis-4.3"),
        ),
        derived=("acc",),
        note="Encoders read one text at a time, so they have no T-SHAP_r.",
    ),
    Chart(
        "thesis-4.6",
        "VL decoders: accuracy and share of text by kind of prompt, averages over VALSE",
        ("thesis-4.3",),
        panels=(
            select(
                "caption and foil together (acc_r, T-SHAP_r)",
                metric=("acc_r", "t_shap_r"),
                dataset=AVERAGE,
            ),
            select(
                "caption alone (p_c, T-SHAP_c)",
                metric=("p_c", "t_shap_c"),
                dataset=AVERAGE,
            ),
            select(
                "foil alone (p_f, T-SHAP_f)",
                metric=("p_f", "t_shap_f"),
                dataset=AVERAGE,
            ),
            select("acc, mean of p_c and p_f", metric="acc", dataset=AVERAGE),
        ),
        rows="model",
        series=(
            select("accuracy", metric=("acc_r", "p_c", "p_f", "acc")),
            select("T-SHAP", metric=("t_shap_r", "t_shap_c", "t_shap_f")),
        ),
        derived=("acc",),
    ),
    ACCURACY_AND_T_SHAP,
    CC_SHAP_ON_VALSE,
    Chart(
        "thesis-C.1",
        "Language models: self-consistency averaged over the text tasks",
        ("thesis-C.1",),
        # A part without fields takes all cells of the table.
        panels=(Part("average, CC-SHAP rescaled from -1…1 to 0…100", {}, "0 to 100"),),
        rows="model",
        series=select_metrics(RESCALED_AVERAGES),
    ),
    Chart(
        "thesis-C.2",
        "Language models on ComVE: accuracy, CC-SHAP and tests over seeds",
        ("seeds-texts", "thesis-5.2"),
        panels=tuple(
            replace(part, fields={**part.fields, "dataset": ("comve",)})
            for part in (
                *ACCURACIES,
                *select_metrics(CC_SHAPS, CC_SHAP_UNIT),
                *select_metrics(TESTS, "percent consistent"),
            )
        ),
        rows="model",
        series=(select("ComVE", dataset="comve"),),
        over_seeds=True,
    ),
    Chart(
        "thesis-C.3",
        "Language models: accuracy and self-consistency over model size",
        ("thesis-5.2", "thesis-C.2"),
        panels=(
            select(
                "accuracy, average over all text tasks",
                metric=("accuracy", "accuracy_cot"),
                dataset=AVERAGE,
            ),
            *select_metrics(CC_SHAPS, CC_SHAP_UNIT),
            *select_metrics(TESTS, "percent consistent"),
        ),
        rows="model",
        series=(
            select("accuracy", metric="accuracy"),
            select("accuracy after a chain of thought", metric="accuracy_cot"),
            select("e-SNLI", table="thesis-5.2", dataset="e-snli"),
            select(
                "disambiguation QA", table="thesis-5.2", dataset="disambiguation-qa"
            ),
            select("ComVE", table="thesis-5.2", dataset="comve"),
        ),
        kind="trends",
        derived=("accuracy over tasks",),
        hidden_models=(
            "llama2-7b",
            "llama2-13b",
            "mistral-7b",
            "falcon-7b",
            "falcon-40b",
            "gpt2",
        ),
        note="Of the thesis's models, those with chat tuning, as in its figure.",
    ),
    Chart(
        "thesis-C.3-bars",
        "Language models: how often each test correlates with CC-SHAP",
        ("thesis-C.3",),
        panels=(Part("over all models and text tasks", {}, "number of correlations"),),
        rows=select_metrics(TESTS),
        series=(
            select("correlation × 100 of 10 or more", setting="high"),
            select("correlation × 100 of −10 or less", setting="low"),
        ),
        kind="counts",
        derived=("counts of correlations",),
        note="Correlations that are illegible in the thesis's table are not counted.",
    ),
    Chart(
        "thesis-C.4",
        "VL decoders: accuracy and share of text over seeds",
        ("seeds-images", "thesis-C.25", "thesis-5.5"),
        panels=(*ACCURACIES, *T_SHAPS),
        rows=SEED_ROWS,
        series="model",
        over_seeds=True,
        further_figures=("decoders-paper-figure-7",),
    ),
    Chart(
        "thesis-C.5",
        "VL decoders: CC-SHAP and tests over seeds",
        ("seeds-images", "thesis-C.25", "thesis-5.5"),
        panels=(
            *select_metrics(CC_SHAPS, CC_SHAP_UNIT),
            *select_metrics(TESTS_WITH_IMAGES, "percent consistent"),
        ),
        rows=SEED_ROWS,
        series="model",
        over_seeds=True,
        further_figures=("decoders-paper-figure-8",),
    ),
    Chart(
        "decoders-paper-figure-1",
        "Accuracy of encoders and VL decoders on captions and foils, averages over VALSE",
        ("decoders-paper-1", "thesis-3.4"),
        panels=PAIRWISE_PANELS,
        rows="model",
        series=(
            select("encoders and language models", table="thesis-3.4"),
            select("VL decoders", table="decoders-paper-1"),
        ),
    ),
    replace(
        ACCURACY_AND_T_SHAP,
        id="decoders-paper-figure-4",
        tables=("decoders-paper-3", "decoders-paper-2"),
    ),
    replace(
        CC_SHAP_ON_VALSE, id="decoders-paper-figure-5", tables=("decoders-paper-3",)
    ),
)
