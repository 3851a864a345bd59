"""One table, built from the result files of a study, compared with the paper values, and written in four formats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from waltz.core.files.atomic import write_text
from waltz.core.intervals import Measure, compute_interval_of_mean
from waltz.reporting.tables.best import SignificanceTests
from waltz.reporting.tables.cells import (
    CHANCE,
    COMPARED_PROFILE,
    NOT_RUN,
    ONLY_PUBLISHED,
    SYNTHETIC_DATA,
    Cell,
    format_csv,
)
from waltz.reporting.tables.declaration import AVERAGE, DERIVED, Declaration
from waltz.reporting.tables.formats import format_html_page, format_latex, format_markdown
from waltz.reporting.tables.numbers import (
    Number,
    Numbers,
    Position,
    StudyFacts,
    derive_numbers,
    derive_paper_averages,
    list_places,
    read_numbers,
)
from waltz.reporting.tables.paper_values import (
    EVERY_METRIC,
    RANDOM,
    Comparison,
    Key,
    PaperValue,
    compare_with_paper,
    read_paper_values,
)


class TableFiles(Protocol):
    """Paths of a table's four files."""

    csv: str
    md: str
    tex: str
    html: str


def build_table(
    declaration: Declaration,
    files: Mapping[str, Sequence[str]],
    paper_tables: Sequence[str | Path],
    profiles: Sequence[str],
    study: StudyFacts,
) -> list[Cell]:
    """Return all cells of a table, profile by profile.

    Args:
        files: The study's result files by kind.
    """
    paper_values = read_paper_cells(declaration, paper_tables)
    if declaration.only_profile:
        profiles = [declaration.only_profile if declaration.only_profile in profiles else profiles[0]]
    cells = []
    for profile in profiles:
        numbers = derive_numbers(declaration, read_numbers(files, profile), paper_values, profile, study)
        cells += build_cells(declaration, profile, numbers, paper_values, study)
    return cells


def read_paper_cells(declaration: Declaration, paper_tables: Sequence[str | Path]) -> dict[Key, PaperValue]:
    """Return the paper values that a table is compared with."""
    paper_values: dict[Key, PaperValue] = {}
    for file in paper_tables:
        paper_values |= read_paper_values(file)
    return derive_paper_averages(paper_values) if "rescaled" in declaration.derived else paper_values


def write_table(
    declaration: Declaration, cells: Sequence[Cell], significance: SignificanceTests, files: TableFiles
) -> None:
    """Write a table as CSV, Markdown, LaTeX and HTML.

    Args:
        significance: What tests can show, which decides what is bold.
    """
    write_text(files.csv, format_csv(cells))
    write_text(files.md, format_markdown(declaration, cells, significance))
    write_text(files.tex, format_latex(declaration, cells, significance))
    write_text(files.html, format_html_page(declaration, cells, significance))


def build_cells(
    declaration: Declaration, profile: str, numbers: Numbers, paper_values: Mapping[Key, PaperValue], study: StudyFacts
) -> list[Cell]:
    """Return a table's cells in one profile: those of the paper in its order, then those of other models.

    Where profile or study are not compared with the paper, only cells of our models are returned.
    """
    return _TableOfProfile(declaration, profile, numbers, paper_values, study).build_cells()


