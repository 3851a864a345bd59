"""Rows of the layout of measurements: one number each, of a model, a data set and a level of what was varied."""

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from waltz.core.intervals import Bounds, Measure, Resampling, compute_mean

Row = dict[str, Any]
SINGLE = "crossed choice"
"""Factor of the rows of one combination of choices, which tables leave out."""


def build_row(
    measurement: str,
    quantity: str,
    measure: Measure,
    *,
    model: str = "",
    dataset: str = "",
    factor: str = "",
    level: str = "",
) -> Row:
    """Return one row of the layout `MEASURES`.

    Args:
        measurement: Name of the measurement, as that of its file.
        quantity: What the number is, such as `t_shap` or `bias`.
        measure: The number.
        model: Model or game that it is about; empty for all together.
        dataset: Data set; empty for all together.
        factor: What was varied.
        level: Value of the factor.
    """
    place = {"model": model, "dataset": dataset, "factor": factor, "level": level}
    return {"measurement": measurement, **place, "quantity": quantity, **asdict(measure)}


def average(
    values: Sequence[float], clusters: Sequence[str], label: str, how: Resampling, bounds: Bounds | None = None
) -> Measure:
    """Return the mean of one number per item with its interval; without items, the reason why there is none.

    Args:
        values: One number per item.
        clusters: The scene of each item (`items.identify_scene`): resamples draw scenes.
        label: Name of the resampled data; numbers with one label are paired.
        bounds: Smallest and largest possible value; None for a number that has none.
    """
    if not values:
        return Measure(None, 0, reason="no item has a value")
    return compute_mean(values, clusters, label, how, bounds)


def average_errors(errors: Sequence[float], clusters: Sequence[str], label: str, how: Resampling) -> Measure:
    """Return the root of the mean square of one error per item, with the roots of the ends of the interval.

    Args:
        errors: One number per item, such as its root mean square over seeds.
        clusters: As of `average`, like the arguments after it.
    """
    squares = average([error**2 for error in errors], clusters, label, how)
    value, low, high = (
        None if end is None else math.sqrt(end) for end in (squares.value, squares.ci_low, squares.ci_high)
    )
    return replace(squares, value=value, ci_low=low, ci_high=high)


def pool(
    quantity: str,
    values: Sequence[float],
    clusters: Sequence[str],
    label: str,
    how: Resampling,
    bounds: Bounds | None = None,
) -> Measure:
    """Return the root of the mean square of errors ("error", "error_corrected"), and the mean of anything else."""
    if quantity.startswith("error"):
        return average_errors(values, clusters, label, how)
    return average(values, clusters, label, how, bounds)
