"""Audit the paper values: check that each can be a share of its items and is consistent with other
paper values.

`python -m tools.audit_paper_values FILE` writes a CSV file with one row for each paper value.
Nothing is measured: the audit shows which paper values a reproduction cannot reach, and which ones
contradict each other.
"""

import csv
import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from decimal import Decimal
from pathlib import Path
from statistics import harmonic_mean, mean, pstdev, stdev

from waltz.core.files.atomic import write_text
from waltz.core.files.resources import RESOURCES
from waltz.reporting.tables.declaration import AVERAGE
from waltz.reporting.tables.derived_numbers import PIECES
from waltz.reporting.tables.paper_values import (
    DOUBTFUL,
    RANDOM,
    PaperValue,
    read_paper_values,
    rounds_to,
)

OK, FINDING, NOT_CHECKABLE = "ok", "finding", "not checkable"

CellKey = tuple[str, str, str, str, str]
"""Table, metric, model, data set, setting."""
PaperTables = Mapping[CellKey, PaperValue]
Result = tuple[CellKey, str, str]
"""Cell, name of a check, and its finding; the finding is empty if the cell passed."""

RowKey = tuple[str, str, str, str]
"""Table, metric, model, setting."""
Rows = dict[RowKey, dict[str, float]]
"""Numbers of a row by data set."""

METRICS_BEFORE_COT = {"acc_r_cot": "acc_r", "accuracy_cot": "accuracy"}
"""Metrics after a chain of thought, and the same before it."""
REPEATED_TABLES = (
    ("thesis-3.4", "thesis-A.1"),
    ("thesis-4.2", "thesis-B.1"),
    ("thesis-A.1", "thesis-B.1"),
    ("thesis-3.5", "decoders-paper-1"),
    ("thesis-5.5", "decoders-paper-2"),
    ("thesis-C.25", "decoders-paper-3"),
)
"""Pairs of tables that contain the same cells."""
WHOLE_VALSE = (
    "thesis-3.4",
    "thesis-A.1",
    "thesis-4.2",
    "thesis-B.1",
    "thesis-3.5",
    "decoders-paper-1",
)
"""Tables whose accuracies are over all valid items of the instruments."""
SHARES = ("acc_r", "p_c", "p_f", "min_pc_pf")
"""Metrics that are a number of hits over the valid items."""
HARMONIC, MISMATCHED = "cv-probes:harmonic-mean", "cv-probes:-img+cap"
VERB_METRICS = ("t_shap_overall", "verb_shap", "verb_share")
"""Metrics of the tables of CV-Probes that have a row for each class that the model predicts."""


@dataclass(frozen=True)
class AuditedCell:
    """Hold the answer of the audit for one paper value.

    Attributes:
        table: Id of the paper's table.
        metric: Like the next three, named as in `waltz/resources/published`.
        model: The model.
        dataset: The data set.
        setting: The setting.
        value: The paper value, digit by digit.
        answer: `ok`, `finding` or `not checkable`.
        checks: Names of the checks that it passed, joined by `; `.
        detail: The findings, or the reason why nothing can be checked.
    """

    table: str
    metric: str
    model: str
    dataset: str
    setting: str
    value: str
    answer: str
    checks: str
    detail: str


def audit_paper_tables(folder: str | Path) -> list[AuditedCell]:
    """Audit all paper values in a folder of published tables; each gets one answer."""
    cells = {
        (path.stem, *key): value
        for path in sorted(Path(folder).glob("*.csv"))
        for key, value in read_paper_values(path).items()
    }
    results = [result for check in CHECKS for result in check(cells)]
    passed: dict[CellKey, list[str]] = {cell_key: [] for cell_key in cells}
    findings: dict[CellKey, list[str]] = {cell_key: [] for cell_key in cells}
    for cell_key, check_name, finding in results:
        if finding:
            findings[cell_key].append(f"{check_name}: {finding}")
        else:
            passed[cell_key].append(check_name)
    return [
        _answer(cell_key, cell, passed[cell_key], findings[cell_key])
        for cell_key, cell in cells.items()
    ]


