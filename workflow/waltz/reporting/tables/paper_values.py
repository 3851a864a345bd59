"""Paper values in waltz/resources/published, and verdicts on our numbers by comparison with them."""

import csv
import math
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

from waltz.consistency.metrics import SETTING_OF_TEST
from waltz.core.errors import UserError
from waltz.core.measure import Measure
from waltz.reporting.tables.declaration import AVERAGE

RANDOM, EVERY_METRIC = "random", "all"
"""Model in rows of a paper table that give the chance level, and the metric in such a row that is
for all metrics.
"""
SHARES_OF_ITEMS = frozenset(
    {
        *("acc_r", "acc_r_cot", "p_c", "p_f", "accuracy", "accuracy_cot"),
        *("valid_percent", "unanimous_percent"),
        *SETTING_OF_TEST,
    }
)
"""Metrics that are the percentage of items that have a property."""
MEANS_OF_SHARES = frozenset({AVERAGE, "cv-probes:harmonic-mean", "vqa"})
"""Data sets on which these metrics are means of several shares, or of answers that may be partly
right.
"""


class PaperKey(NamedTuple):
    """Key of one paper value: its metric, model, data set and setting, as in the CSV."""

    metric: str
    model: str
    dataset: str
    setting: str


@dataclass(frozen=True, slots=True)
class PaperValue:
    """Value in one cell of a paper's table.

    Attributes:
        key: Metric, model, data set and setting, as in the CSV; unique in a table.
        value: Digits or text in the paper; empty where the paper has no value or it is illegible.
        unit: Unit: percent, ratio, count, correlation-x100, category, flag or text.
        note: Known errors in the paper, or the reason why `value` is empty.
        sd: Digits of the standard deviation that the paper gives with an average; empty without
            one.
    """

    key: PaperKey
    value: str
    unit: str
    note: str
    sd: str = ""

    def parse_number(self) -> float | None:
        """Return the value as a number; None if it is not a finite number."""
        try:
            number = float(self.value)
        except ValueError:
            return None
        if not math.isfinite(number):
            return None
        return number

    def parse_sd(self) -> float | None:
        """Return the standard deviation as a number; None without one."""
        if not self.sd:
            return None
        return float(self.sd)


def read_paper_values(path: str | Path) -> dict[PaperKey, PaperValue]:
    """Return the paper values of one paper table by key, in the order of its CSV.

    Raises:
        UserError: The file does not exist, or a key occurs twice.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(
            f"{path}: no such paper table; see workflow/waltz/resources/published/README.md"
        )
    cells: dict[PaperKey, PaperValue] = {}
    with path.open(encoding="utf-8", newline="") as file:
        # Line 1 is the header.
        for line, row in enumerate(csv.DictReader(file), 2):
            key = PaperKey(row["metric"], row["model"], row["dataset"], row["setting"])
            if key in cells:
                raise UserError(
                    f"{path}: line {line}: {tuple(key)} occurs twice; delete one of them"
                )
            cells[key] = PaperValue(
                key, row["value"], row["unit"], row["note"], row["sd"]
            )
    return cells


EQUAL = "equal to the paper"
EQUIVALENT = "equivalent"
COMPATIBLE = "compatible"
DIFFERS = "differs"
VERDICT_DEFINITIONS = {
    EQUAL: "our number has the digits of the paper when it is rounded or cut to as many decimal places",
    EQUIVALENT: "the difference is shown to be smaller than the margin that the study names",
    COMPATIBLE: "the difference lies inside the combined interval of both numbers",
    DIFFERS: "the difference lies outside the combined interval of both numbers",
}
"""What each verdict means, see `compare_with_paper`."""

NO_PAPER_VALUE = "no paper value"
NO_INTERVAL = (
    "one item or image has no interval, so nothing can be said of the difference"
)
DOUBTFUL = ("inconsistent", "suspicious", "low confidence")
"""First words of notes on paper values that contradict other paper values, or were read from a
damaged text.
"""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of the comparison of a number with its paper value.

    Attributes:
        reason: Reason why there is no verdict, or a known error in the paper.
        paper_value: The paper value as a number; None if it is not a finite number.
        difference: Our number minus the paper value, in the metric's unit.
        verdict: `EQUAL`, `EQUIVALENT`, `COMPATIBLE`, `DIFFERS`, or empty without a verdict.
        paper_text: The paper value, with the digits of the paper.
        paper_sd: Standard deviation in the paper; None without one.
        tolerance: Largest difference that is compatible, in the metric's unit: the verdict cannot
            find a smaller deviation. None if no difference is compatible.
    """

    reason: str
    paper_value: float | None = None
    difference: float | None = None
    verdict: str = ""
    paper_text: str = ""
    paper_sd: float | None = None
    tolerance: float | None = None


