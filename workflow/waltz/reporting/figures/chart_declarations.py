"""Declarations of charts: which cells of which tables each one shows.

The papers show most of these figures without numbers; the declarations follow their captions and the tables with the
same numbers (waltz/resources/published/README.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from waltz.instruments import INSTRUMENTS
from waltz.reporting.tables.declaration import AVERAGE
from waltz.reporting.tables.declarations import CC_SHAPS, COT_TESTS, POST_HOC_TESTS


@dataclass(frozen=True)
class Chart:
    """One chart, by the fields of table cells.

    Attributes:
        id: Id of the paper's figure.
        title: One line that says what the chart shows.
        tables: Ids of the tables whose cells it shows.
        panels: Fields that name a panel.
        rows: Field whose values are the rows of each panel.
        series: Field whose values have a marker and a colour each.
        selection: By field, the values that are shown, in order; all values of other fields are shown.
        unit: Unit of the axis.
        units: Units of single metrics that differ from it; panels of one unit share their axis.
        over_seeds: Whether cells show numbers over seeds: with deviations instead of intervals, and the number of each
            seed.
        further_figures: Ids of further paper figures that it corresponds to.
        note: Remark that a reader needs.
    """

    id: str
    title: str
    tables: tuple[str, ...]
    panels: tuple[str, ...] = ("metric",)
    rows: str = "dataset"
    series: str = "model"
    selection: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unit: str = "percent"
    units: Mapping[str, str] = field(default_factory=dict)
    over_seeds: bool = False
    further_figures: tuple[str, ...] = ()
    note: str = ""

    @property
    def figures(self) -> str:
        """Names of the paper figures that it corresponds to."""
        return ", ".join(name.replace("-", " ") for name in (self.id, *self.further_figures))


T_SHAPS = ("t_shap", "t_shap_r", "t_shap_c", "t_shap_f")
TESTS = (*POST_HOC_TESTS, *COT_TESTS)
CC_SHAP_UNIT = "CC-SHAP, -1 to 1"
VALSE = (*INSTRUMENTS, AVERAGE)
VISION_TASKS = ("vqa", "gqa", "gqa-balanced", "mscoco")

TESTS_BY_DATASET = Chart(
    "thesis-5.2",
    "VL decoders: self-consistency tests by data set",
    ("thesis-C.25", "thesis-5.5"),
    panels=("dataset",),
    rows="metric",
    selection={"dataset": (AVERAGE, *VISION_TASKS), "metric": TESTS},
    note="“average” is that of VALSE's pieces.",
)
CC_SHAP_ON_VALSE = Chart(
    "thesis-5.3",
    "VL decoders: CC-SHAP on VALSE",
    ("thesis-C.25",),
    selection={"metric": CC_SHAPS, "dataset": VALSE},
    unit=CC_SHAP_UNIT,
)
CHARTS = (
    Chart(
        "thesis-3.2",
        "Accuracy on captions and foils, averages over VALSE",
        ("thesis-3.4", "thesis-3.5"),
        rows="model",
        series="table",
        selection={"metric": ("acc_r", "acc"), "dataset": (AVERAGE,)},
    ),
    Chart(
        "thesis-4.4",
        "Accuracy and share of text of answers",
        ("thesis-5.5",),
        selection={
            "metric": ("accuracy", "t_shap_prediction"),
            "setting": ("post-hoc",),
            "dataset": VISION_TASKS,
        },
    ),
    Chart(
        "thesis-4.5",
        "Accuracy and share of text, averages over VALSE",
        ("thesis-4.2", "thesis-4.3"),
        rows="model",
        series="table",
        selection={"metric": ("acc_r", "acc", *T_SHAPS), "dataset": (AVERAGE,)},
    ),
    Chart(
        "thesis-4.6",
        "Share of text of decoders' answers, pairwise and with one text",
        ("thesis-4.3",),
        selection={"metric": T_SHAPS, "dataset": VALSE},
    ),
    TESTS_BY_DATASET,
    CC_SHAP_ON_VALSE,
    Chart(
        "thesis-C.1",
        "Language models: average over tests and CC-SHAP of all text tasks",
        ("thesis-C.1",),
        rows="model",
        series="metric",
    ),
    Chart(
        "thesis-C.2",
        "Language models: tests and CC-SHAP on ComVE over seeds",
        ("seeds-texts",),
        rows="model",
        series="dataset",
        selection={"dataset": ("comve",), "metric": (*TESTS, *CC_SHAPS)},
        units=dict.fromkeys(CC_SHAPS, CC_SHAP_UNIT),
        over_seeds=True,
    ),
    Chart(
        "thesis-C.3",
        "Language models: CC-SHAP by data set",
        ("thesis-5.2", "thesis-C.2"),
        rows="model",
        series="dataset",
        selection={"metric": CC_SHAPS},
        unit=CC_SHAP_UNIT,
    ),
    Chart(
        "thesis-C.3-bars",
        "Correlation of each test with CC-SHAP",
        ("thesis-C.3",),
        rows="model",
        series="dataset",
        selection={"metric": TESTS},
        unit="point-biserial correlation × 100",
    ),
    Chart(
        "thesis-C.4",
        "VL decoders: tests and CC-SHAP over seeds",
        ("seeds-images",),
        selection={"metric": (*TESTS, *CC_SHAPS)},
        units=dict.fromkeys(CC_SHAPS, CC_SHAP_UNIT),
        over_seeds=True,
        further_figures=("decoders-paper-figure-7",),
    ),
    Chart(
        "thesis-C.5",
        "VL decoders: T-SHAP of answers and explanations over seeds",
        ("seeds-images",),
        panels=("metric", "setting"),
        selection={"metric": ("t_shap_prediction", "t_shap_explanation")},
        over_seeds=True,
        further_figures=("decoders-paper-figure-8",),
    ),
    Chart(
        "decoders-paper-figure-1",
        "Accuracy of decoders on captions and foils, averages over VALSE",
        ("decoders-paper-1",),
        rows="model",
        series="table",
        selection={"metric": ("acc_r", "acc", "p_c", "p_f"), "dataset": (AVERAGE,)},
    ),
    replace(TESTS_BY_DATASET, id="decoders-paper-figure-4", tables=("decoders-paper-3", "decoders-paper-2"), note=""),
    replace(CC_SHAP_ON_VALSE, id="decoders-paper-figure-5", tables=("decoders-paper-3",)),
)
