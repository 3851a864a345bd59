"""A measured number with its confidence interval, or the reason why it has no value."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """One measured number.

    Attributes:
        value: Value in the unit of the metric; None with a reason.
        n: Number of items that it was measured on (annotated items for agreement).
        ci_low: Lower end of the interval; None if the number has no interval.
        ci_high: Upper end.
        ci_method: Method of the interval, such as `intervals.BOOTSTRAP`; None without an interval.
        reason: Reason why there is no value.
        images: Number of images, or other clusters, that resamples draw from; None if nothing is
            resampled.
    """

    value: float | None
    n: int
    ci_low: float | None = None
    ci_high: float | None = None
    ci_method: str | None = None
    reason: str | None = None
    images: int | None = None