def _answer(
    cell_key: CellKey, cell: PaperValue, passed: Sequence[str], findings: Sequence[str]
) -> AuditedCell:
    """Return the answer for one cell."""
    if findings:
        answer, detail = FINDING, "; ".join(dict.fromkeys(findings))
    elif passed:
        answer, detail = OK, ""
    else:
        answer, detail = NOT_CHECKABLE, _explain_unchecked(cell_key, cell)
    return AuditedCell(
        *cell_key, cell.value, answer, "; ".join(dict.fromkeys(passed)), detail
    )


def _explain_unchecked(cell_key: CellKey, cell: PaperValue) -> str:
    """Return why no check applies to a cell."""
    table, metric, model, *_ = cell_key
    if not cell.value:
        return cell.note or "the paper has no value"
    if model == RANDOM:
        return "chance level by definition"
    if _parse(cell) is None:
        return "a text"
    if cell.unit == "count":
        return "a count with no other number that it follows from"
    if metric == "auroc":
        return "every value with one decimal cell_key is an AUROC of that many pairs"
    if (
        cell.unit == "percent"
        and metric.startswith(("acc", "p_"))
        and "." not in cell.value
    ):
        return "with 100 or more items, every whole percent is a number of hits"
    if cell.unit == "percent" and table in ("thesis-5.2", "thesis-C.2", "thesis-5.5"):
        return "with 100 items, every whole percent is a number of items"
    return "a mean of real numbers, printed once, with no other number that it follows from"


def _parse(cell: PaperValue) -> float | None:
    """Return a paper value as a number, or None."""
    try:
        number = float(cell.value)
    except ValueError:
        return None
    return number if number == number else None


def _find_number(cells: PaperTables, cell_key: CellKey) -> float | None:
    """Return the number of a cell, or None."""
    return _parse(cells[cell_key]) if cell_key in cells else None


def _get_unit(digits: str) -> float:
    """Return the unit of the last digit of a printed number."""
    return float(10.0 ** int(Decimal(digits).as_tuple().exponent))


def _list_numbers(cells: PaperTables) -> Iterator[tuple[CellKey, PaperValue, float]]:
    """Yield cells of models, or of tables without models, that are numbers."""
    for cell_key, cell in cells.items():
        number = _parse(cell)
        if number is not None and cell_key[2] != RANDOM:
            yield cell_key, cell, number


def find_hits(digits: str, n: int) -> tuple[int | None, bool]:
    """Return a number of hits out of n items that gives a printed percentage, and whether it was
    rounded.

    Args:
        digits: The printed percentage.
        n: Number of items.
    Returns:
        The hits, None where no number gives it; False where it is given by cutting digits alone.
    """
    nearest = int(float(digits) * n / 100)
    near = range(max(nearest - 1, 0), min(nearest + 2, n) + 1)
    half = _get_unit(digits) / 2 * (1 + 1e-9)
    rounded = next(
        (hits for hits in near if abs(100 * hits / n - float(digits)) <= half), None
    )
    if rounded is not None:
        return rounded, True
    return next(
        (hits for hits in near if rounds_to(100 * hits / n, digits)), None
    ), False


def _check_notes(cells: PaperTables) -> Iterator[Result]:
    """Report the doubts that are noted with the paper values."""
    for cell_key, cell in cells.items():
        if cell.note.startswith(DOUBTFUL):
            yield cell_key, "known", cell.note


def _check_shares(cells: PaperTables) -> Iterator[Result]:
    """Check percentages whose number of items is known, where their digits are fine enough to
    decide.
    """
    for cell_key, cell, _ in _list_numbers(cells):
        table, metric, _, dataset, _ = cell_key
        n = 0
        if table in WHOLE_VALSE and metric in SHARES and dataset != AVERAGE:
            n = int(cells["thesis-A.2", "valid", "", dataset, ""].value)
        elif table in ("cv-probes-3", "cv-probes-4") and dataset != HARMONIC:
            n = 117 if dataset.endswith("+img+cap") else 172
        if n and 100 / n > _get_unit(cell.value):
            hits, is_rounded = find_hits(cell.value, n)
            finding = f"no number of hits out of {n} gives it"
            if hits is not None:
                finding = (
                    ""
                    if is_rounded
                    else f"{hits} of {n} are {100 * hits / n:.2f} %: cut, not rounded"
                )
            yield cell_key, "number of items", finding


