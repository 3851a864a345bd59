"""All metrics of all models on all data sets, and their paired comparisons."""

from collections.abc import Mapping, Sequence
from typing import Any

from waltz.evaluation.comparisons import comparisons
from waltz.evaluation.cv_probes import probe_measures
from waltz.evaluation.metrics import Resampling, measures
from waltz.evaluation.pairs import Pairs, pairs

Row = Mapping[str, Any]


def summarised(
    scores: Mapping[tuple[str, str], Sequence[Row]],
    probes: Mapping[str, Sequence[Row]],
    profiles: Sequence[str],
    how: Resampling,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Metrics and comparisons.

    Args:
        scores: Rows of the evaluation layout by model and data set.
        probes: The rows of CV-Probes by the names of data sets that are such.
        profiles: Which of `equations`, `published`.
        how: How intervals are made.
    Returns:
        Rows of the layouts `METRICS` and `COMPARISONS`.
    """
    found: list[dict[str, Any]] = []
    compared: list[dict[str, Any]] = []
    for profile in profiles:
        paired: dict[tuple[str, str], Pairs] = {}
        for (model, dataset), rows in scores.items():
            of = {"model": model, "profile": profile}
            if dataset in probes:
                found += [{**of, **row} for row in probe_measures(probes[dataset], rows, profile, how)]
                continue
            paired[model, dataset] = pairs(rows, profile)
            setting = next(iter(rows))["setting"]
            found += [
                {**of, "dataset": dataset, "setting": setting, "metric": metric, **vars(sampled.measure)}
                for metric, sampled in measures(paired[model, dataset], dataset, how).items()
            ]
        compared += [{"profile": profile, **row} for row in comparisons(paired, how)]
    return found, compared
