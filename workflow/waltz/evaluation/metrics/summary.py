"""All models on all data sets: every metric with its interval, averages, and paired comparisons."""

from collections.abc import Mapping, Sequence
from typing import Any

from waltz.core.intervals import Measure, Resampling
from waltz.evaluation.metrics import cv_probes
from waltz.evaluation.metrics.comparisons import comparisons
from waltz.evaluation.metrics.pair_metrics import METRICS, acc_r, average, measures, share_correct
from waltz.evaluation.metrics.scored_pairs import (
    AFTER_COT,
    ALIGNMENT,
    CHOICE,
    PAIRWISE,
    PERPLEXITY,
    SINGLE,
    pairs,
    preferred,
)
from waltz.evaluation.metrics.vqa_accuracy import accuracy

Row = Mapping[str, Any]
Runs = Mapping[tuple[str, str], Sequence[Row]]
"""Rows of the evaluation layout by model and data set, in order."""

AVERAGE = "average"
COMPARED = {
    SINGLE: (ALIGNMENT, PERPLEXITY, SINGLE),
    SINGLE + AFTER_COT: (SINGLE + AFTER_COT,),
    PAIRWISE: (PAIRWISE,),
    PAIRWISE + AFTER_COT: (PAIRWISE + AFTER_COT,),
}
"""Settings of rows that are compared with each other, by the setting of the comparison."""


def metric_rows(
    runs: Runs,
    profiles: Sequence[str],
    how: Resampling,
    *,
    averaged: Sequence[str] = (),
    probes: Sequence[Row] = (),
    asked: Mapping[str, Sequence[Row]] | None = None,
) -> list[dict[str, Any]]:
    """Every metric of every model on every data set.

    Args:
        runs: What was scored; the data set `cv-probes` and those of `asked` have metrics of their own.
        profiles: Which of `equations`, `published`.
        how: How intervals are made.
        averaged: Data sets that make up the row `average`; none gives no such row.
        probes: Items of CV-Probes, of the layout `CONDITIONS`.
        asked: Questions of data sets that were answered, as `answers.questions` gives them.
    Returns:
        Rows of profile, model, dataset, setting (those of the rows, or the form of CV-Probes), metric and the fields
        of a measure.
    """
    found = []
    for profile in profiles:
        parts: dict[tuple[str, str], dict[str, dict[str, Measure]]] = {}
        for (model, dataset), rows in runs.items():
            names = {"profile": profile, "model": model}
            if dataset == cv_probes.NAME:
                found += [{**names, **row} for row in cv_probes.probe_measures(probes, rows, profile, how)]
                continue
            for setting, of_setting in _by_setting(rows).items():
                known = _known(setting, of_setting, profile, dataset, how, (asked or {}).get(dataset))
                if set(known) <= set(METRICS):
                    parts.setdefault((model, setting), {})[dataset] = known
                here = {**names, "dataset": dataset, "setting": setting}
                found += [{**here, "metric": metric, **vars(measure)} for metric, measure in known.items()]
        for (model, setting), by_dataset in parts.items() if averaged else ():
            names = {"profile": profile, "model": model, "dataset": AVERAGE, "setting": setting}
            for metric in next(iter(by_dataset.values())):
                mean = _mean([by_dataset[name][metric] for name in averaged if name in by_dataset], len(averaged))
                found.append({**names, "metric": metric, **vars(mean)})
    return found


def comparison_rows(runs: Runs, profiles: Sequence[str], how: Resampling) -> list[dict[str, Any]]:
    """Paired comparisons of all models on all data sets of captions and foils.

    What a decoder says of single texts is compared with an encoder's judgements, which of two texts it chooses with the
    choices of other decoders.

    Args:
        runs: What was scored; data sets without pairs (CV-Probes, questions) and other settings are left out.
        profiles: Which of `equations`, `published`.
        how: How intervals are made.
    Returns:
        Rows of profile, setting (a key of `COMPARED`) and the fields of `comparisons.Comparison`.
    """
    found = []
    for profile in profiles:
        for setting, compared in COMPARED.items():
            paired: dict[tuple[str, str], Sequence[Row]] = {}
            for key, rows in runs.items():
                judged = [row for row in rows if row["setting"] in compared]
                if key[1] != cv_probes.NAME and (judged or (not rows and setting == SINGLE)):
                    paired[key] = judged
            chooses = setting.startswith(PAIRWISE)
            scored = {key: (preferred if chooses else pairs)(rows, profile) for key, rows in paired.items()}
            told = comparisons(scored, how, ("acc_r",) if chooses else METRICS)
            found += [{"profile": profile, "setting": setting, **row} for row in told]
    return found


def _mean(parts: Sequence[Measure], wanted: int) -> Measure:
    if len(parts) < wanted:
        return Measure(None, 0, reason=f"not averaged: {wanted - len(parts)} of {wanted} data sets were not run")
    return average(parts)


def _by_setting(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by setting, in order; without rows one without a name."""
    found: dict[str, list[Row]] = {} if rows else {"": []}
    for row in rows:
        found.setdefault(str(row["setting"]), []).append(row)
    return found


def _known(
    setting: str, rows: Sequence[Row], profile: str, dataset: str, how: Resampling, asked: Sequence[Row] | None
) -> dict[str, Measure]:
    """The metrics of the rows of one setting."""
    kind = setting.removesuffix(AFTER_COT)
    if asked is not None:
        return {"accuracy": accuracy(asked, rows, profile, dataset, how)}
    mine = [row for row in rows if row["profile"] == profile]
    if kind == CHOICE:
        return {"accuracy": share_correct(mine, dataset, how)}
    if kind == PAIRWISE:
        return {"acc_r": acc_r(mine, dataset, how)}
    return measures(pairs(rows, profile), dataset, how)
