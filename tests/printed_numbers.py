"""Numbers for the tables' tests, at the places where declarations look for them."""

from pathlib import Path

from waltz.core.intervals import Measure
from waltz.reporting.tables.build_table import read_paper_cells
from waltz.reporting.tables.compare_to_paper import EVERY_METRIC, RANDOM, StudyFacts, build_cells, list_places
from waltz.reporting.tables.declaration import AVERAGE, DERIVED, ENCODER
from waltz.reporting.tables.declarations import TABLES
from waltz.reporting.tables.derived import derive_numbers
from waltz.reporting.tables.numbers import Number, number_of_text

PUBLISHED = Path(__file__).parents[1] / "resources" / "published"


def printed_of(table):
    """The printed cells of a declared table."""
    declaration = TABLES[table]
    return read_paper_cells(declaration, [PUBLISHED / f"{number}.csv" for number in declaration.paper_tables])


def study_of(declaration, printed, compared=True, **more):
    """A study that runs all printed models, and those named."""
    kind = declaration.model_kinds[0] if declaration.model_kinds else ENCODER
    names = dict.fromkeys(ours_of(declaration, key[1]) for key in printed if key[1] not in ("", RANDOM))
    return StudyFacts({**dict.fromkeys(names, kind), **more}, compared, 0.95, {})


def ours_of(declaration, model):
    """The model of ours that a printed name means first."""
    return declaration.model_aliases.get(model, (model,))[0]


def as_printed(declaration, printed, changed=lambda key, value: value):
    """Our numbers, each the printed one; those of averages are left to the tables."""
    numbers = {}
    for key, cell in printed.items():
        metric, model, dataset, setting = key
        if metric == EVERY_METRIC or model == RANDOM or not cell.value:
            continue
        place = next(list_places(declaration, (metric, dataset, setting), ours_of(declaration, model)))
        if dataset == AVERAGE and place[0] != DERIVED:
            continue
        try:
            numbers[place] = Number(Measure(changed(key, float(cell.value)), 100))
        except ValueError:
            numbers[place] = number_of_text(cell.value)
        if cell.value == "nan":
            numbers[place] = Number(
                Measure(None, 100, reason="the test is constant: all 100 verdicts are 1"), text="nan"
            )
    return numbers


def cells_of(table, changed=lambda key, value: value):
    """A table's cells in a study whose numbers are the printed ones."""
    declaration = TABLES[table]
    printed = printed_of(table) if declaration.paper_tables else {}
    study = study_of(declaration, printed)
    numbers = derive_numbers(declaration, as_printed(declaration, printed, changed), printed, "published", study)
    return build_cells(declaration, "published", numbers, printed, study)