def compare_with_paper(
    measure: Measure,
    paper: PaperValue | None,
    confidence: float,
    text: str = "",
    margin: float | None = None,
) -> Comparison:
    """Compare a measure with a paper value.

    A number is equal to the paper value if it gives the same digits when it is rounded (halves up
    or to even) or cut to as many decimal places. A text is equal if it is the same text, ignoring
    case.

    A number is equivalent if the interval of the difference at twice the error rate, of 90 % for
    intervals of 95 %, lies inside the margin (two one-sided tests).

    A number is compatible if the difference lies inside the combined interval of both numbers. For
    a share of items in the paper, the interval of the paper value is computed from the share and
    our number of items; any other paper value gets an interval as wide as ours. A number without an
    interval cannot be compatible.

    Any other number differs, with one exception: a number of a single item or image that has no
    interval, and is not a count, gets no verdict.

    Args:
        measure: Our number and its interval, in the unit of the paper value.
        paper: The paper value; None where the table has none.
        confidence: Coverage of the intervals, between 0 and 1.
        text: Text in the place of our number: a category, or nan where the number is undefined.
        margin: Difference that is too small to matter, in the unit of the paper value; None without
            one.
    Source:
        Two one-sided tests: Schuirmann (Journal of Pharmacokinetics and Biopharmaceutics 15, 1987).
    """
    if paper is None:
        return Comparison(measure.reason or NO_PAPER_VALUE)
    number = paper.parse_number()
    reason = _join_reasons(measure, paper)
    comparison = Comparison(
        reason,
        paper_value=number,
        paper_text=paper.value,
        paper_sd=paper.parse_sd(),
    )

    has_number_or_text = measure.value is not None or bool(text)
    if not paper.value or not has_number_or_text:
        return replace(comparison, reason=reason or NO_PAPER_VALUE)
    if number is None or measure.value is None:
        return replace(comparison, verdict=_judge_text(text, paper))
    tolerance = _compute_tolerance(measure, paper, number, confidence)
    difference = measure.value - number
    verdict = _judge_number(measure, measure.value, paper, number, tolerance)
    # The digits of the paper stay equal to the paper, whatever the margin.
    if verdict != EQUAL and _is_within_margin(
        difference, tolerance, margin, confidence
    ):
        verdict = EQUIVALENT
    if not verdict:
        reason = "; ".join(filter(None, (reason, NO_INTERVAL)))
    return replace(
        comparison,
        reason=reason,
        difference=difference,
        verdict=verdict,
        tolerance=tolerance,
    )


def _judge_text(text: str, paper: PaperValue) -> str:
    """Return the verdict on a text, or on a number that the paper has no number for."""
    if text.casefold() == paper.value.casefold():
        return EQUAL
    return DIFFERS


def _judge_number(
    measure: Measure,
    value: float,
    paper: PaperValue,
    number: float,
    tolerance: float | None,
) -> str:
    """Return the verdict on a number; an empty text if nothing can be said of the difference.

    Args:
        measure: Our number with its interval.
        value: Our number.
        paper: The paper value with its unit.
        number: The paper value as a number.
        tolerance: Largest difference that is compatible; None if none is.
    """
    # The paper's digits are its number, whatever the interval.
    if rounds_to(value, paper.value):
        return EQUAL
    if tolerance is not None:
        if abs(value - number) <= tolerance:
            return COMPATIBLE
        return DIFFERS
    # A single item or image has no interval, so its difference says nothing; a count needs none.
    is_single = 1 in (measure.n, measure.images)
    if is_single and paper.unit != "count":
        return ""
    return DIFFERS