def _check_averages(cells: PaperTables) -> Iterator[Result]:
    """Check averages and their deviations against the cells of their row."""
    for cell_key, cell, number in _list_numbers(cells):
        *_, dataset, setting = cell_key
        if dataset not in (AVERAGE, HARMONIC):
            continue
        row = [
            value
            for other, _, value in _list_numbers(cells)
            if (other[:3], other[4]) == (cell_key[:3], setting) and other[3] != dataset
        ]
        if len(row) < 2:
            continue
        expected = harmonic_mean(row) if dataset == HARMONIC else mean(row)
        unit = _get_unit(cell.value)
        yield (
            cell_key,
            "average",
            ""
            if abs(expected - number) <= 1.001 * unit
            else f"its {len(row)} cells have the mean {expected:.4g}",
        )
        if cell.sd:
            deviations = (stdev(row), pstdev(row))
            fits = any(
                abs(value - float(cell.sd)) <= 1.001 * _get_unit(cell.sd)
                for value in deviations
            )
            finding = f"± {cell.sd} is printed, the cells have {deviations[0]:.3g} (n - 1) or {deviations[1]:.3g}"
            yield cell_key, "deviation", "" if fits else finding


def _check_means_and_minima(cells: PaperTables) -> Iterator[Result]:
    """Check acc, the mean of p_c and p_f, and their minimum, in tables that print all."""
    for cell_key, cell, number in _list_numbers(cells):
        table, metric, _, dataset, _ = cell_key
        if metric not in ("acc", "min_pc_pf"):
            continue
        p_c, p_f = (
            _find_number(cells, (table, name, *cell_key[2:])) for name in ("p_c", "p_f")
        )
        if p_c is None or p_f is None or (metric == "min_pc_pf" and dataset == AVERAGE):
            continue
        expected = mean((p_c, p_f)) if metric == "acc" else min(p_c, p_f)
        name = "mean of p_c and p_f" if metric == "acc" else "smaller of p_c and p_f"
        fits = abs(expected - number) <= 1.001 * _get_unit(cell.value)
        yield (
            cell_key,
            name,
            "" if fits else f"p_c {p_c:g} and p_f {p_f:g} give {expected:.4g}",
        )


def _check_sums(cells: PaperTables) -> Iterator[Result]:
    """Check the totals and percentages of the validation, and the sizes of the pieces."""
    validation = {
        (metric, dataset): (cell_key, cell, number)
        for cell_key, cell, number in _list_numbers(cells)
        for table, metric, _, dataset, _ in [cell_key]
        if table == "thesis-A.2"
    }
    names = [
        dataset
        for metric, dataset in validation
        if metric == "valid" and dataset != "overall"
    ]
    for metric in ("instances", "valid", "unanimous"):
        cell_key, _, number = validation[metric, "overall"]
        total = sum(validation[metric, name][2] for name in names)
        yield (
            cell_key,
            "sum",
            "" if total == number else f"the instruments sum to {total:g}",
        )
    for (metric, name), (cell_key, cell, _) in validation.items():
        if metric in ("valid_percent", "unanimous_percent"):
            part, whole = (
                validation[key, name][2]
                for key in (metric.removesuffix("_percent"), "instances")
            )
            share = 100 * part / whole
            yield (
                cell_key,
                "share",
                ""
                if rounds_to(share, cell.value)
                else f"{part:g} of {whole:g} are {share:.2f} %",
            )
    for piece, instruments in PIECES.items():
        cell_key = ("thesis-3.1", "examples", "", piece, "")
        total = sum(validation["valid", name][2] for name in instruments)
        fits = float(cells[cell_key].value) == total
        yield (
            cell_key,
            "sum",
            "" if fits else f"its instruments have {total:g} valid items in thesis A.2",
        )


