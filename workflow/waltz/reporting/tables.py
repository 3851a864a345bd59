"""Tables as tidy cells: ours beside the printed ones, with a verdict or the reason why there is none."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from typing import Any

from waltz.core.measure import Measure
from waltz.evaluation.metrics import Resampling, acc_r, average
from waltz.reporting.declarations import Declaration
from waltz.reporting.published import Key, Printed
from waltz.reporting.verdicts import Comparison, compare

JOINED_PROFILE = "published"
CHANCE = "chance by definition, not a measurement"


@dataclass(frozen=True)
class Cell:
    """One cell of a table; `None` and empty texts are blank in the CSV."""

    table: str
    profile: str
    metric: str
    model: str
    dataset: str
    setting: str
    value: float | None
    n: int | None
    ci_low: float | None
    ci_high: float | None
    published: float | None
    difference: float | None
    verdict: str
    reason: str


COLUMNS = [field.name for field in fields(Cell)]


def join(
    declaration: Declaration,
    profile: str,
    measured: Mapping[Key, Measure],
    printed: Mapping[Key, Printed],
    absent: str,
    confidence: float,
) -> list[Cell]:
    """All printed cells in print order, then ours that print has not.

    Args:
        declaration: The table.
        profile: Fidelity profile of `measured`; only `published` is compared with print.
        measured: Ours, by the names of print (metric, model, dataset, setting).
        printed: The published table.
        absent: Reason of a printed cell that we have not.
        confidence: Coverage of the intervals, a share.
    """
    cells = []
    for key in dict.fromkeys([*printed, *measured]):
        measure = measured.get(key) or Measure(None, 0, reason=CHANCE if key[1] == "random" else absent)
        if profile == JOINED_PROFILE:
            comparison = compare(measure, printed.get(key), confidence)
        else:
            reason = measure.reason or f"only the profile {JOINED_PROFILE} is compared with print"
            comparison = Comparison(None, None, "", reason)
        cells.append(Cell(declaration.id, profile, *key, *astuple(measure)[:-1], *astuple(comparison)))
    return cells


def validation_cells(
    rows: Iterable[Mapping[str, Any]], printed: Mapping[Key, Printed], profile: str
) -> dict[Key, Measure]:
    """Measures of Table A.2, the overall row included.

    Args:
        rows: Rows of the statistics layout.
        printed: The published table; its data sets make up the overall row.
        profile: Decides what the overall unanimous share is taken over.
    """
    found = {
        (row["metric"], "", row["dataset"], ""): Measure(
            row["value"], row["n"], row["ci_low"], row["ci_high"], row["reason"]
        )
        for row in rows
    }
    names = list(dict.fromkeys(key[2] for key in printed if key[2] != "overall"))
    sums = {
        metric: _sum(found.get((metric, "", name, "")) for name in names)
        for metric in ("instances", "valid", "unanimous")
    }
    for metric, total in sums.items():
        found[metric, "", "overall", ""] = total
    base = "valid" if profile == JOINED_PROFILE else "instances"
    found["valid_percent", "", "overall", ""] = _share(sums["valid"], sums["instances"])
    found["unanimous_percent", "", "overall", ""] = _share(sums["unanimous"], sums[base])
    for metric in ("lexical_items", "js", "js_valid", "alpha", "alpha_valid"):
        found[metric, "", "overall", ""] = Measure(None, 0, reason="not defined over all instruments")
    return found


def pairwise_cells(
    scores: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]],
    models: Sequence[str],
    printed: Mapping[Key, Printed],
    aliases: Mapping[str, str],
    profile: str,
    how: Resampling,
) -> dict[Key, Measure]:
    """acc_r of each model on each data set, and its average over the printed data sets.

    Args:
        scores: Rows of the evaluation layout by registry model and data set.
        models: Registry models, in order.
        printed: The published table.
        aliases: Registry model of each printed model id.
        profile: Which profile's rows are taken.
        how: How intervals are made.
    """
    names = list(dict.fromkeys(key[2] for key in printed if key[2] != "average"))
    printed_name = {model: name for name, model in aliases.items()}
    found: dict[Key, Measure] = {}
    for model in models:
        shown = printed_name.get(model, model)
        parts = {}
        for (scored_model, dataset), rows in scores.items():
            if scored_model == model:
                captions = [row for row in rows if row["role"] == "caption" and row["profile"] == profile]
                parts[dataset] = acc_r(captions, dataset, how)
                found["acc_r", shown, dataset, ""] = parts[dataset].measure
        missing = [name for name in names if name not in parts]
        if missing:
            reason = f"not averaged: {len(missing)} of {len(names)} data sets were not run"
            found["acc_r", shown, "average", ""] = Measure(None, 0, reason=reason)
        else:
            found["acc_r", shown, "average", ""] = average([parts[name] for name in names], how).measure
    return found


def to_csv(cells: Iterable[Cell]) -> str:
    """Cells as CSV, numbers in full precision."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _written(value) for name, value in asdict(cell).items()} for cell in cells)
    return text.getvalue()


def from_csv(text: str) -> list[Cell]:
    """Cells of a table's CSV."""
    return [
        Cell(**{name: _parsed(name, value) for name, value in row.items()}) for row in csv.DictReader(io.StringIO(text))
    ]


def _sum(measures: Iterable[Measure | None]) -> Measure:
    parts = list(measures)
    if any(part is None or part.value is None for part in parts):
        return Measure(None, 0, reason="not summed: the study does not hold all instruments with their votes")
    present = [part for part in parts if part is not None]
    return Measure(sum(part.value or 0.0 for part in present), sum(part.n for part in present))


def _share(part: Measure, whole: Measure) -> Measure:
    if part.value is None or not whole.value:
        return Measure(None, 0, reason=part.reason or whole.reason)
    return Measure(100 * part.value / whole.value, int(whole.value))


def _written(value: Any) -> Any:
    """Nothing for None, whole numbers without a point."""
    if value is None:
        return ""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _parsed(name: str, value: str) -> Any:
    if name == "n":
        return int(value) if value else None
    if name in ("value", "ci_low", "ci_high", "published", "difference"):
        return float(value) if value else None
    return value
