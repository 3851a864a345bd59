"""Numbers for the tables' tests, at the places where declarations look for them."""

from waltz.core.files.resources import RESOURCES
from waltz.core.measure import Measure
from waltz.reporting.tables.build_table import build_cells, read_paper_cells
from waltz.reporting.tables.declaration import AVERAGE, DERIVED, ENCODER
from waltz.reporting.tables.declarations import TABLES
from waltz.reporting.tables.derived_numbers import derive_numbers
from waltz.reporting.tables.numbers import (
    Number,
    Position,
    StudyFacts,
    build_text_number,
    list_number_keys,
)
from waltz.reporting.tables.paper_values import EVERY_METRIC, RANDOM

PUBLISHED = RESOURCES / "published"


def read_paper_table(table):
    """Return the paper values of a declared table."""
    declaration = TABLES[table]
    return read_paper_cells(
        declaration,
        [PUBLISHED / f"{number}.csv" for number in declaration.paper_tables],
    )


def build_study(declaration, paper, compared=True, **more):
    """Return the facts of a study that runs all models of the paper, and those in `more`."""
    kind = declaration.model_kinds[0] if declaration.model_kinds else ENCODER
    names = dict.fromkeys(
        get_our_model(declaration, key[1])
        for key in paper
        if key[1] not in ("", RANDOM)
    )
    return StudyFacts({**dict.fromkeys(names, kind), **more}, compared, 0.95, {})


def get_our_model(declaration, model):
    """Return the model of ours that stands first for a model of the paper."""
    return declaration.model_aliases.get(model, (model,))[0]


def copy_paper_values(declaration, paper, change=lambda key, value: value):
    """Return numbers of ours equal to the paper values; averages are left to the tables."""
    numbers = {}
    for key, cell in paper.items():
        metric, model, dataset, setting = key
        if metric == EVERY_METRIC or model == RANDOM or not cell.value:
            continue
        position = Position(metric, dataset, setting)
        number_key = next(
            list_number_keys(declaration, position, get_our_model(declaration, model))
        )
        if dataset == AVERAGE and number_key.kind != DERIVED:
            continue
        try:
            numbers[number_key] = Number(Measure(change(key, float(cell.value)), 100))
        except ValueError:
            numbers[number_key] = build_text_number(cell.value)
        if cell.value == "nan":
            numbers[number_key] = Number(
                Measure(
                    None, 100, reason="the test is constant: all 100 verdicts are 1"
                ),
                text="nan",
            )
    return numbers


def build_paper_cells(table, change=lambda key, value: value):
    """Return a table's cells in a study whose numbers are the paper values."""
    declaration = TABLES[table]
    paper = read_paper_table(table) if declaration.paper_tables else {}
    study = build_study(declaration, paper)
    numbers = derive_numbers(
        declaration,
        copy_paper_values(declaration, paper, change),
        paper,
        "published",
        study,
    )
    return build_cells(declaration, "published", numbers, paper, study)