def _check_repeated_cells(cells: PaperTables) -> Iterator[Result]:
    """Compare the cells that occur in two tables."""
    for first, second in REPEATED_TABLES:
        for cell_key, _, number in _list_numbers(cells):
            other = (second, *cell_key[1:])
            value = _find_number(cells, other) if cell_key[0] == first else None
            if value is not None:
                same = value == number
                yield (
                    cell_key,
                    "other table",
                    "" if same else f"{second} prints {cells[other].value}",
                )
                yield (
                    other,
                    "other table",
                    "" if same else f"{first} prints {cells[cell_key].value}",
                )


def _check_repeated_columns(cells: PaperTables) -> Iterator[Result]:
    """Report data sets on which a model has the scores of another one, to the digit, in at least
    three metrics.
    """
    columns: dict[tuple[str, str, str], dict[tuple[str, str], float]] = {}
    for (table, metric, model, dataset, setting), cell, number in _list_numbers(cells):
        if cell.unit == "percent" and "." in cell.value and dataset != AVERAGE:
            columns.setdefault((table, model, dataset), {})[metric, setting] = number
    for (table, model, dataset), column in columns.items():
        for (other_table, other_model, other), other_column in columns.items():
            if (other_table, other_model) != (table, model) or other >= dataset:
                continue
            same = [
                key
                for key in column
                if other_column.get(key) == column[key]
                and column[key] not in (0, 50, 100)
            ]
            for metric, setting in same if len(same) >= 3 else ():
                for name, twin in ((dataset, other), (other, dataset)):
                    finding = f"equal to {twin} in {len(same)} metrics"
                    yield (
                        (table, metric, model, name, setting),
                        "repeated column",
                        finding,
                    )


def _check_repeated_rows(cells: PaperTables) -> Iterator[Result]:
    """Report rows that repeat another row of the model, are exchanged with it, or are below chance
    throughout.
    """
    rows: Rows = {}
    for (table, metric, model, dataset, setting), cell, number in _list_numbers(cells):
        if cell.unit == "percent" and model:
            rows.setdefault((table, metric, model, setting), {})[dataset] = number
    for key in rows:
        yield from _check_row_below_chance(rows, key)
        yield from _check_even_row(rows, key)
        yield from _check_row_after_cot(rows, key)


def _check_row_below_chance(rows: Rows, key: RowKey) -> Iterator[Result]:
    """Report rows whose AUROC values are all below 50."""
    table, metric, model, setting = key
    row = rows[key]
    if metric != "auroc" or max(row.values()) >= 50:
        return
    for dataset in row:
        finding = "all AUROC of the row are below 50, as if the classes were exchanged"
        if dataset == AVERAGE:
            finding += f"; exchanged it is {100 - row[dataset]:.1f}{_name_equal_rows(rows, table, model, row)}"
        yield (table, metric, model, dataset, setting), "below chance", finding


def _check_even_row(rows: Rows, key: RowKey) -> Iterator[Result]:
    """Report rows of even percentages alone, which 100 items would hardly give."""
    table, metric, model, setting = key
    row = rows[key]
    numbers = [number for dataset, number in row.items() if dataset != AVERAGE]
    is_even = all(number % 2 == 0 for number in numbers)
    is_varied = len(set(row.values())) > 2
    if table != "thesis-4.3" or metric not in SHARES:
        return
    if is_even and is_varied:
        for dataset in row:
            finding = f"all {len(numbers)} cells of the row are even, as with 50 items; the caption says 100"
            yield (table, metric, model, dataset, setting), "number of items", finding


def _check_row_after_cot(rows: Rows, key: RowKey) -> Iterator[Result]:
    """Report rows whose accuracies after a chain of thought equal the accuracies before it."""
    table, metric, model, setting = key
    if metric not in METRICS_BEFORE_COT:
        return
    row, before = (
        rows[key],
        rows.get((table, METRICS_BEFORE_COT[metric], model, "post-hoc")),
    )
    if before == row and len(row) > 5:
        for dataset in row:
            yield (
                (table, metric, model, dataset, setting),
                "repeated row",
                "the row repeats the one before CoT",
            )


