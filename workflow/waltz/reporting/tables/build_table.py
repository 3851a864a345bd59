"""One table, built from the result files of a study, compared with the paper values, and written in four formats."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from waltz.core.files.atomic import write_text
from waltz.core.intervals import Measure, compute_interval_of_mean
from waltz.reporting.tables.cells import (
    CHANCE,
    COMPARED_PROFILE,
    NOT_RUN,
    ONLY_PUBLISHED,
    SYNTHETIC_DATA,
    Cell,
    format_csv,
)
from waltz.reporting.tables.declaration import AVERAGE, DERIVED, PAPER_SETTING, Declaration
from waltz.reporting.tables.formats import format_html_page, format_latex, format_markdown
from waltz.reporting.tables.numbers import (
    Number,
    Numbers,
    Place,
    StudyFacts,
    derive_numbers,
    derive_paper_averages,
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
        declaration: The table.
        files: The study's result files by kind.
        paper_tables: CSV files of the paper tables that it is compared with.
        profiles: Profiles of the study.
        study: Models, and whether the study is compared with the papers.
    Raises:
        UserError: A file is missing or broken.
    """
    paper_values = read_paper_cells(declaration, paper_tables)
    if declaration.profile_independent:
        profiles = [COMPARED_PROFILE if COMPARED_PROFILE in profiles else profiles[0]]
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


def write_table(declaration: Declaration, cells: Sequence[Cell], files: TableFiles) -> None:
    """Write a table as CSV, Markdown, LaTeX and HTML."""
    write_text(files.csv, format_csv(cells))
    write_text(files.md, format_markdown(declaration, cells))
    write_text(files.tex, format_latex(declaration, cells))
    write_text(files.html, format_html_page(declaration, cells))


Position = tuple[str, str, str]
"""Metric, data set, setting of a cell."""
FindNumber = Callable[[Position, str], Number | None]
"""Finds our number of a cell for one of our models; None where there is none."""


def build_cells(
    declaration: Declaration, profile: str, numbers: Numbers, paper_values: Mapping[Key, PaperValue], study: StudyFacts
) -> list[Cell]:
    """Return a table's cells in one profile: those of the paper in its order, then those of other models.

    Where profile or study are not compared with the paper, only cells of our models are returned.

    Args:
        declaration: The table.
        profile: Profile of the numbers.
        numbers: Our numbers.
        paper_values: The paper's table.
        study: Models, and whether the study is compared.
    """
    is_compared = study.compared and profile == COMPARED_PROFILE
    positions = _list_positions(declaration, numbers, paper_values)
    datasets = _list_averaged_datasets(positions)
    positions += _list_own_positions(declaration, numbers, datasets, study)

    def find(position: Position, model: str) -> Number | None:
        if position[1] != AVERAGE:
            return _find_number(declaration, numbers, position, model)
        if declaration.sources[position[0]][0].source == DERIVED:
            return _find_number(declaration, numbers, position, model)
        return _average_numbers(
            [_find_number(declaration, numbers, (position[0], name, position[2]), model) for name in datasets]
        )

    chances = _read_chances(paper_values)
    units = {key[0]: value.unit for key, value in paper_values.items()}
    cells = []
    for model, ours in _match_models(declaration, positions, find, paper_values, study, is_compared):
        own = [(key[0], *key[2:]) for key in paper_values if key[1] == model]
        keys = own if not ours or declaration.ragged else list(dict.fromkeys([*own, *positions]))
        for position in keys:
            key = (position[0], model, *position[1:])
            number = next((match for name in ours if (match := find(position, name)) is not None), None)
            paper = paper_values.get(key) if is_compared else None
            cells.append(_make_cell(declaration, profile, key, number, paper, chances, units, is_compared, study))
    return cells


def _list_positions(
    declaration: Declaration, numbers: Numbers, paper_values: Mapping[Key, PaperValue]
) -> list[Position]:
    """List metric, data set and setting of every cell, in the paper's order, or those of derived numbers."""
    if not paper_values:
        derived = [
            (metric, dataset, setting)
            for (source, metric, _, dataset, setting) in numbers
            if source == DERIVED and metric in declaration.sources
        ]
        return list(dict.fromkeys(derived))
    return list(
        dict.fromkeys((key[0], *key[2:]) for key in paper_values if key[1] != RANDOM and key[0] in declaration.sources)
    )


def _list_own_positions(
    declaration: Declaration, numbers: Numbers, paper_datasets: Sequence[str], study: StudyFacts
) -> list[Position]:
    """List the cells of data sets that the paper lacks, where there are numbers on them."""
    if not declaration.adds_own_datasets:
        return []
    sources = {place.source for places in declaration.sources.values() for place in places}
    measured = {place[3] for place in numbers if place[0] in sources}
    names = [name for name in study.datasets if name in measured and name not in paper_datasets]
    return [(metric, name, "") for name in names for metric in declaration.sources]


def _list_averaged_datasets(positions: Iterable[Position]) -> list[str]:
    """Return the data sets that an average is over."""
    return list(dict.fromkeys(dataset for _, dataset, _ in positions if dataset != AVERAGE))


