"""One table, built from the result files of a study, compared with the paper values, and written in
four formats.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

import pandas as pd

from waltz.core.files.atomic import write_text
from waltz.core.measure import Measure
from waltz.evaluation.metrics.pair_metrics import average_measures
from waltz.evaluation.settings import ALL_DATA_SETS
from waltz.reporting.tables.best import OUR_OWN, SignificanceTests
from waltz.reporting.tables.cells import (
    CHANCE,
    NOT_RUN,
    ONLY_PUBLISHED,
    SYNTHETIC_DATA,
    Cell,
    format_csv,
)
from waltz.reporting.tables.declaration import (
    AVERAGE,
    COMPARED_PROFILE,
    DERIVED,
    PAPER_SETTING,
    Declaration,
    NumberSource,
)
from waltz.reporting.tables.derived_numbers import derive_numbers, derive_paper_averages
from waltz.reporting.tables.formats import (
    format_html_page,
    format_latex,
    format_markdown,
)
from waltz.reporting.tables.numbers import (
    Number,
    Numbers,
    Position,
    StudyFacts,
    compute_sd,
    list_number_keys,
    read_numbers,
    take_paper_ties,
)
from waltz.reporting.tables.paper_differences import PAPER_DIFFERENCES
from waltz.reporting.tables.paper_values import (
    EVERY_METRIC,
    RANDOM,
    Comparison,
    PaperKey,
    PaperValue,
    compare_with_paper,
    read_paper_values,
)
from waltz.reporting.tables.titles import name_data_sets

OWN_POOL = "pooled over the data sets of this study, the paper value over all of its own: not compared"
"""Reason why a pooled difference has no verdict."""


class TableFiles(Protocol):
    """Paths of the four files of a table."""

    csv: str
    md: str
    tex: str
    html: str


def build_table_cells(
    declaration: Declaration,
    files: Mapping[str, Sequence[str]],
    paper_tables: Sequence[str | Path],
    profiles: Sequence[str],
    study: StudyFacts,
) -> list[Cell]:
    """Return all cells of a table, profile by profile.

    Args:
        declaration: The table.
        files: The study's result files, by kind of numbers.
        paper_tables: CSVs of the paper tables that the table is compared with.
        profiles: Profiles of the study.
        study: Facts about the study.
    """
    paper_values = read_paper_cells(declaration, paper_tables)
    cells = []
    for profile in _select_profiles(declaration, profiles):
        # Read, count ties as the paper does, derive: each step may replace or add numbers.
        numbers = read_numbers(files, profile)
        if study.compared and profile == COMPARED_PROFILE:
            numbers = take_paper_ties(numbers)
        numbers = derive_numbers(declaration, numbers, paper_values, profile, study)
        cells += build_cells(declaration, profile, numbers, paper_values, study)
    return cells


def _select_profiles(
    declaration: Declaration, profiles: Sequence[str]
) -> Sequence[str]:
    """Return the profiles that a table shows; numbers that do not depend on the profile are shown
    once.
    """
    only_profile = declaration.only_profile
    if only_profile is None:
        return profiles
    if only_profile in profiles:
        return [only_profile]
    return profiles[:1]


def read_paper_cells(
    declaration: Declaration, paper_tables: Sequence[str | Path]
) -> dict[PaperKey, PaperValue]:
    """Return the paper values that a table is compared with."""
    paper_values: dict[PaperKey, PaperValue] = {}
    for file in paper_tables:
        paper_values |= read_paper_values(file)
    if declaration.paper_differences is not None:
        return PAPER_DIFFERENCES[declaration.paper_differences](paper_values)
    if "rescaled" in declaration.derived:
        return derive_paper_averages(paper_values)
    return paper_values


def write_table(
    declaration: Declaration,
    cells: Sequence[Cell],
    significance: SignificanceTests,
    files: TableFiles,
) -> None:
    """Write a table as CSV, Markdown, LaTeX and HTML.

    Args:
        declaration: The table.
        cells: Its cells of all profiles.
        significance: Significance tests, which decide what is bold.
        files: Paths of the four files.
    """
    declaration = name_data_sets(declaration, cells)
    write_text(files.csv, format_csv(cells))
    write_text(files.md, format_markdown(declaration, cells, significance))
    write_text(files.tex, format_latex(declaration, cells, significance))
    write_text(files.html, format_html_page(declaration, cells, significance))


def build_cells(
    declaration: Declaration,
    profile: str,
    numbers: Numbers,
    paper_values: Mapping[PaperKey, PaperValue],
    study: StudyFacts,
) -> list[Cell]:
    """Return a table's cells in one profile: cells of the paper's models in its order, then cells
    of other models.

    If the profile or the study is not compared with the paper, only models that the study has run
    get cells.
    """
    return _ProfileTable(
        declaration, profile, numbers, paper_values, study
    ).build_cells()


@dataclass(frozen=True, slots=True)
class _TableModel:
    """Model that has cells in a table.

    Attributes:
        name: Name of the model in the table.
        our_models: Our models whose numbers fill its cells, in order of preference; empty where
            none was run.
    """

    name: str
    our_models: tuple[str, ...]


@dataclass(frozen=True)
class _ProfileTable:
    """Table in one profile, with our numbers and the paper values that its cells are made from."""

    declaration: Declaration
    profile: str
    numbers: Numbers
    paper_values: Mapping[PaperKey, PaperValue]
    study: StudyFacts

    def build_cells(self) -> list[Cell]:
        """Return the cells of all models of the table, model by model."""
        cells = []
        for model in self._list_models():
            for position in self._list_positions(model):
                number = self._find_first_number(position, model.our_models)
                cells.append(self._make_cell(model.name, position, number))
        return cells

    @cached_property
    def is_compared(self) -> bool:
        """True if our numbers are compared with the paper values."""
        return self.study.compared and self.profile == COMPARED_PROFILE

    # Positions of cells

    @cached_property
    def keys(self) -> pd.DataFrame:
        """Metric, model, data set and setting of each cell of the paper, in its order.

        A table without paper values has a key for each of our numbers that its sources name.
        """
        keys = self.paper_values or self._list_keys_of_numbers()
        return pd.DataFrame(list(keys), columns=PaperKey._fields)

    def _list_keys_of_numbers(self) -> list[PaperKey]:
        """Return the keys of the cells that show our numbers, each once."""
        # Several metrics of a table may show one metric of a file, in different settings.
        sources_by_name: dict[tuple[str, str], list[tuple[str, NumberSource]]] = {}
        for metric, sources in self.declaration.sources.items():
            for source in sources:
                name = (source.kind, source.metric)
                sources_by_name.setdefault(name, []).append((metric, source))

        keys: dict[PaperKey, None] = {}
        datasets = self.declaration.datasets
        for key in self.numbers:
            if datasets and key.dataset not in datasets:
                continue
            for metric, source in sources_by_name.get((key.kind, key.metric), ()):
                if PAPER_SETTING in source.settings:
                    keys[PaperKey(metric, key.model, key.dataset, key.setting)] = None
                elif key.setting in source.settings:
                    # Settings that a source names are alternatives, which share one cell.
                    keys[PaperKey(metric, key.model, key.dataset, "")] = None
        return list(keys)

    @cached_property
    def shown_keys(self) -> pd.DataFrame:
        """The keys without chance levels, and without metrics that the table omits."""
        # Rows of the model `random` are chance levels, which are shown with the cells of other
        # models.
        is_metric_shown = self.keys.metric.isin(list(self.declaration.sources))
        return self.keys[is_metric_shown & (self.keys.model != RANDOM)]

    @cached_property
    def averaged_datasets(self) -> list[str]:
        """Data sets that an average is over: all data sets of the paper's cells."""
        datasets = self.shown_keys.dataset
        return list(datasets[datasets != AVERAGE].unique())

    @cached_property
    def positions(self) -> list[Position]:
        """Positions of the paper's cells, then positions of metrics that it lacks, and on data sets
        that only the study has and has numbers on.
        """
        positions = _list_distinct_positions(self.shown_keys)
        positions += [
            position._replace(metric=own_metric)
            for own_metric, metric in self.declaration.own_metrics.items()
            for position in positions
            if position.metric == metric and own_metric not in self.unmeasured_metrics
        ]
        if self.declaration.adds_own_datasets:
            # The paper's setting of a data set that it lacks is unknown, so it is empty.
            positions += [
                Position(metric, dataset, "")
                for dataset in self._list_further_datasets()
                for metric in self.declaration.sources
                if metric not in self.unmeasured_metrics
            ]
        return positions

    @cached_property
    def unmeasured_metrics(self) -> set[str]:
        """Metrics that the paper lacks and no model has a number of; they get no cells."""
        measured = {(key.kind, key.metric) for key in self.numbers}
        unmeasured = set(self.declaration.own_metrics)
        for metric in self.declaration.own_metrics:
            for source in self.declaration.sources[metric]:
                if (source.kind, source.metric) in measured:
                    unmeasured.discard(metric)
        return unmeasured

    def _list_further_datasets(self) -> list[str]:
        """Return the data sets of the study that have numbers and that the paper lacks."""
        # Derived numbers count as well; files that derived numbers are made from do not.
        kinds = self.declaration.number_kinds
        measured = {key.dataset for key in self.numbers if key.kind in kinds}
        further = measured.difference(self.averaged_datasets)
        return [dataset for dataset in self.study.datasets if dataset in further]

    def _list_positions(self, model: "_TableModel") -> list[Position]:
        """Return the positions of a model's cells, each once.

        The positions that the paper gives this model come first, then all positions of the table. A
        model of a ragged table, or one that was not run, has only the positions that the paper
        gives it.
        """
        keys = self.keys[self.keys.model == model.name]
        positions = _list_distinct_positions(keys)
        if model.our_models and not self.declaration.ragged:
            positions += self.positions
        return list(dict.fromkeys(positions))

    # Models

    def _list_models(self) -> list[_TableModel]:
        """Return the models of the table: the paper's models in its order, then models that only
        the study has.
        """
        names = self._list_names()
        models = []
        for name in names:
            model = _TableModel(name, self._find_our_models(name))
            # Compared tables also show models that were not run, with their paper values and the
            # reason.
            if self.is_compared or model.our_models:
                models.append(model)
        if self.declaration.adds_other_models:
            models += self._list_other_models(models, names)
        return models

    def _list_other_models(
        self, models: Sequence[_TableModel], names: Sequence[str]
    ) -> list[_TableModel]:
        """Return the models of the study that stand for no model of the paper, each with its row.

        Args:
            models: The paper's models.
            names: Names of all models in the paper; ours of the same name gets a suffix.
        """
        claimed: set[str] = set()
        for model in models:
            claimed.update(model.our_models)
        further = []
        for our_model in self.models_of_kind:
            if our_model in claimed or not self._was_run(our_model):
                continue
            name = our_model
            if name in names:
                name += OUR_OWN
            further.append(_TableModel(name, (our_model,)))
        return further

    def _list_names(self) -> list[str]:
        """Return the names of the models in the paper, in its order.

        Without paper values, a table that shows kinds of models has no such names, and any other
        table has the names in its keys.
        """
        if self.declaration.model_kinds and not self.paper_values:
            return []
        return list(self.keys.model.unique())

    @cached_property
    def models_of_kind(self) -> list[str]:
        """Models of the study whose kind the table shows."""
        return [
            model
            for model, kind in self.study.models.items()
            if kind in self.declaration.model_kinds
        ]

    def _find_our_models(self, name: str) -> tuple[str, ...]:
        """Return our models that were run and fill the cells of a model of the paper.

        The first alias that was run comes first, then all extra models that were run. A table
        without models has one model with an empty name, which is also the name of our model.
        """
        if not name:
            return ("",)
        aliases = self.declaration.model_aliases.get(name, (name,))
        if self.declaration.model_kinds:
            aliases = tuple(alias for alias in aliases if alias in self.models_of_kind)
        run_aliases = list(filter(self._was_run, aliases))
        extra_models = [
            model
            for model in self.declaration.extra_models.get(name, ())
            if model in self.study.models
        ]
        # Aliases are alternatives, so the first one that was run is enough. Extra models fill cells
        # that it leaves open, so all of them are needed.
        return (*run_aliases[:1], *filter(self._was_run, extra_models))

    def _was_run(self, model: str) -> bool:
        """Return whether a model was run: one of its numbers has a value, a text, or items that it
        was measured on.
        """
        numbers = (self._find_number(position, model) for position in self.positions)
        return any(number.is_measured for number in filter(None, numbers))

    # Cells

    def _find_first_number(
        self, position: Position, our_models: Sequence[str]
    ) -> Number | None:
        """Return our number of a cell, from the first of our models that has it; None if none of
        them has it.
        """
        numbers = (self._find_number(position, model) for model in our_models)
        return next(filter(None, numbers), None)

    def _find_number(self, position: Position, model: str) -> Number | None:
        """Return one model's number of a cell, or None.

        The number of an average is computed here from the model's numbers on the averaged data
        sets, unless another function derives it.
        """
        is_derived = self.declaration.sources[position.metric][0].kind == DERIVED
        # Averages are computed here from the cells of the row, so that they fit what the table
        # shows.
        if position.dataset == AVERAGE and not is_derived:
            parts = [
                self._find_number(position._replace(dataset=dataset), model)
                for dataset in self.averaged_datasets
            ]
            return _average_numbers(parts)
        keys = list_number_keys(self.declaration, position, model)
        return next(filter(None, map(self.numbers.get, keys)), None)

    @cached_property
    def chances(self) -> dict[Position, float]:
        """Chance level by position, where the paper gives it; the metric `EVERY_METRIC` is for all
        metrics.
        """
        chances = {}
        for key, paper in self.paper_values.items():
            if key.model == RANDOM:
                position = Position(key.metric, key.dataset, key.setting)
                chances[position] = float(paper.value)
        return chances

    def _find_chance(self, position: Position) -> float | None:
        """Return the chance level of a cell; None where the paper gives none.

        An answer after a chain of thought has the same chance level as the answer without it.
        """
        metric, dataset, setting = position
        # Tried in order: the cell itself, the answer without a chain of thought, the row for all
        # metrics.
        plain_metric = metric.removesuffix("_cot")
        rules = (
            (metric, setting),
            (plain_metric, "post-hoc"),
            (EVERY_METRIC, setting),
        )
        for rule, chance_dataset in itertools.product(rules, (dataset, AVERAGE)):
            chance_metric, chance_setting = rule
            key = Position(chance_metric, chance_dataset, chance_setting)
            if key in self.chances:
                return self.chances[key]
        return None

    @cached_property
    def units(self) -> dict[str, str]:
        """Unit of each metric in the paper."""
        return {key.metric: paper.unit for key, paper in self.paper_values.items()}

    def _make_cell(self, model: str, position: Position, number: Number | None) -> Cell:
        """Return one cell with our number and a verdict, or with the reasons why they are missing."""
        metric, dataset, setting = position
        if number is None:
            reason = self._explain_absence(model, position)
            number = Number(Measure(None, 0, reason=reason))
        comparison = self._compare(number, PaperKey(metric, model, dataset, setting))
        measure = number.measure
        return Cell(
            table=self.declaration.id,
            profile=self.profile,
            metric=metric,
            model=model,
            dataset=dataset,
            setting=setting,
            value=measure.value,
            n=measure.n,
            ci_low=measure.ci_low,
            ci_high=measure.ci_high,
            paper_value=comparison.paper_value,
            difference=comparison.difference,
            verdict=comparison.verdict,
            reason=comparison.reason,
            unit=self.units.get(metric, ""),
            sd=number.sd,
            paper_sd=comparison.paper_sd,
            chance=self._find_chance(position),
            text=number.text,
            paper_text=comparison.paper_text,
            images=measure.images,
            tolerance=comparison.tolerance,
        )

    def _compare(self, number: Number, key: PaperKey) -> Comparison:
        """Compare our number of a cell with the paper value; without a comparison, give the reason."""
        # Reasons in order: the whole table is not compared, the metric never is, or the comparison
        # has its own.
        reason = number.measure.reason
        if not self.study.compared:
            return Comparison(reason or SYNTHETIC_DATA)
        if not self.is_compared:
            return Comparison(reason or ONLY_PUBLISHED)
        paper = self.paper_values.get(key)
        margin = self.study.margins.get(paper.unit) if paper else None
        comparison = compare_with_paper(
            number.measure, paper, self.study.confidence, number.text, margin
        )
        if key.metric in self.declaration.known_reasons:
            return Comparison(
                self.declaration.known_reasons[key.metric],
                paper_text=comparison.paper_text,
                paper_sd=comparison.paper_sd,
            )
        notes = [comparison.reason, number.note]
        if key.dataset == ALL_DATA_SETS and comparison.verdict:
            comparison = replace(comparison, verdict="", tolerance=None)
            notes.insert(1, OWN_POOL)
        if comparison.verdict:
            notes.insert(1, self.declaration.model_notes.get(key.model, ""))
        return replace(comparison, reason="; ".join(filter(None, notes)))

    def _explain_absence(self, model: str, position: Position) -> str:
        """Return the reason why we have no number of a cell."""
        if model == RANDOM:
            return CHANCE
        dataset = position.dataset.partition(":")[0]
        skipped = self.study.skipped
        known_reasons = self.declaration.known_reasons
        # The study knows best: it may have skipped the models or the data set. Then the
        # declaration, then the default.
        reasons = (
            *map(skipped.get, self.declaration.list_our_models(model)),
            skipped.get(dataset),
            known_reasons.get(model),
            known_reasons.get(position.metric),
            NOT_RUN,
        )
        return next(filter(None, reasons))


