"""Metrics over scored pairs, each defined once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from waltz.core.measure import Measure, bootstrap, interval


@dataclass(frozen=True)
class Resampling:
    """How intervals are made.

    Attributes:
        resamples: Bootstrap resamples.
        confidence: Coverage, a share.
        seed: Seed of the draws.
    """

    resamples: int
    confidence: float
    seed: int


@dataclass(frozen=True)
class Sampled:
    """A measure with the bootstrap draws behind its interval, for averages over data sets.

    Attributes:
        measure: The number.
        draws: float64 of shape (resamples,), in the measure's unit; empty where it has no value.
    """

    measure: Measure
    draws: np.ndarray


def acc_r(rows: Sequence[Mapping[str, object]], label: str, how: Resampling) -> Sampled:
    """Pairwise ranking accuracy: the share of items whose caption scores strictly above its foil.

    A tie is wrong. Items without a score (`correct` is null) are left out, and counted in the reason
    where none is left.

    Args:
        rows: Rows of the evaluation layout, one an item (role `caption`).
        label: Name of the data set, which separates its bootstrap draws from others'.
        how: Resamples, coverage, seed.
    Returns:
        Percent of the scored items.
    Source:
        acc_r of VALSE (Parcalabescu et al., ACL 2022, section 4.2) and of thesis 3.4.
    """
    scored = [row for row in rows if row["correct"] is not None]
    if not scored:
        return Sampled(Measure(None, 0, reason=f"none of {len(rows)} items could be scored"), np.empty(0))
    hits = [100.0 * bool(row["correct"]) for row in scored]
    images = [str(row["image"]) for row in scored]
    draws = bootstrap(hits, images, resamples=how.resamples, seed=how.seed, label=label)
    low, high = interval(draws, how.confidence)
    return Sampled(Measure(float(np.mean(hits)), len(hits), low, high), draws)


def average(parts: Sequence[Sampled], how: Resampling) -> Sampled:
    """Mean over data sets, each weighing the same; data sets are resampled independently.

    Returns:
        The mean; without a value where one part has none.
    """
    n = sum(part.measure.n for part in parts)
    values = [part.measure.value for part in parts if part.measure.value is not None]
    if not parts or len(values) < len(parts):
        reason = f"{len(parts) - len(values)} of {len(parts)} data sets have no value"
        return Sampled(Measure(None, n, reason=reason), np.empty(0))
    draws = np.mean([part.draws for part in parts], axis=0)
    low, high = interval(draws, how.confidence)
    return Sampled(Measure(float(np.mean(values)), n, low, high), draws)
