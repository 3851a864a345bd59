"""Search for the best of several models: the highest value whose lead over the second highest a
test shows.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from scipy.stats import norm

from waltz.core.intervals import compute_least_p
from waltz.core.records import read_records
from waltz.core.schema import ComparisonRecord
from waltz.evaluation.metrics.power import POWER
from waltz.evaluation.metrics.summary import COMPARED_SETTINGS
from waltz.reporting.tables.cells import Cell
from waltz.reporting.tables.declaration import Declaration
from waltz.reporting.tables.declarations import get_style
from waltz.reporting.tables.numbers import Position, list_number_keys

COMPARED_SETTING_OF = {
    setting: compared
    # Of several comparisons of a setting, the first one counts.
    for compared, settings in reversed(COMPARED_SETTINGS.items())
    for setting in settings
}
"""Setting of a paired comparison, by the setting of the scores that it compares."""
BOLD_RULE = (
    "at one minus the coverage of the intervals: by the paired test of both models on their common items, after Holm's"
    " correction for all comparisons (for ten, it shows about half of the leads that a single test shows with a power"
    " of 80 %); where there is none, as large as independent samples detect with a power of 80 % (half of the true"
    " leads of this size are bold)"
)
"""Explanation below tables that says what is bold."""
OUR_OWN = " (ours)"
"""Ending that our model's name gets in a table if a model of the paper has the same name."""


class PairKey(NamedTuple):
    """Key of a paired test of two models on the items of a data set."""

    profile: str
    dataset: str
    setting: str
    metric: str
    model_a: str
    model_b: str


@dataclass(frozen=True)
class SignificanceTests:
    """Results of significance tests of the differences between the models of a study.

    Attributes:
        confidence: Coverage of the cells' intervals, between 0 and 1; the tests have the level 1 -
            `confidence`.
        paired: Results of paired tests: the difference (first minus second model) on the items that
            both models scored, and p after Holm's correction; each pair in both orders.
    """

    confidence: float = 0.95
    paired: dict[PairKey, tuple[float, float]] = field(default_factory=dict)

    def find_best(self, declaration: Declaration, cells: Sequence[Cell]) -> set[Cell]:
        """Return the cells that are the best of several models: their lead over the second best is
        significant.

        There is at most one best cell for each profile, metric, data set and setting.

        The paired test of the two models decides where there is such a test. Otherwise the lead has
        to be at least the smallest difference of independent samples that a test detects with power
        `POWER`, since the two cells are chosen after looking at the values.

        Args:
            declaration: The table.
            cells: Cells of the table; those of metrics without a best model are ignored.
        """
        groups: defaultdict[tuple[str, ...], list[Cell]] = defaultdict(list)
        for cell in cells:
            if get_style(cell.metric).best and cell.value is not None:
                position = (cell.profile, cell.metric, cell.dataset, cell.setting)
                groups[position].append(cell)
        best = set()
        for group in groups.values():
            group.sort(key=lambda cell: cell.value or 0.0, reverse=True)
            first, *others = group
            # Only the lead over the second best is tested.
            if others and self._is_significant(declaration, first, others[0]):
                best.add(first)
        return best

    def _is_significant(
        self, declaration: Declaration, first: Cell, second: Cell
    ) -> bool:
        """Return whether a test shows the lead of the first cell over the second."""
        paired = self._find_paired(declaration, first, second)
        if paired is None:
            return self._has_detectable_lead(first, second)
        difference, p = paired
        return difference > 0 and p <= 1 - self.confidence

    def _find_paired(
        self, declaration: Declaration, first: Cell, second: Cell
    ) -> tuple[float, float] | None:
        """Return the difference of two cells' models on common items, and its corrected p; None
        without a test.
        """
        keys = _list_pair_keys(declaration, first, second)
        return next(filter(None, map(self.paired.get, keys)), None)

    def _has_detectable_lead(self, first: Cell, second: Cell) -> bool:
        """Return whether the lead of the first cell is significant if both cells are independent
        samples.

        Nothing can be shown if a cell has no interval.
        """
        assert first.value is not None
        assert second.value is not None
        half_widths = []
        for cell in (first, second):
            if cell.interval is None:
                return False
            # By a sign test, few images cannot show anything, however narrow an interval they
            # happen to give.
            if (
                cell.images is not None
                and compute_least_p(cell.images) > 1 - self.confidence
            ):
                return False
            low, high = cell.interval
            half_widths.append((high - low) / 2)
        # An interval reaches z(level) standard errors; a test with power POWER needs z(level) +
        # z(power) of them.
        z_level = norm.ppf((1 + self.confidence) / 2)
        detectable = math.hypot(*half_widths) * float(1 + norm.ppf(POWER) / z_level)
        return 0 < detectable <= first.value - second.value


def read_significance_tests(
    files: Iterable[str | Path], confidence: float
) -> SignificanceTests:
    """Read the results of paired tests.

    Args:
        files: Parquet files of the layout `COMPARISONS`; rows without a corrected p are skipped.
        confidence: Coverage of the study's intervals, between 0 and 1.
    """
    records: list[ComparisonRecord] = []
    for file in files:
        records += read_records(file, ComparisonRecord)
    return index_significance_tests(records, confidence)


def index_significance_tests(
    records: Iterable[ComparisonRecord], confidence: float
) -> SignificanceTests:
    """Return the results of paired tests by what they compare; see `read_significance_tests`."""
    paired = {}
    for record in records:
        if record.difference is None or record.p_holm is None:
            continue
        key = PairKey(
            record.profile,
            record.dataset,
            record.setting,
            record.metric,
            record.model_a,
            record.model_b,
        )
        paired[key] = (record.difference, record.p_holm)
        # A pair of models is tested once; in the other order the difference changes its sign.
        swapped = key._replace(model_a=record.model_b, model_b=record.model_a)
        paired.setdefault(swapped, (-record.difference, record.p_holm))
    return SignificanceTests(confidence, paired)


def _list_pair_keys(
    declaration: Declaration, first: Cell, second: Cell
) -> Iterator[PairKey]:
    """Yield the keys of the paired tests that two cells of a table may have."""
    position = Position(first.metric, first.dataset, first.setting)
    # A row may be filled by several models of ours, of which only some pairs were compared.
    pairs = itertools.product(
        _list_our_models(declaration, first.model),
        _list_our_models(declaration, second.model),
    )
    for model_a, model_b in pairs:
        for number_key in list_number_keys(declaration, position, model_a):
            # Only scores of the evaluation have paired tests.
            if number_key.kind == "evaluation":
                yield PairKey(
                    profile=first.profile,
                    dataset=number_key.dataset,
                    setting=COMPARED_SETTING_OF.get(number_key.setting, ""),
                    metric=number_key.metric,
                    model_a=model_a,
                    model_b=model_b,
                )


def _list_our_models(declaration: Declaration, model: str) -> tuple[str, ...]:
    """Return our models that may fill the row of a model in a table."""
    if model.endswith(OUR_OWN):
        return (model.removesuffix(OUR_OWN),)
    return declaration.list_our_models(model)
