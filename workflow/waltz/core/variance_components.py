"""Variance components of crossed and nested random-effects designs, and the generalizability
coefficients that follow from them.

An effect is the set of its facets: {item} is the main effect of items, {item, seed} their
interaction. Each cell of a design has one number, so that the interaction of all facets holds the
residual, too.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from waltz.core.intervals import (
    EQUALITY_TOLERANCE,
    NON_NEGATIVE,
    Bounds,
    Resamples,
    Resampling,
    build_measure,
)
from waltz.core.measure import Measure

TARGET = 0.8
"""Coefficient that numbers of seeds and items are stated for."""
Effect = frozenset[str]
Components = Mapping[Effect, float]
"""Variance of each effect."""


def estimate_components(
    values: np.ndarray,
    facets: Sequence[str],
    nested: Mapping[str, str] = MappingProxyType({}),
) -> dict[Effect, float]:
    """Estimate the variance of each effect of a balanced design by its expected mean squares.

    Args:
        values: float64 with one axis a facet, each of at least two levels, and one number a cell.
        facets: Names of the axes, in order.
        nested: For each facet whose levels belong to one level of another facet, that other facet.
    Returns:
        Variances in the unit of `values` squared. An estimate is negative where chance makes a mean
        square smaller than those of its interactions.
    Raises:
        ValueError: An axis has one level.
    Source:
        Brennan (Generalizability Theory, 2001), chapters 3 and 7.
    """
    if min(values.shape) < 2:
        raise ValueError(f"expected two levels a facet, got shape {values.shape}")
    sizes = dict(zip(facets, values.shape, strict=True))
    squares = _compute_mean_squares(values, sizes, nested)
    # E[MS of S] = sum of c_T var_T over the effects T that contain S, where c_T is the number of
    # cells that share one level of T. Larger effects are solved first.
    components: dict[Effect, float] = {}
    for effect in sorted(squares, key=len, reverse=True):
        remainder = squares[effect]
        for larger, variance in components.items():
            if effect < larger:
                remainder -= _count_cells(larger, sizes) * variance
        components[effect] = remainder / _count_cells(effect, sizes)
    return components


def _compute_mean_squares(
    values: np.ndarray, sizes: Mapping[str, int], nested: Mapping[str, str]
) -> dict[Effect, float]:
    """Return the mean square of each effect; those of a nested facet are pooled over its crossed
    effects.
    """
    # Orthogonal parts of the values by effect: along each axis either the mean or the deviations.
    parts: dict[Effect, np.ndarray] = {frozenset(): values.astype(np.float64)}
    for axis, facet in enumerate(sizes):
        split: dict[Effect, np.ndarray] = {}
        for effect, part in parts.items():
            mean = part.mean(axis=axis, keepdims=True)
            split[effect] = mean
            split[effect | {facet}] = part - mean
        parts = split

    del parts[frozenset()]  # the mean over all cells
    sums: Counter[Effect] = Counter()
    degrees_of_freedom: Counter[Effect] = Counter()
    for effect, part in parts.items():
        pooled = effect
        degrees = 1
        for facet in effect:
            degrees *= sizes[facet] - 1
            # An effect of a nested facet varies with the facet that its levels belong to.
            if facet in nested:
                pooled |= {nested[facet]}
        sums[pooled] += (values.size // part.size) * (part**2).sum()
        degrees_of_freedom[pooled] += degrees
    mean_squares = {}
    for effect, total in sums.items():
        mean_squares[effect] = float(total / degrees_of_freedom[effect])
    return mean_squares


def _count_cells(effect: Effect, sizes: Mapping[str, int]) -> int:
    """Return the number of cells that share one level of an effect."""
    cells = 1
    for facet, size in sizes.items():
        if facet not in effect:
            cells *= size
    return cells


def resample_components(
    values: np.ndarray,
    facets: Sequence[str],
    draws: Resamples,
    nested: Mapping[str, str] = MappingProxyType({}),
    axis: int = 0,
) -> list[Components]:
    """Return the components of values, then those of each resample of one axis.

    Args:
        draws: Resamples of the levels of the axis; a level that is drawn twice is there twice.
        axis: Number of the axis that is drawn.
    """
    components: list[Components] = [estimate_components(values, facets, nested)]
    for counts in draws.iterate_item_counts():
        for row in counts.astype(np.int64):
            resampled = np.repeat(values, row, axis=axis)
            components.append(estimate_components(resampled, facets, nested))
    return components


def build_component_measure(
    numbers: Sequence[float],
    n_items: int,
    clusters: int,
    resampling: Resampling,
    bounds: Bounds,
) -> Measure:
    """Return the first number with its interval from the others, which are those of resamples.

    Args:
        numbers: A variance or a coefficient, of the values and of each resample.
        n_items: Number of items that it was measured on.
        clusters: Number of clusters that were drawn from.
        resampling: Coverage of the interval.
        bounds: Smallest and largest possible number, within which the interval stays.
    """
    value, draws = numbers[0], np.array(numbers[1:])
    if math.isnan(value):
        return Measure(None, n_items, reason="nothing varies")
    finite = draws[np.isfinite(draws)]
    if np.ptp(finite) <= EQUALITY_TOLERANCE:
        return Measure(value, n_items)  # a truncated variance, whose error is not known
    # A variance near 0 has no use for the logarithm, whose interval would be without end.
    scale: Bounds | None = bounds
    if bounds == NON_NEGATIVE:
        scale = None
    measure = build_measure(value, n_items, draws, resampling, clusters, scale)
    # A number on its own scale has an interval that may pass the bound.
    if measure.ci_low is None or measure.ci_high is None:
        return measure
    return replace(
        measure,
        ci_low=max(bounds[0], float(measure.ci_low)),
        ci_high=min(bounds[1], float(measure.ci_high)),
    )


def truncate_components(components: Components) -> dict[Effect, float]:
    """Return variances with 0 instead of negative estimates."""
    truncated = {}
    for effect, variance in components.items():
        truncated[effect] = max(0.0, variance)
    return truncated


def compute_coefficient(
    components: Components,
    measured: str,
    fixed: frozenset[str] = frozenset(),
    counts: Mapping[str, float] = MappingProxyType({}),
    *,
    absolute: bool = False,
) -> float:
    """Return the generalizability coefficient of the means of one facet's levels: the share of their
    variance that another draw of the other facets would show again.

    Args:
        components: Variances of at least 0.
        measured: The facet whose levels are measured, such as items.
        fixed: Facets of which one level is kept; their interactions with `measured` are no error.
        counts: Number of levels of each facet that a mean is taken over; 1 for facets without one.
        absolute: Whether effects that shift all levels of `measured` alike are errors (Φ), or only
            those that change their order and distances (relative, Eρ²).
    Returns:
        The coefficient, 0 to 1; NaN if nothing varies.
    Source:
        Cronbach, Gleser, Nanda & Rajaratnam (The Dependability of Behavioral Measurements, 1972).
    """
    true, error = _split_variance(components, measured, fixed, counts, absolute)
    if true + error == 0:
        return math.nan
    return true / (true + error)


def count_levels_needed(
    components: Components,
    measured: str,
    facet: str,
    target: float,
    fixed: frozenset[str] = frozenset(),
) -> int | None:
    """Return the smallest number of levels of a facet whose mean has a relative coefficient of at
    least `target`; None if no number suffices.

    Args:
        components: Variances of at least 0.
        measured: The facet whose levels are measured.
        facet: The facet whose levels are averaged; of all others there is one level.
        target: The coefficient, a share below 1.
        fixed: As for `compute_coefficient`.
    """
    # The error of n levels is (that of infinitely many) + (what averaging takes away) / n.
    true, lasting = _split_variance(components, measured, fixed, {facet: math.inf})
    _, single = _split_variance(components, measured, fixed, {})
    allowed = true * (1 - target) / target - lasting
    if allowed <= 0:
        return None
    return max(1, math.ceil((single - lasting) / allowed * (1 - 1e-12)))


def _split_variance(
    components: Components,
    measured: str,
    fixed: frozenset[str],
    counts: Mapping[str, float],
    absolute: bool = False,
) -> tuple[float, float]:
    """Return the variance that another draw would show again, and the variance of errors."""
    true = error = 0.0
    for effect, variance in components.items():
        random_facets = effect - fixed - {measured}
        if not random_facets:
            # Effects of fixed facets alone are constants.
            if measured in effect:
                true += variance
        elif absolute or measured in effect:
            for facet in random_facets:
                variance /= counts.get(facet, 1)
            error += variance
    return true, error