def _name_equal_rows(
    rows: Rows, table: str, model: str, row: Mapping[str, float]
) -> str:
    """Return the models whose average AUROC is 100 minus that of a row."""
    twins = [
        other
        for (other_table, metric, other, _), values in rows.items()
        if (other_table, metric) == (table, "auroc")
        and other != model
        and abs(values.get(AVERAGE, 0) + row[AVERAGE] - 100) < 0.05
    ]
    return f", the average of {' and '.join(twins)}" if twins else ""


def _check_exchanged_classes(cells: PaperTables) -> Iterator[Result]:
    """Report ALBEF vqa, whose p_c and p_f are exchanged between thesis 4.1 and B.1."""
    for cell_key, _, number in _list_numbers(cells):
        table, metric, model, _, setting = cell_key
        if table != "thesis-4.1" or setting != "isa" or metric not in ("p_c", "p_f"):
            continue
        others = [
            value
            for other, _, value in _list_numbers(cells)
            if other[0] == "thesis-B.1" and other[1:3] == (metric, model)
        ]
        if others and max(others) <= 1 and number >= 99:
            yield (
                cell_key,
                "exchanged classes",
                f"thesis B.1 has {max(others):g} or less on every instrument",
            )
        elif others and min(others) >= 99 and number <= 1:
            yield (
                cell_key,
                "exchanged classes",
                f"thesis B.1 has {min(others):g} or more on every instrument",
            )


def _check_undefined_correlations(cells: PaperTables) -> Iterator[Result]:
    """Check that correlations of thesis C.3 are nan where the test is constant, and only there."""
    for cell_key, cell in cells.items():
        table = cell_key[0]
        values = [
            _find_number(cells, (name, *cell_key[1:]))
            for name in ("thesis-5.2", "thesis-C.2")
        ]
        share = next((value for value in values if value is not None), None)
        if table != "thesis-C.3" or share is None or not cell.value:
            continue
        constant, undefined = share in (0, 100), cell.value == "nan"
        finding = f"{cell.value} is printed, but the test has {share:g} % in the table of tests"
        yield (
            cell_key,
            "nan where the test is constant",
            "" if constant == undefined else finding,
        )


def _check_predicted_classes(cells: PaperTables) -> Iterator[Result]:
    """Report cells of CV-Probes' verbs whose class the model never predicts by its accuracy on the
    same captions.
    """
    for cell_key, _, _ in _list_numbers(cells):
        _, metric, model, dataset, prediction = cell_key
        accuracy = _find_number(
            cells, ("cv-probes-4", "accuracy", model, dataset, "simplified")
        )
        if metric not in VERB_METRICS or accuracy is None:
            continue
        right = "non-match" if dataset == MISMATCHED else "match"
        if accuracy == (0 if prediction == right else 100):
            finding = f"with {accuracy:g} % right in cv-probes-4, {model} calls no item a {prediction}"
            yield cell_key, "predicted class", finding


CHECKS: tuple[Callable[[PaperTables], Iterator[Result]], ...] = (
    _check_notes,
    _check_shares,
    _check_averages,
    _check_means_and_minima,
    _check_sums,
    _check_repeated_cells,
    _check_repeated_columns,
    _check_repeated_rows,
    _check_exchanged_classes,
    _check_undefined_correlations,
    _check_predicted_classes,
)


def format_audit(cells: Sequence[AuditedCell]) -> str:
    """Format audited cells as CSV, findings first."""
    text = io.StringIO()
    writer = csv.DictWriter(
        text, [field.name for field in fields(AuditedCell)], lineterminator="\n"
    )
    writer.writeheader()
    order = (FINDING, OK, NOT_CHECKABLE)
    writer.writerows(
        asdict(cell)
        for cell in sorted(cells, key=lambda cell: order.index(cell.answer))
    )
    return text.getvalue()


if __name__ == "__main__":
    write_text(
        Path(sys.argv[1]), format_audit(audit_paper_tables(RESOURCES / "published"))
    )
