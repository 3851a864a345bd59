"""The charts: which cells of which tables each one shows.

Print gives most of these figures without numbers; what each is taken to show follows its caption and the tables that
hold the same numbers (resources/published/README.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from waltz.instruments import INSTRUMENTS


@dataclass(frozen=True)
class Chart:
    """One chart, by the fields of table cells.

    Attributes:
        id: Id of the printed figure.
        title: What it shows, in one line.
        tables: Ids of the tables whose cells it shows.
        panels: Fields that name a panel.
        along: Field whose values stand one below the other in each panel.
        series: Field that marks tell apart.
        keep: By field, the values that are shown, in order; all of them where a field is not named.
        unit: What the axis measures.
        units: The same by metric, where it is another one; panels of one unit share their axis.
        over_seeds: Whether cells show numbers over seeds: deviations stand in the place of intervals, and each seed's
            own number beside them.
        also: Printed figures that it stands for beside its id.
        note: What a reader must know beside it.
    """

    id: str
    title: str
    tables: tuple[str, ...]
    panels: tuple[str, ...]
    along: str
    series: str
    keep: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unit: str = "percent"
    units: Mapping[str, str] = field(default_factory=dict)
    over_seeds: bool = False
    also: tuple[str, ...] = ()
    note: str = ""

    @property
    def figures(self) -> str:
        """The printed figures that it stands for, as they are called."""
        return ", ".join(name.replace("-", " ") for name in (self.id, *self.also))


AVERAGE = "average"
POST_HOC, COT = ("post-hoc",), ("cot",)
T_SHAPS = ("t_shap", "t_shap_r", "t_shap_c", "t_shap_f")
TESTS = (
    "counterfactual_edits",
    "input_from_explanation",
    "biasing_features",
    "early_answering",
    "filler_tokens",
    "adding_mistakes",
    "paraphrasing",
)
CC_SHAPS = ("cc_shap_posthoc", "cc_shap_cot")
OPEN = ("vqa", "gqa", "gqa-balanced", "mscoco")

IN_CC_SHAP = "CC-SHAP, -1 to 1"
CHARTS = (
    Chart(
        "thesis-3.2",
        "Captions and foils told apart, averages over VALSE",
        ("thesis-3.4", "thesis-3.5"),
        panels=("metric",),
        along="model",
        series="table",
        keep={"metric": ("acc_r", "acc"), "dataset": (AVERAGE,)},
    ),
    Chart(
        "thesis-4.4",
        "Accuracy and share of text of answers",
        ("thesis-5.5",),
        panels=("metric",),
        along="dataset",
        series="model",
        keep={"metric": ("accuracy", "t_shap_prediction"), "setting": POST_HOC, "dataset": OPEN},
    ),
    Chart(
        "thesis-4.5",
        "Accuracy and share of text, averages over VALSE",
        ("thesis-4.2", "thesis-4.3"),
        panels=("metric",),
        along="model",
        series="table",
        keep={"metric": ("acc_r", "acc", *T_SHAPS), "dataset": (AVERAGE,)},
    ),
    Chart(
        "thesis-4.6",
        "Share of text of decoders' answers, pairwise and beside one text",
        ("thesis-4.3",),
        panels=("metric",),
        along="dataset",
        series="model",
        keep={"metric": T_SHAPS, "dataset": (*INSTRUMENTS, AVERAGE)},
    ),
    Chart(
        "thesis-5.2",
        "Decoders that see: self-consistency tests by data set",
        ("thesis-C.25", "thesis-5.5"),
        panels=("dataset",),
        along="metric",
        series="model",
        keep={"dataset": (AVERAGE, *OPEN), "metric": TESTS},
        note="“average” is that of VALSE's pieces.",
    ),
    Chart(
        "thesis-5.3",
        "Decoders that see: CC-SHAP on VALSE",
        ("thesis-C.25",),
        panels=("metric",),
        along="dataset",
        series="model",
        keep={"metric": CC_SHAPS, "dataset": (*INSTRUMENTS, AVERAGE)},
        unit=IN_CC_SHAP,
    ),
    Chart(
        "thesis-C.1",
        "Language models: average over tests and CC-SHAP of all text tasks",
        ("thesis-C.1",),
        panels=("metric",),
        along="model",
        series="metric",
    ),
    Chart(
        "thesis-C.2",
        "Language models: tests and CC-SHAP on ComVE over seeds",
        ("seeds-texts",),
        panels=("metric",),
        along="model",
        series="dataset",
        keep={"dataset": ("comve",), "metric": (*TESTS, *CC_SHAPS)},
        units=dict.fromkeys(CC_SHAPS, IN_CC_SHAP),
        over_seeds=True,
    ),
    Chart(
        "thesis-C.3",
        "Language models: CC-SHAP by data set",
        ("thesis-5.2", "thesis-C.2"),
        panels=("metric",),
        along="model",
        series="dataset",
        keep={"metric": CC_SHAPS},
        unit=IN_CC_SHAP,
    ),
    Chart(
        "thesis-C.3-bars",
        "Correlation of each test with CC-SHAP",
        ("thesis-C.3",),
        panels=("metric",),
        along="model",
        series="dataset",
        keep={"metric": TESTS},
        unit="point-biserial correlation × 100",
    ),
    Chart(
        "thesis-C.4",
        "Decoders that see: tests and CC-SHAP over seeds",
        ("seeds-images",),
        panels=("metric",),
        along="dataset",
        series="model",
        keep={"metric": (*TESTS, *CC_SHAPS)},
        units=dict.fromkeys(CC_SHAPS, IN_CC_SHAP),
        over_seeds=True,
        also=("decoders-paper-figure-7",),
    ),
    Chart(
        "thesis-C.5",
        "Decoders that see: T-SHAP of answers and explanations over seeds",
        ("seeds-images",),
        panels=("metric", "setting"),
        along="dataset",
        series="model",
        keep={"metric": ("t_shap_prediction", "t_shap_explanation")},
        over_seeds=True,
        also=("decoders-paper-figure-8",),
    ),
    Chart(
        "decoders-paper-figure-1",
        "Captions and foils told apart by decoders, averages over VALSE",
        ("decoders-paper-1",),
        panels=("metric",),
        along="model",
        series="table",
        keep={"metric": ("acc_r", "acc", "p_c", "p_f"), "dataset": (AVERAGE,)},
    ),
    Chart(
        "decoders-paper-figure-4",
        "Decoders that see: self-consistency tests by data set",
        ("decoders-paper-3", "decoders-paper-2"),
        panels=("dataset",),
        along="metric",
        series="model",
        keep={"dataset": (AVERAGE, *OPEN), "metric": TESTS},
    ),
    Chart(
        "decoders-paper-figure-5",
        "Decoders that see: CC-SHAP on VALSE",
        ("decoders-paper-3",),
        panels=("metric",),
        along="dataset",
        series="model",
        keep={"metric": CC_SHAPS, "dataset": (*INSTRUMENTS, AVERAGE)},
        unit=IN_CC_SHAP,
    ),
)
