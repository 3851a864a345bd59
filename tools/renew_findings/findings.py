"""Findings: numbers that a page states, taken from the measurements of a study."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from waltz.core.errors import UserError
from waltz.core.schema import MeasurementRecord

CLIP, MATCHER, LLAVA = "scenes-clip", "scenes-matcher", "scenes-llava"
RANDOM_MATCHER = f"{MATCHER}, random weights"
SMOLLM2 = "smollm2-135m-instruct"
CONSISTENCY = "consistency"
"""Measurement of the metrics of stage consistency."""


@dataclass(frozen=True, slots=True)
class Source:
    """Identify the measurement of a number on a page.

    Attributes:
        measurement: Name of its file, without the ending.
        quantity: As in `MeasurementRecord`, like the fields after it but the last.
        model: Model or game.
        factor: What was varied.
        level: Value of the factor.
        dataset: Data set.
        decimals: Decimals in the text.
        undefined: Text if the measurement has a reason instead of a number; empty if it must have a
            number.
    """

    measurement: str
    quantity: str
    model: str = ""
    factor: str = ""
    level: str = ""
    dataset: str = ""
    decimals: int = 1
    undefined: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """Hold a number that a page states.

    Attributes:
        text: The number as text.
        value: The number; None for the text of an undefined number.
        ci_low: Lower end of its interval; None without one.
        ci_high: Upper end.
        n: Number of items.
    """

    text: str
    value: float | None
    ci_low: float | None
    ci_high: float | None
    n: int


def collect_findings(
    rows: Iterable[MeasurementRecord], sources: Mapping[str, Source]
) -> dict[str, Finding]:
    """Return the numbers of a page by name.

    Raises:
        UserError: The measurements lack a number.
    """
    measures = {}
    for row in rows:
        measures[
            row.measurement, row.quantity, row.model, row.factor, row.level, row.dataset
        ] = row.measure
    findings = {}
    for name, source in sources.items():
        key = (
            source.measurement,
            source.quantity,
            source.model,
            source.factor,
            source.level,
            source.dataset,
        )
        measure = measures.get(key)
        if measure is None or (measure.value is None and not source.undefined):
            raise UserError(
                f"{source.measurement}: no number for {name!r} ({source}); run the study that measures it"
            )
        text = source.undefined
        if measure.value is not None:
            text = format_number(
                measure.value, measure.ci_low, measure.ci_high, source.decimals
            )
        findings[name] = Finding(
            text, measure.value, measure.ci_low, measure.ci_high, measure.n
        )
    return findings


def format_number(
    value: float, low: float | None, high: float | None, decimals: int
) -> str:
    """Return a number with its interval as the page states it, such as `2.4 [2.1, 2.6]`."""
    text = _round_number(value, decimals)
    if low is None or high is None:
        return text
    return f"{text} [{_round_number(low, decimals)}, {_round_number(high, decimals)}]"


def _round_number(value: float, decimals: int) -> str:
    rounded = round(value, decimals) + 0.0  # 0 instead of -0
    return f"{rounded:,.{decimals}f}"