def _list_distinct_positions(keys: pd.DataFrame) -> list[Position]:
    """Return the positions of some keys, each once, in their order."""
    positions = keys[list(Position._fields)].drop_duplicates()
    return [Position(*row) for row in positions.itertuples(index=False)]


def _average_numbers(parts: Sequence[Number | None]) -> Number | None:
    """Return the mean over data sets, which are independent and have the same weight.

    Args:
        parts: Number on each data set; None where there is no number.
    Returns:
        The mean; a number without a value if a data set has no value; None if no data set has a
        number.
    """
    present = list(filter(None, parts))
    if not present:
        return None
    measures = [part.measure for part in present]
    average = average_measures(measures)
    n_missing = len(parts) - len(present)
    if n_missing:
        reason = f"not averaged: {n_missing} of {len(parts)} data sets were not run"
        return Number(Measure(None, average.n, reason=reason))
    if average.value is None:
        reason = f"not averaged: {average.reason}"
        # A reason that all data sets share says more than their number.
        reasons = {measure.reason for measure in measures}
        if len(reasons) == 1:
            reason = reasons.pop() or reason
        return Number(Measure(None, average.n, reason=reason))

    # The deviation is over data sets; the interval treats them as independent.
    sd = compute_sd(
        [measure.value for measure in measures if measure.value is not None]
    )
    notes = filter(None, (part.note for part in present))
    return Number(average, sd, note=next(notes, ""))
