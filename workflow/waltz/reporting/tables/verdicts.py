"""Is our number the printed one?"""

import math
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from statistics import NormalDist

from waltz.core.intervals import Measure
from waltz.reporting.tables.paper_values import PaperValue

EQUAL = "equal to print"
COMPATIBLE = "compatible"
DIFFERS = "differs"


NO_PAPER_VALUE = "not printed"
DOUBTFUL = ("inconsistent", "suspicious", "low confidence")
"""How notes on printed cells begin that contradict another one, or are read from a damaged text."""


@dataclass(frozen=True)
class Comparison:
    """A number beside its printed value.

    Attributes:
        published: The printed number, None where it is not one.
        difference: Ours less the printed one, in the metric's unit.
        verdict: `EQUAL`, `COMPATIBLE`, `DIFFERS`, or empty.
        reason: Why there is no verdict, or what is known of an error in print.
        shown: What is printed, digit by digit.
    """

    published: float | None
    difference: float | None
    verdict: str
    reason: str
    shown: str = ""


def compare_with_paper(measure: Measure, printed: PaperValue | None, confidence: float, text: str = "") -> Comparison:
    """Judge a measure against print.

    Equal to print is what gives the printed digits when rounded (halves up or to even) or cut to as many
    places, and a text that is the printed one. Compatible is a number whose distance lies inside the combined
    interval: ours, and that of the printed share on as many items; other printed numbers are given the width of ours.
    Everything else differs; a number without an interval cannot be compatible.

    Args:
        measure: Our number and its interval; its unit is the printed one's.
        printed: The printed cell, None where the table has none.
        confidence: Coverage of the intervals, a share.
        text: What stands in place of our number: a category, or nan where it is undefined.
    """
    if printed is None:
        return Comparison(None, None, "", measure.reason or NO_PAPER_VALUE)
    number = _parse_number(printed)
    telling = not measure.reason or not printed.value or printed.note.startswith(DOUBTFUL)
    reason = "; ".join(filter(None, (measure.reason, describe_note(printed.note) if telling else "")))
    if not printed.value or (measure.value is None and not text):
        return Comparison(number, None, "", reason or NO_PAPER_VALUE, printed.value)
    if number is None or measure.value is None:
        verdict = EQUAL if text.casefold() == printed.value.casefold() else DIFFERS
        return Comparison(number, None, verdict, reason, printed.value)
    difference = measure.value - number
    if rounds_to(measure.value, printed.value):
        return Comparison(number, difference, EQUAL, reason, printed.value)
    verdict = COMPATIBLE if abs(difference) <= _compute_half_width(measure, printed, number, confidence) else DIFFERS
    return Comparison(number, difference, verdict, reason, printed.value)


def describe_note(note: str) -> str:
    """A note on a printed cell, said to be one on its correctness where it is."""
    return f"printed wrong, or doubtful: {note}" if note.startswith(DOUBTFUL) else note


def _compute_half_width(measure: Measure, printed: PaperValue, number: float, confidence: float) -> float:
    """Half width of the combined interval of our number and of the printed one; negative without an interval."""
    if measure.ci_low is None or measure.ci_high is None or printed.unit == "count":
        return -1.0
    ours = theirs = (measure.ci_high - measure.ci_low) / 2
    if printed.unit == "percent":
        share = min(max(number / 100, 0.0), 1.0)
        reach = NormalDist().inv_cdf((1 + confidence) / 2)
        theirs = 100 * reach * math.sqrt(share * (1 - share) / measure.n)
    return math.hypot(ours, theirs)


def rounds_to(value: float, digits: str) -> bool:
    """Whether a number, rounded or cut to the places of the printed digits, is what is printed."""
    printed = Decimal(digits)
    if not math.isfinite(value):
        return False
    step = Decimal(1).scaleb(int(printed.as_tuple().exponent))
    exact = Decimal(repr(value))
    return any(exact.quantize(step, rounding) == printed for rounding in (ROUND_HALF_UP, ROUND_HALF_EVEN, ROUND_DOWN))


def _parse_number(printed: PaperValue) -> float | None:
    try:
        number = float(printed.value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
