"""Summary of the attributions of a data set: mean T-SHAP, its spread, and the part of it that is sampling noise."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from waltz.attribution.t_shap import classify_skew
from waltz.core.intervals import Measure, Resampling, compute_mean

GROUP_COLUMNS = ("role", "profile", "setting")


def compute_mean_t_shap(rows: Sequence[Mapping[str, Any]], label: str, how: Resampling) -> Measure:
    """Compute mean T-SHAP of one role of a data set, with an interval that draws images.

    Args:
        rows: Attributions; those without a T-SHAP are skipped.
        label: Name of the data set, which separates its bootstrap draws from others'.
        how: Resamples, coverage, seed.
    Returns:
        Percent.
    Source:
        MM-SHAP (Parcalabescu & Frank, ACL 2023); thesis 4.3.
    """
    defined_rows = [row for row in rows if row["t_shap"] is not None]
    if not defined_rows:
        return Measure(None, 0, reason=f"none of {len(rows)} items has a T-SHAP")
    return compute_mean(
        [100.0 * row["t_shap"] for row in defined_rows], [str(row["image"]) for row in defined_rows], label, how
    )


def summarize_attributions(rows: Sequence[Mapping[str, Any]], label: str, how: Resampling) -> list[dict[str, Any]]:
    """Return a row for each role, profile and setting of a model's attributions of one data set.

    The interval covers both the variation between images and the estimator's sampling noise, since it resamples the
    estimates as they are. The sampling noise is also reported separately.

    Args:
        rows: Rows of the attribution layout.
        label: Name of the data set.
        how: Resamples, coverage, seed.
    Returns:
        Rows of role, profile, setting; items; value, n, ci_low, ci_high and reason of mean T-SHAP in percent; sd, the
        population standard deviation over items, in percentage points; standard_error, the root of the mean squared
        standard error of an item's T-SHAP, in percentage points, over standard_error_n items that have one (0 for exact
        values); noise, the share of the variance over those items that it makes up, 0 to 1; mm_skew; missing, how many
        items have no T-SHAP for which reason.
    """
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in GROUP_COLUMNS), []).append(row)
    return [
        {**dict(zip(GROUP_COLUMNS, names, strict=True)), "items": len(group), **_summarize_group(group, label, how)}
        for names, group in groups.items()
    ]


def _summarize_group(rows: Sequence[Mapping[str, Any]], label: str, how: Resampling) -> dict[str, Any]:
    measure = compute_mean_t_shap(rows, label, how)
    defined_rows = [row for row in rows if row["t_shap"] is not None]
    sampled = [row for row in defined_rows if row["t_shap_se"] is not None]
    squares = float(np.mean([row["t_shap_se"] ** 2 for row in sampled])) if sampled else None
    variance = float(np.var([row["t_shap"] for row in sampled])) if sampled else 0.0
    missing = Counter(
        row.get("error") or row.get("reason") or "no reason stated" for row in rows if row["t_shap"] is None
    )
    return {
        **vars(measure),
        "sd": 100 * float(np.std([row["t_shap"] for row in defined_rows])) if defined_rows else None,
        "standard_error": None if squares is None else 100 * squares**0.5,
        "standard_error_n": len(sampled),
        "noise": squares / variance if squares is not None and variance else None,
        "mm_skew": None if measure.value is None else classify_skew(measure.value / 100),
        "missing": [{"reason": reason, "count": count} for reason, count in sorted(missing.items())],
    }
