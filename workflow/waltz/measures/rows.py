"""Compute means of measurements over items, with their intervals."""

import math
from collections.abc import Sequence
from dataclasses import replace

from waltz.core.intervals import NON_NEGATIVE, Bounds, Resampling, compute_mean
from waltz.core.measure import Measure
from waltz.core.schema import MeasurementRecord

SINGLE = "crossed choice"
"""Factor of the rows of one combination of choices, which tables leave out."""
SIGNED = (-1.0, 1.0)
"""Bounds of a correlation and of a cosine, such as CC-SHAP."""


def average(
    values: Sequence[float],
    clusters: Sequence[str],
    label: str,
    resampling: Resampling,
    bounds: Bounds | None = None,
) -> Measure:
    """Return the mean over items with its interval, or an undefined measure with a reason if no
    item has a value.

    Args:
        values: One number per item; items whose number is undefined, NaN, are left out.
        clusters: The scene of each item (`items.identify_scene`): resamples draw scenes.
        label: Name of the resampled data; numbers with one label are paired.
        resampling: Number of resamples, coverage and seed.
        bounds: Smallest and largest possible value; None for an unbounded number.
    """
    defined_values = []
    defined_clusters = []
    for value, cluster in zip(values, clusters, strict=True):
        if not math.isnan(value):
            defined_values.append(value)
            defined_clusters.append(cluster)
    if not defined_values:
        return Measure(None, 0, reason="no item has a value")
    return compute_mean(defined_values, defined_clusters, label, resampling, bounds)


def average_errors(
    errors: Sequence[float], clusters: Sequence[str], label: str, resampling: Resampling
) -> Measure:
    """Return the root mean square of one error per item; the ends of its interval are roots too.

    Args:
        errors: One number per item, such as its root mean square over seeds.
        clusters: The scene of each item, as for `average`.
        label: Name of the resampled data; numbers with one label are paired.
        resampling: Number of resamples, coverage and seed.
    """
    squares = average(
        [error**2 for error in errors], clusters, label, resampling, NON_NEGATIVE
    )
    return replace(
        squares,
        value=_take_root(squares.value),
        ci_low=_take_root(squares.ci_low),
        ci_high=_take_root(squares.ci_high),
    )


def _take_root(value: float | None) -> float | None:
    return None if value is None else math.sqrt(value)


def build_row(
    measurement: str,
    quantity: str,
    measure: Measure,
    factor: str = "",
    level: str = "",
    *,
    model: str = "",
    dataset: str = "",
) -> MeasurementRecord:
    """Return the record of one number; arguments as the columns of `MeasurementRecord`."""
    return MeasurementRecord(
        measurement=measurement,
        quantity=quantity,
        measure=measure,
        factor=factor,
        level=level,
        model=model,
        dataset=dataset,
    )


def pool_items(
    quantity: str,
    values: Sequence[float],
    clusters: Sequence[str],
    label: str,
    resampling: Resampling,
    bounds: Bounds | None = None,
) -> Measure:
    """Return the root mean square of errors ("error", "error_corrected"), and the mean of any other
    quantity.
    """
    # Errors of items are squared before they are averaged; other quantities are averaged as they
    # are.
    if quantity.startswith("error"):
        return average_errors(values, clusters, label, resampling)
    return average(values, clusters, label, resampling, bounds)
