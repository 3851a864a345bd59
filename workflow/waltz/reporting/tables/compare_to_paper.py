"""Our numbers beside the printed ones, cell by cell."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from waltz.core.intervals import Measure, compute_interval_of_mean
from waltz.reporting.tables.cells import COMPARED_PROFILE, Cell
from waltz.reporting.tables.declaration import AVERAGE, DERIVED, PAPER_SETTING, Declaration
from waltz.reporting.tables.numbers import Number, Numbers, Place
from waltz.reporting.tables.paper_values import Key, PaperValue
from waltz.reporting.tables.verdicts import Comparison, compare_with_paper

RANDOM, EVERY_METRIC = "random", "all"
"""Model and metric of printed rows that say what guessing gives."""
CHANCE = "chance by definition, not a measurement"
NOT_RUN = "not run in this study"
SYNTHETIC_DATA = "the study's data are drawn: not compared with print"
ONLY_PUBLISHED = f"only the profile {COMPARED_PROFILE} is compared with print"


@dataclass(frozen=True)
class StudyFacts:
    """What a study says about all of its tables.

    Attributes:
        models: ENCODER, LANGUAGE or VISION by name of a model, in order.
        compared: Whether its data are those of print; drawn scenes are another world.
        confidence: Coverage of the intervals, a share.
        built: Instruments that it builds: format of the source and names of the filters.
        datasets: Its data sets of captions and foils.
        left_out: Models and data sets that it names and could not run, with the reason.
    """

    models: Mapping[str, str]
    compared: bool
    confidence: float
    built: Mapping[str, Mapping[str, object]]
    datasets: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)


Shape = tuple[str, str, str]
"""Metric, data set, setting of a cell."""
FindNumber = Callable[[Shape, str], Number | None]
"""Our number of a cell for a model of ours, None where there is none."""


def build_cells(
    declaration: Declaration, profile: str, numbers: Numbers, printed: Mapping[Key, PaperValue], study: StudyFacts
) -> list[Cell]:
    """A table's cells in one profile: all printed ones in print order, then those of models that print has not.

    In a profile or a study that is not compared with print, only cells of our models.

    Args:
        declaration: The table.
        profile: Of the numbers.
        numbers: Ours.
        printed: The published table.
        study: Models, and whether the study is compared.
    """
    joined = study.compared and profile == COMPARED_PROFILE
    shapes = _shapes(declaration, numbers, printed)
    datasets = _datasets(shapes)
    shapes += _own(declaration, numbers, datasets, study)

    def find(shape: Shape, model: str) -> Number | None:
        if shape[1] != AVERAGE:
            return _number(declaration, numbers, shape, model)
        if declaration.sources[shape[0]][0].source == DERIVED:
            return _number(declaration, numbers, shape, model)
        return _average([_number(declaration, numbers, (shape[0], name, shape[2]), model) for name in datasets])

    chances = _chances(printed)
    units = {key[0]: cell.unit for key, cell in printed.items()}
    cells = []
    for model, ours in _models(declaration, shapes, find, printed, study, joined):
        own = [(key[0], *key[2:]) for key in printed if key[1] == model]
        keys = own if not ours or declaration.ragged else list(dict.fromkeys([*own, *shapes]))
        for shape in keys:
            key = (shape[0], model, *shape[1:])
            number = next((found for name in ours if (found := find(shape, name)) is not None), None)
            cell = printed.get(key) if joined else None
            cells.append(_cell(declaration, profile, key, number, cell, chances, units, joined, study))
    return cells


def _shapes(declaration: Declaration, numbers: Numbers, printed: Mapping[Key, PaperValue]) -> list[Shape]:
    """Metric, data set and setting of every cell, in print order; without print those of derived numbers."""
    if not printed:
        found = [
            (metric, dataset, setting)
            for (source, metric, _, dataset, setting) in numbers
            if source == DERIVED and metric in declaration.sources
        ]
        return list(dict.fromkeys(found))
    return list(
        dict.fromkeys((key[0], *key[2:]) for key in printed if key[1] != RANDOM and key[0] in declaration.sources)
    )


def _own(declaration: Declaration, numbers: Numbers, printed: Sequence[str], study: StudyFacts) -> list[Shape]:
    """Cells of the study's own data sets, where there are numbers on them."""
    sources = {where.source for places in declaration.sources.values() for where in places}
    known = {place[3] for place in numbers if place[0] in sources}
    names = (
        [name for name in study.datasets if name in known and name not in printed]
        if declaration.adds_own_datasets
        else []
    )
    return [(metric, name, "") for name in names for metric in declaration.sources]


def _datasets(shapes: Iterable[Shape]) -> list[str]:
    """The data sets that an average is over."""
    return list(dict.fromkeys(dataset for _, dataset, _ in shapes if dataset != AVERAGE))