@dataclass(frozen=True)
class _TableOfProfile:
    """A table in one profile, with our numbers and the paper's."""

    declaration: Declaration
    profile: str
    numbers: Numbers
    paper_values: Mapping[Key, PaperValue]
    study: StudyFacts

    def build_cells(self) -> list[Cell]:
        """Return the cells of all models."""
        cells = []
        for model, our_models in self._match_models():
            own = [(key[0], *key[2:]) for key in self.keys if key[1] == model]
            is_partial = not our_models or self.declaration.ragged
            for position in own if is_partial else dict.fromkeys([*own, *self.positions]):
                numbers = (self._find_number(position, name) for name in our_models)
                cells.append(self._make_cell(model, position, next(filter(None, numbers), None)))
        return cells

    @cached_property
    def is_compared(self) -> bool:
        """Whether our numbers are compared with the paper values."""
        return self.study.compared and self.profile == COMPARED_PROFILE

    @cached_property
    def keys(self) -> list[Key]:
        """Metric, model, data set and setting of the paper's cells; of the table's numbers where it has no paper."""
        if self.paper_values:
            return list(self.paper_values)
        metrics = {
            (source.source, source.metric): metric
            for metric, sources in self.declaration.sources.items()
            for source in sources
        }
        return [(metrics[place[:2]], *place[2:]) for place in self.numbers if place[:2] in metrics]

    @cached_property
    def paper_positions(self) -> list[Position]:
        """Metric, data set and setting of every cell in the paper's order."""
        sources = self.declaration.sources
        return list(dict.fromkeys((key[0], *key[2:]) for key in self.keys if key[1] != RANDOM and key[0] in sources))

    @cached_property
    def averaged_datasets(self) -> list[str]:
        """Data sets that an average is over."""
        return list(dict.fromkeys(dataset for _, dataset, _ in self.paper_positions if dataset != AVERAGE))

    @cached_property
    def positions(self) -> list[Position]:
        """The paper's positions, then those of data sets that it lacks, where there are numbers on them."""
        if not self.declaration.adds_own_datasets:
            return self.paper_positions
        sources = {place.source for places in self.declaration.sources.values() for place in places}
        measured = {place[3] for place in self.numbers if place[0] in sources}
        own = [name for name in self.study.datasets if name in measured and name not in self.averaged_datasets]
        return [*self.paper_positions, *((metric, name, "") for name in own for metric in self.declaration.sources)]

    @cached_property
    def chances(self) -> dict[Position, float]:
        """Chance level by cell, where the paper gives it; a row for all metrics serves each."""
        return {
            (key[0], *key[2:]): float(paper.value)
            for key, paper in self.paper_values.items()
            if key[1] == RANDOM and paper.value
        }

    @cached_property
    def units(self) -> dict[str, str]:
        """Unit of each metric."""
        return {key[0]: value.unit for key, value in self.paper_values.items()}

    def _match_models(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return the models of the table, each with our models that stand for it; none where it was not run."""
        declaration = self.declaration
        of_kind = [model for model, kind in self.study.models.items() if kind in declaration.model_kinds]
        keys = [] if declaration.model_kinds and not self.paper_values else self.keys
        names = list(dict.fromkeys(key[1] for key in keys))
        matches: list[tuple[str, tuple[str, ...]]] = []
        for name in names:
            aliases = declaration.model_aliases.get(name, (name,)) if name else ("",)
            known = [model for model in aliases if not model or model in of_kind or not declaration.model_kinds]
            extra = [model for model in declaration.extra_models.get(name, ()) if model in self.study.models]
            ours = [model for model in known if not model or self._was_run(model)][:1]
            ours += filter(self._was_run, extra)
            if self.is_compared or ours:
                matches.append((name, tuple(ours)))
        if declaration.adds_other_models:
            claimed = {model for _, ours in matches for model in ours}
            for model in of_kind:
                if model not in claimed and self._was_run(model):
                    matches.append((f"{model} (ours)" if model in names else model, (model,)))
        return matches

    def _was_run(self, model: str) -> bool:
        """Return whether any number of a model has a value, a text, or items that it was measured on."""
        numbers = (self._find_number(position, model) for position in self.positions)
        return any(
            number.measure.value is not None or number.text or number.measure.n > 0 for number in numbers if number
        )

    def _find_number(self, position: Position, model: str) -> Number | None:
        """Return our number of a cell, averaged over data sets where the cell is an average that no stage computes."""
        metric, dataset, setting = position
        if dataset == AVERAGE and self.declaration.sources[metric][0].source != DERIVED:
            return _average_numbers(
                [self._find_number((metric, name, setting), model) for name in self.averaged_datasets]
            )
        places = list_places(self.declaration, position, model)
        return next((self.numbers[place] for place in places if place in self.numbers), None)

    def _find_chance(self, position: Position) -> float | None:
        """Return the chance level of a cell; that of the answer holds for the answer after a chain of thought too."""
        metric, dataset, setting = position
        plain = metric.removesuffix("_cot")
        for name, chance_setting in ((metric, setting), (plain, "post-hoc"), (EVERY_METRIC, setting)):
            for data in (dataset, AVERAGE):
                if (name, data, chance_setting) in self.chances:
                    return self.chances[name, data, chance_setting]
        return None

    def _make_cell(self, model: str, position: Position, number: Number | None) -> Cell:
        """Return one cell with its verdict, or the reason why it has none."""
        metric, dataset, setting = position
        paper = self.paper_values.get((metric, model, dataset, setting)) if self.is_compared else None
        ours = number or Number(Measure(None, 0, reason=self._explain_absence(model, position)))
        if not self.is_compared:
            not_compared = ONLY_PUBLISHED if self.study.compared else SYNTHETIC_DATA
            comparison = Comparison(None, None, "", ours.measure.reason or not_compared)
        elif metric in self.declaration.known_reasons:
            paper_text = paper.value if paper else ""
            comparison = Comparison(None, None, "", self.declaration.known_reasons[metric], paper_text)
        else:
            comparison = compare_with_paper(ours.measure, paper, self.study.confidence, ours.text)
            note = self.declaration.model_notes.get(model, "") if comparison.verdict else ""
            comparison = replace(comparison, reason="; ".join(filter(None, (comparison.reason, note))))
        return Cell(
            table=self.declaration.id,
            profile=self.profile,
            metric=metric,
            model=model,
            dataset=dataset,
            setting=setting,
            value=ours.measure.value,
            n=ours.measure.n,
            ci_low=ours.measure.ci_low,
            ci_high=ours.measure.ci_high,
            paper_value=comparison.paper_value,
            difference=comparison.difference,
            verdict=comparison.verdict,
            reason=comparison.reason,
            unit=paper.unit if paper else self.units.get(metric, ""),
            sd=ours.sd,
            paper_sd=float(paper.sd) if paper and paper.sd else None,
            chance=self._find_chance(position),
            text=ours.text,
            paper_text=comparison.paper_text,
        )

    def _explain_absence(self, model: str, position: Position) -> str:
        """Return why we have no number of a cell."""
        if model == RANDOM:
            return CHANCE
        metric, dataset, _ = position
        declaration = self.declaration
        our_models = (*declaration.model_aliases.get(model, (model,)), *declaration.extra_models.get(model, ()))
        for name in (*our_models, dataset.partition(":")[0]):
            if name in self.study.skipped:
                return self.study.skipped[name]
        return declaration.known_reasons.get(model) or declaration.known_reasons.get(metric) or NOT_RUN


def _average_numbers(parts: Sequence[Number | None]) -> Number | None:
    """Return the mean over independent data sets, each with the same weight."""
    present = [part for part in parts if part is not None]
    if not present:
        return None
    n = sum(part.measure.n for part in present)
    values = [part.measure.value for part in present if part.measure.value is not None]
    if len(present) < len(parts):
        missing = len(parts) - len(present)
        return Number(Measure(None, n, reason=f"not averaged: {missing} of {len(parts)} data sets were not run"))
    if len(values) < len(parts):
        reasons = {part.measure.reason for part in present if part.measure.value is None}
        shared_reason = next(iter(reasons)) if len(reasons) == 1 and not values else None
        reason = f"not averaged: {len(parts) - len(values)} of {len(parts)} data sets have no value"
        return Number(Measure(None, n, reason=shared_reason or reason))
    mean, sd = float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Number(Measure(mean, n, *compute_interval_of_mean([part.measure for part in present])), sd)
