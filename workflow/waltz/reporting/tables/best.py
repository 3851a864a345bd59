"""The best of several models, where its lead over the second best is one that a test detects with enough power."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scipy.stats import norm

from waltz.core.files import parquet
from waltz.core.schema import DETECTABLE
from waltz.evaluation.metrics.power import POWER
from waltz.evaluation.metrics.summary import COMPARED_SETTINGS
from waltz.reporting.tables.cells import Cell
from waltz.reporting.tables.declaration import Declaration, get_style
from waltz.reporting.tables.numbers import list_places

Key = tuple[str, str, str, str, str, str]
"""Profile, data set, setting, metric and two models."""
SETTINGS = {own: setting for setting, owns in COMPARED_SETTINGS.items() for own in owns}
"""Setting of the comparison by setting of the scores."""
OUR_OWN = " (ours)"
"""Ending of the name of a model of ours that has the name of one in the paper."""


@dataclass(frozen=True)
class SignificanceTests:
    """What tests can show about the differences between models of a study.

    Attributes:
        confidence: Coverage of the cells' intervals; one minus it is the level of the tests.
        paired: Difference (first minus second model) and the smallest one that a paired test shows, None where it can
            show none, on the items of both models.
    """

    confidence: float = 0.95
    paired: dict[Key, tuple[float, float | None]] = field(default_factory=dict)

    def find_best(self, declaration: Declaration, cells: Sequence[Cell]) -> set[Cell]:
        """Return the highest cells of a metric, data set and setting whose lead over the next one is detectable.

        Detectable is a lead at least as large as the smallest difference that a test detects with power `POWER`; a
        smaller one can be significant. The two cells are chosen after looking at the values.
        """
        groups: dict[tuple[str, str, str, str], list[Cell]] = {}
        for cell in cells:
            if get_style(cell.metric).best and cell.value is not None:
                groups.setdefault((cell.profile, cell.metric, cell.dataset, cell.setting), []).append(cell)
        best = set()
        for group in groups.values():
            ranked = sorted(group, key=lambda cell: cell.value or 0.0, reverse=True)
            if len(ranked) > 1 and self._shows(declaration, ranked[0], ranked[1]):
                best.add(ranked[0])
        return best

    def _shows(self, declaration: Declaration, first: Cell, second: Cell) -> bool:
        """Return whether the first cell leads the second by at least the smallest difference that a test detects."""
        difference, detectable = self._find_paired(declaration, first, second) or self._compare_alone(first, second)
        return detectable is not None and 0 < detectable <= difference

    def _find_paired(self, declaration: Declaration, first: Cell, second: Cell) -> tuple[float, float | None] | None:
        """Return the difference on the items of both models and the smallest that can be shown; None without items."""
        position = (first.metric, first.dataset, first.setting)
        for model in _list_our_models(declaration, first.model):
            for other in _list_our_models(declaration, second.model):
                for source, metric, _, dataset, setting in list_places(declaration, position, model):
                    names = (first.profile, dataset, SETTINGS.get(setting, ""), metric)
                    if source == "evaluation" and (found := self.paired.get((*names, model, other))):
                        return found
                    if source == "evaluation" and (found := self.paired.get((*names, other, model))):
                        return -found[0], found[1]
        return None

    def _compare_alone(self, first: Cell, second: Cell) -> tuple[float, float | None]:
        """Return the difference of two cells and the smallest that independent samples show, from their intervals."""
        assert first.value is not None
        assert second.value is not None
        widths = [
            (cell.ci_high - cell.ci_low) / 2
            for cell in (first, second)
            if cell.ci_low is not None and cell.ci_high is not None
        ]
        level = norm.ppf((1 + self.confidence) / 2)
        detectable = math.hypot(*widths) * float(1 + norm.ppf(POWER) / level) if len(widths) == 2 else None
        return first.value - second.value, detectable


def read_significance_tests(files: Iterable[str | Path], confidence: float) -> SignificanceTests:
    """Read what paired tests show from files of the layout `DETECTABLE`.

    Args:
        confidence: Coverage of the study's intervals.
    """
    rows = [row for file in files for row in parquet.read_rows(file, DETECTABLE)]
    names = ("profile", "dataset", "setting", "metric", "model_a", "model_b")
    paired = {
        (row[names[0]], row[names[1]], row[names[2]], row[names[3]], row[names[4]], row[names[5]]): (
            row["difference"],
            row["detectable"],
        )
        for row in rows
    }
    return SignificanceTests(confidence, paired)


def _list_our_models(declaration: Declaration, model: str) -> tuple[str, ...]:
    """Return our models that may stand in a row of a table."""
    name = model.removesuffix(OUR_OWN)
    if name != model:
        return (name,)
    return (*declaration.model_aliases.get(name, (name,)), *declaration.extra_models.get(name, ()))