def _match_models(
    declaration: Declaration,
    positions: Sequence[Position],
    find: FindNumber,
    paper_values: Mapping[Key, PaperValue],
    study: StudyFacts,
    is_compared: bool,
) -> list[tuple[str, tuple[str, ...]]]:
    """Return the models of the table, each with our models that stand for it; none where it was not run."""

    def was_run(model: str) -> bool:
        return any((number := find(position, model)) and _was_measured(number) for position in positions)

    ours_of_kind = [model for model, kind in study.models.items() if kind in declaration.model_kinds]
    names = list(dict.fromkeys(key[1] for key in paper_values)) or ([] if declaration.model_kinds else [""])
    matches: list[tuple[str, tuple[str, ...]]] = []
    for name in names:
        candidates = ("",) if not name else declaration.model_aliases.get(name, (name,))
        known = [model for model in candidates if not model or model in ours_of_kind or not declaration.model_kinds]
        ours = [model for model in known if not model or was_run(model)][:1]
        ours += [model for model in declaration.extra_models.get(name, ()) if model in study.models and was_run(model)]
        if is_compared or ours:
            matches.append((name, tuple(ours)))
    claimed = {model for _, ours in matches for model in ours}
    if declaration.adds_other_models:
        for model in ours_of_kind:
            if model not in claimed and was_run(model):
                matches.append((f"{model} (ours)" if model in names else model, (model,)))
    return matches


def _was_measured(number: Number) -> bool:
    """Return whether a number has a value, a text, or items that it was measured on."""
    return number.measure.value is not None or bool(number.text) or number.measure.n > 0


def list_places(declaration: Declaration, position: Position, model: str) -> Iterator[Place]:
    """Yield the places where our number of a cell is looked for, in order.

    Args:
        declaration: The table.
        position: Metric, data set and setting of the paper value.
        model: Our name of the model.
    """
    metric, dataset, setting = position
    aliases = declaration.dataset_aliases.get((dataset, setting), declaration.dataset_aliases.get(dataset, ()))
    for source in declaration.sources[metric]:
        for name in dict.fromkeys((*aliases, dataset)):
            for source_setting in source.settings:
                actual = setting if source_setting == PAPER_SETTING else source_setting
                yield source.source, source.metric, model, name, actual


def _find_number(declaration: Declaration, numbers: Numbers, position: Position, model: str) -> Number | None:
    """Return our number from the first place that holds one."""
    return next((numbers[place] for place in list_places(declaration, position, model) if place in numbers), None)


def _average_numbers(parts: Sequence[Number | None]) -> Number | None:
    """Return the mean over independent data sets, each with the same weight."""
    present = [part for part in parts if part is not None]
    if not present:
        return None
    n = sum(part.measure.n for part in present)
    values = [part.measure.value for part in present if part.measure.value is not None]
    if len(values) < len(parts):
        reasons = {part.measure.reason for part in present if part.measure.value is None}
        missing = len(parts) - len(present)
        reason = f"not averaged: {missing} of {len(parts)} data sets were not run"
        if not missing:
            shared_reason = next(iter(reasons)) if len(reasons) == 1 and not values else None
            reason = (
                shared_reason or f"not averaged: {len(parts) - len(values)} of {len(parts)} data sets have no value"
            )
        return Number(Measure(None, n, reason=reason))
    mean, sd = float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Number(Measure(mean, n, *compute_interval_of_mean([part.measure for part in present])), sd)


def _read_chances(paper_values: Mapping[Key, PaperValue]) -> dict[Position, float]:
    """Return the chance level by cell, where the paper gives it; a row for all metrics serves each."""
    return {
        (key[0], *key[2:]): float(paper.value)
        for key, paper in paper_values.items()
        if key[1] == RANDOM and paper.value
    }


def _find_chance(chances: Mapping[Position, float], position: Position) -> float | None:
    """Return the chance level of a cell; that of the answer holds for the answer after a chain of thought too."""
    metric, dataset, setting = position
    plain = metric.removesuffix("_cot")
    for name, chance_setting in ((metric, setting), (plain, "post-hoc"), (EVERY_METRIC, setting)):
        for data in (dataset, AVERAGE):
            if (name, data, chance_setting) in chances:
                return chances[name, data, chance_setting]
    return None


def _make_cell(
    declaration: Declaration,
    profile: str,
    key: Key,
    number: Number | None,
    paper: PaperValue | None,
    chances: Mapping[Position, float],
    units: Mapping[str, str],
    is_compared: bool,
    study: StudyFacts,
) -> Cell:
    """Return one cell with its verdict, or the reason why it has none."""
    metric, model, dataset, setting = key
    ours = number or Number(Measure(None, 0, reason=_explain_absence(declaration, key, study)))
    if metric in declaration.known_reasons and is_compared:
        paper_text = paper.value if paper else ""
        comparison = Comparison(None, None, "", declaration.known_reasons[metric], paper_text)
    elif is_compared:
        comparison = compare_with_paper(ours.measure, paper, study.confidence, ours.text)
    else:
        not_compared = ONLY_PUBLISHED if study.compared else SYNTHETIC_DATA
        comparison = Comparison(None, None, "", ours.measure.reason or not_compared)
    return Cell(
        table=declaration.id,
        profile=profile,
        metric=metric,
        model=model,
        dataset=dataset,
        setting=setting,
        value=ours.measure.value,
        n=ours.measure.n,
        ci_low=ours.measure.ci_low,
        ci_high=ours.measure.ci_high,
        published=comparison.published,
        difference=comparison.difference,
        verdict=comparison.verdict,
        reason=comparison.reason,
        unit=paper.unit if paper else units.get(metric, ""),
        sd=ours.sd,
        published_sd=float(paper.sd) if paper and paper.sd else None,
        chance=_find_chance(chances, (metric, dataset, setting)),
        text=ours.text,
        published_text=comparison.paper_text,
    )


def _explain_absence(declaration: Declaration, key: Key, study: StudyFacts) -> str:
    """Return why we have no number of a cell."""
    metric, model, dataset, _ = key
    if model == RANDOM:
        return CHANCE
    for name in (
        *declaration.model_aliases.get(model, (model,)),
        *declaration.extra_models.get(model, ()),
        dataset.partition(":")[0],
    ):
        if name in study.skipped:
            return study.skipped[name]
    return declaration.known_reasons.get(model) or declaration.known_reasons.get(metric) or NOT_RUN
