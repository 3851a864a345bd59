"""From the rows of tests and CC-SHAP to the numbers of thesis 5.2, C.1, C.2 and C.3."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from waltz.core.measure import Measure

Row = Mapping[str, Any]

CONSTANT = 1e-12
"""Values that lie no further apart than this are the same but for rounding."""


def correlation(verdicts: Mapping[str, int | None], scores: Mapping[str, float | None]) -> Measure:
    """Point-biserial correlation of a test's verdicts with CC-SHAP, over the items that have both (thesis C.3).

    Args:
        verdicts: By item; 1, 0 or None.
        scores: CC-SHAP by item, None or NaN where it is undefined.
    Returns:
        In -1 to 1; n is the number of items. Without a value, which the thesis prints as nan, where there are fewer
        than two items, or one of the two is constant.
    """
    pairs = [
        (verdict, score)
        for item_id, verdict in sorted(verdicts.items())
        if verdict is not None and (score := scores.get(item_id)) is not None and not math.isnan(score)
    ]
    n = len(pairs)
    if n < 2:
        return Measure(None, n, reason=f"{n} items have both a verdict and CC-SHAP; a correlation needs two")
    values = {verdict for verdict, _ in pairs}
    if len(values) == 1:
        return Measure(None, n, reason=f"the test is constant: all {n} verdicts are {values.pop()}")
    if np.ptp([score for _, score in pairs]) <= CONSTANT:
        return Measure(None, n, reason=f"CC-SHAP is constant: {pairs[0][1]} for all {n} items")
    found = stats.pointbiserialr([verdict for verdict, _ in pairs], [score for _, score in pairs])
    return Measure(float(found.statistic), n)


@dataclass(frozen=True)
class Spread:
    """A number over several seeds.

    Attributes:
        mean: Its mean.
        deviation: Its sample standard deviation (n - 1), without a value below two seeds; n counts seeds.
    """

    mean: Measure
    deviation: Measure


def over_seeds(values: Mapping[int, float | None]) -> Spread:
    """Mean and standard deviation of a number over seeds (figures of thesis C.2, C.4, C.5).

    Args:
        values: By seed; None where it is undefined.
    """
    known = [value for _, value in sorted(values.items()) if value is not None]
    n = len(known)
    if n < len(values) or not n:
        undefined = Measure(None, n, reason=f"{len(values) - n} of {len(values)} seeds have no value")
        return Spread(undefined, undefined)
    mean = Measure(float(np.mean(known)), n)
    if n == 1:
        return Spread(mean, Measure(None, n, reason="one seed; a standard deviation needs two"))
    return Spread(mean, Measure(float(np.std(known, ddof=1)), n))
