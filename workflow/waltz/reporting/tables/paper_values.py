"""Paper values (waltz/resources/published), and verdicts on our numbers compared with them."""

import csv
import math
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from pathlib import Path
from statistics import NormalDist

from waltz.core.errors import UserError
from waltz.core.intervals import Measure

Key = tuple[str, str, str, str]
"""metric, model, dataset, setting."""
RANDOM, EVERY_METRIC = "random", "all"
"""Model and metric of paper rows that give the chance level."""


@dataclass(frozen=True)
class PaperValue:
    """One cell of a paper's table.

    Attributes:
        key: metric, model, dataset, setting, as in the CSV; unique in a table.
        value: The digits in the paper; empty where the paper has none or they are illegible.
        unit: percent, ratio, count, correlation-x100, category, flag or text.
        note: Known errors in the paper, or why `value` is empty.
        sd: The digits of the standard deviation given with an average, else empty.
    """

    key: Key
    value: str
    unit: str
    note: str
    sd: str = ""


def read_paper_values(path: str | Path) -> dict[Key, PaperValue]:
    """Read the cells of one paper table, in its order."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: no such paper table; see workflow/waltz/resources/published/README.md")
    cells: dict[Key, PaperValue] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for line, row in enumerate(csv.DictReader(file), 2):
            key = (row["metric"], row["model"], row["dataset"], row["setting"])
            if key in cells:
                raise UserError(f"{path}: line {line}: {key} occurs twice; delete one of them")
            cells[key] = PaperValue(key, row["value"], row["unit"], row["note"], row["sd"])
    return cells


EQUAL = "equal to the paper"
COMPATIBLE = "compatible"
DIFFERS = "differs"


NO_PAPER_VALUE = "no paper value"
DOUBTFUL = ("inconsistent", "suspicious", "low confidence")
"""First words of notes on paper values that contradict others, or were read from a damaged text."""


@dataclass(frozen=True)
class Comparison:
    """The comparison of a number with its paper value.

    Attributes:
        paper_value: The paper value; None where it is no number.
        difference: Our number minus the paper value, in the metric's unit.
        verdict: `EQUAL`, `COMPATIBLE`, `DIFFERS`, or empty.
        reason: Why there is no verdict, or a known error in the paper.
        paper_text: The paper value, digit by digit.
    """

    paper_value: float | None
    difference: float | None
    verdict: str
    reason: str
    paper_text: str = ""


def compare_with_paper(measure: Measure, paper: PaperValue | None, confidence: float, text: str = "") -> Comparison:
    """Compare a measure with a paper value.

    A number is equal to the paper value if it gives the same digits when rounded (halves up or to even) or cut to as
    many decimal places; a text is equal if it is the same. A number is compatible if the difference lies inside the
    combined interval: ours, and that of the paper's share on as many items (other paper values are given the width of
    ours). Everything else differs; a number without an interval cannot be compatible.

    Args:
        measure: Our number and its interval, in the unit of the paper value.
        paper: The paper value; None where the table has none.
        confidence: Coverage of the intervals, between 0 and 1.
        text: Text in place of our number: a category, or nan where it is undefined.
    """
    if paper is None:
        return Comparison(None, None, "", measure.reason or NO_PAPER_VALUE)
    number = _parse_number(paper)
    is_doubtful = paper.note.startswith(DOUBTFUL)
    note = f"wrong or doubtful in the paper: {paper.note}" if is_doubtful else paper.note
    adds_note = not measure.reason or not paper.value or is_doubtful
    reason = "; ".join(filter(None, (measure.reason, note if adds_note else "")))
    if not paper.value or (measure.value is None and not text):
        return Comparison(number, None, "", reason or NO_PAPER_VALUE, paper.value)
    if number is None or measure.value is None:
        verdict = EQUAL if text.casefold() == paper.value.casefold() else DIFFERS
        return Comparison(number, None, verdict, reason, paper.value)
    difference = measure.value - number
    if rounds_to(measure.value, paper.value):
        return Comparison(number, difference, EQUAL, reason, paper.value)
    verdict = COMPATIBLE if abs(difference) <= _compute_half_width(measure, paper, number, confidence) else DIFFERS
    return Comparison(number, difference, verdict, reason, paper.value)


def _compute_half_width(measure: Measure, paper: PaperValue, number: float, confidence: float) -> float:
    """Return half the width of the combined interval of our number and the paper value; negative without one."""
    if measure.ci_low is None or measure.ci_high is None or paper.unit == "count":
        return -1.0
    ours = theirs = (measure.ci_high - measure.ci_low) / 2
    if paper.unit == "percent":
        share = min(max(number / 100, 0.0), 1.0)
        reach = NormalDist().inv_cdf((1 + confidence) / 2)
        theirs = 100 * reach * math.sqrt(share * (1 - share) / measure.n)
    return math.hypot(ours, theirs)


def rounds_to(value: float, digits: str) -> bool:
    """Return whether a number has the given digits when rounded or cut to as many decimal places."""
    target = Decimal(digits)
    if not math.isfinite(value):
        return False
    step = Decimal(1).scaleb(int(target.as_tuple().exponent))
    exact = Decimal(repr(value))
    return any(exact.quantize(step, rounding) == target for rounding in (ROUND_HALF_UP, ROUND_HALF_EVEN, ROUND_DOWN))


def _parse_number(paper: PaperValue) -> float | None:
    """Return a paper value as a number; None where it is no finite number."""
    try:
        number = float(paper.value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