def _models(
    declaration: Declaration,
    shapes: Sequence[Shape],
    find: FindNumber,
    printed: Mapping[Key, PaperValue],
    study: StudyFacts,
    joined: bool,
) -> list[tuple[str, tuple[str, ...]]]:
    """Names in the table, in order, each with the models of ours whose numbers it has; none where it was not run."""

    def ran(model: str) -> bool:
        return any((number := find(shape, model)) and _tried(number) for shape in shapes)

    taken = [model for model, kind in study.models.items() if kind in declaration.model_kinds]
    names = list(dict.fromkeys(key[1] for key in printed)) or ([] if declaration.model_kinds else [""])
    found: list[tuple[str, tuple[str, ...]]] = []
    for name in names:
        candidates = ("",) if not name else declaration.model_aliases.get(name, (name,))
        known = [model for model in candidates if not model or model in taken or not declaration.model_kinds]
        ours = [model for model in known if not model or ran(model)][:1]
        ours += [model for model in declaration.extra_models.get(name, ()) if model in study.models and ran(model)]
        if joined or ours:
            found.append((name, tuple(ours)))
    claimed = {model for _, ours in found for model in ours}
    if declaration.adds_other_models:
        for model in taken:
            if model not in claimed and ran(model):
                found.append((f"{model} (ours)" if model in names else model, (model,)))
    return found


def _tried(number: Number) -> bool:
    return number.measure.value is not None or bool(number.text) or number.measure.n > 0


def list_places(declaration: Declaration, shape: Shape, model: str) -> Iterator[Place]:
    """Where our number of a cell is looked for, in turn.

    Args:
        declaration: The table.
        shape: Metric, data set and setting of print.
        model: Our name of the model.
    """
    metric, dataset, setting = shape
    named = declaration.dataset_aliases.get((dataset, setting), declaration.dataset_aliases.get(dataset, ()))
    for where in declaration.sources[metric]:
        for name in dict.fromkeys((*named, dataset)):
            for told in where.settings:
                yield where.source, where.metric, model, name, setting if told == PAPER_SETTING else told


def _number(declaration: Declaration, numbers: Numbers, shape: Shape, model: str) -> Number | None:
    """Our number, the first that one of its places holds."""
    return next((numbers[place] for place in list_places(declaration, shape, model) if place in numbers), None)


def _average(parts: Sequence[Number | None]) -> Number | None:
    """Mean over data sets, each weighing the same; they are independent."""
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
            same = next(iter(reasons)) if len(reasons) == 1 and not values else None
            reason = same or f"not averaged: {len(parts) - len(values)} of {len(parts)} data sets have no value"
        return Number(Measure(None, n, reason=reason))
    mean, sd = float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Number(Measure(mean, n, *compute_interval_of_mean([part.measure for part in present])), sd)


def _chances(printed: Mapping[Key, PaperValue]) -> dict[Shape, float]:
    """What guessing gives, by cell, where print says so; a row for all metrics serves each."""
    return {(key[0], *key[2:]): float(cell.value) for key, cell in printed.items() if key[1] == RANDOM and cell.value}


def _chance(chances: Mapping[Shape, float], shape: Shape) -> float | None:
    """Guessing's number for a cell; one that is printed for the answer holds for that behind a chain of thought."""
    metric, dataset, setting = shape
    plain = metric.removesuffix("_cot")
    for name, where in ((metric, setting), (plain, "post-hoc"), (EVERY_METRIC, setting)):
        for data in (dataset, AVERAGE):
            if (name, data, where) in chances:
                return chances[name, data, where]
    return None


def _cell(
    declaration: Declaration,
    profile: str,
    key: Key,
    number: Number | None,
    cell: PaperValue | None,
    chances: Mapping[Shape, float],
    units: Mapping[str, str],
    joined: bool,
    study: StudyFacts,
) -> Cell:
    metric, model, dataset, setting = key
    ours = number or Number(Measure(None, 0, reason=_absent(declaration, key, study)))
    if metric in declaration.known_reasons and joined:
        shown = cell.value if cell else ""
        comparison = Comparison(None, None, "", declaration.known_reasons[metric], shown)
    elif joined:
        comparison = compare_with_paper(ours.measure, cell, study.confidence, ours.text)
    else:
        why = ONLY_PUBLISHED if study.compared else SYNTHETIC_DATA
        comparison = Comparison(None, None, "", ours.measure.reason or why)
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
        unit=cell.unit if cell else units.get(metric, ""),
        sd=ours.sd,
        published_sd=float(cell.sd) if cell and cell.sd else None,
        chance=_chance(chances, (metric, dataset, setting)),
        text=ours.text,
        published_text=comparison.shown,
    )


def _absent(declaration: Declaration, key: Key, study: StudyFacts) -> str:
    """Why there is no number of ours."""
    metric, model, dataset, _ = key
    if model == RANDOM:
        return CHANCE
    for name in (
        *declaration.model_aliases.get(model, (model,)),
        *declaration.extra_models.get(model, ()),
        dataset.partition(":")[0],
    ):
        if name in study.left_out:
            return study.left_out[name]
    return declaration.known_reasons.get(model) or declaration.known_reasons.get(metric) or NOT_RUN
