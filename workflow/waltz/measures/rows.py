"""Rows of the layout of measurements: one number each, of a model, a data set and a level of what was varied."""

from collections.abc import Sequence
from dataclasses import asdict
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
        clusters: The image of each item: resamples draw images.
        label: Name of the resampled data; numbers with one label are paired.
        bounds: Smallest and largest possible value; None for a number that has none.
    """
    if not values:
        return Measure(None, 0, reason="no item has a value")
    return compute_mean(values, clusters, label, how, bounds)
