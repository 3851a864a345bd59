"""Is our number the printed one?"""

import math
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from statistics import NormalDist

from waltz.core.measure import Measure
from waltz.reporting.published import Printed

EQUAL = "equal to print"
COMPATIBLE = "compatible"
DIFFERS = "differs"


@dataclass(frozen=True)
class Comparison:
    """A number beside its printed value.

    Attributes:
        published: The printed number, None where it is not one.
        difference: Ours less the printed one, in the metric's unit.
        verdict: `EQUAL`, `COMPATIBLE`, `DIFFERS`, or empty.
        reason: Why there is no verdict, or what is known of an error in print.
    """

    published: float | None
    difference: float | None
    verdict: str
    reason: str


def compare(measure: Measure, printed: Printed | None, confidence: float) -> Comparison:
    """Judge a measure against print.

    Equal to print is what gives the printed digits when rounded (halves up or to even) or cut to as many
    places. Compatible is a share whose distance lies inside the combined interval: ours, and that of the
    printed share on as many items. Everything else differs; a number without an interval cannot be
    compatible.

    Args:
        measure: Our number and its interval; its unit is the printed one's.
        printed: The printed cell, None where the table has none.
        confidence: Coverage of the intervals, a share.
    """
    if printed is None:
        return Comparison(None, None, "", measure.reason or "not printed")
    number = _number(printed)
    if number is None:
        return Comparison(None, None, "", measure.reason or printed.note or "not printed")
    if measure.value is None:
        return Comparison(number, None, "", measure.reason or printed.note)
    difference = measure.value - number
    if gives_print(measure.value, printed.value):
        return Comparison(number, difference, EQUAL, printed.note)
    if measure.ci_low is not None and measure.ci_high is not None and printed.unit == "percent":
        ours = (measure.ci_high - measure.ci_low) / 2
        share = min(max(number / 100, 0.0), 1.0)
        reach = NormalDist().inv_cdf((1 + confidence) / 2)
        theirs = 100 * reach * math.sqrt(share * (1 - share) / measure.n)
        if abs(difference) <= math.hypot(ours, theirs):
            return Comparison(number, difference, COMPATIBLE, printed.note)
    return Comparison(number, difference, DIFFERS, printed.note)


def gives_print(value: float, digits: str) -> bool:
    """Whether a number, rounded or cut to the places of the printed digits, is what is printed."""
    printed = Decimal(digits)
    if not math.isfinite(value):
        return False
    step = Decimal(1).scaleb(int(printed.as_tuple().exponent))
    exact = Decimal(repr(value))
    return any(exact.quantize(step, rounding) == printed for rounding in (ROUND_HALF_UP, ROUND_HALF_EVEN, ROUND_DOWN))


def _number(printed: Printed) -> float | None:
    try:
        number = float(printed.value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