def _is_within_margin(
    difference: float, tolerance: float | None, margin: float | None, confidence: float
) -> bool:
    """Return whether the interval of a difference for two one-sided tests lies inside a margin.

    Args:
        difference: Our number minus the paper value.
        tolerance: Half width of the interval of the difference with this confidence; None without
            an interval.
        margin: The margin; None without one.
        confidence: Coverage of the intervals, between 0 and 1.
    """
    if tolerance is None or margin is None:
        return False
    # Each of two tests at the level 1 - confidence has the quantile of one side.
    quantile = NormalDist().inv_cdf(confidence)
    half = tolerance * quantile / NormalDist().inv_cdf((1 + confidence) / 2)
    return abs(difference) + half < margin


def _compute_tolerance(
    measure: Measure, paper: PaperValue, number: float, confidence: float
) -> float | None:
    """Return the half width of the combined interval of our number and the paper value; None for
    counts, which are exact, and for numbers without an interval.

    Args:
        measure: Our number with its interval.
        paper: The paper value with its unit.
        number: The paper value as a number.
        confidence: Coverage of the intervals, between 0 and 1.
    """
    if paper.unit == "count" or measure.ci_low is None or measure.ci_high is None:
        return None
    ours = (measure.ci_high - measure.ci_low) / 2
    # A number that is no share of items is taken to be as exact in the paper as here.
    theirs = ours
    if _is_share_of_items(paper):
        # A share s of n items has the standard error sqrt(s (1 - s) / n).
        share = min(max(number / 100, 0.0), 1.0)
        z = NormalDist().inv_cdf((1 + confidence) / 2)
        theirs = 100 * z * math.sqrt(share * (1 - share) / measure.n)
    # Both numbers are independent, so their variances add up.
    return math.hypot(ours, theirs)


def _join_reasons(measure: Measure, paper: PaperValue) -> str:
    """Return our reason and the note on the paper value, if the note explains something."""
    reason = measure.reason or ""
    note = paper.note
    is_doubtful = note.startswith(DOUBTFUL)
    if is_doubtful:
        note = f"wrong or doubtful in the paper: {note}"
    # A note explains our missing number only if it is about an error in the paper, or a missing
    # paper value.
    elif reason and paper.value:
        return reason
    return "; ".join(filter(None, (reason, note)))


def _is_share_of_items(paper: PaperValue) -> bool:
    """Return whether a paper value is the share of items that are right, so that its variance
    follows from its value.

    The unit alone does not decide it: T-SHAP, shares of verbs, perceptual scores, acc (of two texts
    an item), AUROC and the smaller of p_c and p_f are in percent as well, but are not shares of
    items. The metric alone does not decide it either: correlations of the tests with CC-SHAP have
    the names of the tests.
    """
    is_share = paper.unit == "percent" and paper.key.metric in SHARES_OF_ITEMS
    return is_share and paper.key.dataset not in MEANS_OF_SHARES


def rounds_to(value: float, digits: str) -> bool:
    """Return whether a number gives some digits when it is rounded or cut to as many decimal
    places.

    Args:
        value: The number; the result is False if it is not finite.
        digits: Digits in the paper, such as `53.10`.
    """
    if not math.isfinite(value):
        return False
    target = Decimal(digits)
    # The last decimal place of the paper's digits: 0.1 for 53.2.
    step = Decimal(1).scaleb(int(target.as_tuple().exponent))
    # repr gives the shortest digits that stand for the float, so that 0.285 is a half and not
    # slightly less.
    exact = Decimal(repr(value))
    roundings = (ROUND_HALF_UP, ROUND_HALF_EVEN, ROUND_DOWN)
    return any(exact.quantize(step, rounding) == target for rounding in roundings)
