"""Metrics of all models on all data sets with their intervals, averages, and paired comparisons."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from waltz.core.intervals import Measure, Resampling
from waltz.evaluation.metrics import cv_probes
from waltz.evaluation.metrics.comparisons import COMPARED_METRICS, compare_models
from waltz.evaluation.metrics.pair_metrics import (
    METRICS,
    ScoredPairs,
    average_measures,
    compute_accuracy,
    compute_pair_metrics,
    pair_choices,
    pair_scores,
)
from waltz.evaluation.metrics.power import measure_detectable
from waltz.evaluation.metrics.vqa_accuracy import compute_vqa_accuracy
from waltz.evaluation.settings import AFTER_COT, ALIGNMENT, CHOICE, PAIRWISE, PERPLEXITY, SINGLE
from waltz.evaluation.vqa import ANSWERING

Row = Mapping[str, Any]
Runs = Mapping[tuple[str, str], Sequence[Row]]
"""Rows of the evaluation layout by model and data set, in order."""

AVERAGE = "average"
COMPARED_SETTINGS = {
    SINGLE: (ALIGNMENT, PERPLEXITY, SINGLE),
    SINGLE + AFTER_COT: (SINGLE + AFTER_COT,),
    PAIRWISE: (PAIRWISE,),
    PAIRWISE + AFTER_COT: (PAIRWISE + AFTER_COT,),
}
"""Settings of rows that are compared with each other, by the setting of the comparison."""


def build_metric_rows(
    runs: Runs,
    profiles: Sequence[str],
    resampling: Resampling,
    *,
    averaged: Sequence[str] = (),
    probes: Sequence[Row] = (),
    questions: Mapping[str, Sequence[Row]] | None = None,
) -> list[dict[str, Any]]:
    """Return all metrics of all models on all data sets.

    Args:
        runs: Scored rows; the data set `cv-probes` and those of `questions` have metrics of their own.
        averaged: Data sets of the row `average`; empty for no such row.
        probes: Items of CV-Probes, of the layout `CONDITIONS`.
        questions: Rows of `vqa.select_questions` by data set.
    Returns:
        Rows of profile, model, dataset, setting (those of the rows, or the form of CV-Probes), metric and the fields
        of a measure.
    """
    metric_rows = []
    for profile in profiles:
        parts: dict[tuple[str, str], dict[str, dict[str, Measure]]] = {}
        for (model, dataset), rows in _select_of_profile(runs, profile).items():
            names = {"profile": profile, "model": model}
            if dataset == cv_probes.CV_PROBES:
                metric_rows += [
                    {**names, **row} for row in cv_probes.compute_probe_metrics(probes, rows, profile, resampling)
                ]
                continue
            for setting, setting_rows in _group_by_setting(rows).items():
                measures = _compute_metrics(
                    setting, setting_rows, profile, dataset, resampling, (questions or {}).get(dataset)
                )
                if set(measures) <= set(METRICS):
                    parts.setdefault((model, setting), {})[dataset] = measures
                cell = {**names, "dataset": dataset, "setting": setting}
                metric_rows += [{**cell, "metric": metric, **vars(measure)} for metric, measure in measures.items()]
        for (model, setting), by_dataset in parts.items() if averaged else ():
            names = {"profile": profile, "model": model, "dataset": AVERAGE, "setting": setting}
            for metric in next(iter(by_dataset.values())):
                mean = _average([by_dataset[name][metric] for name in averaged if name in by_dataset], len(averaged))
                metric_rows.append({**names, "metric": metric, **vars(mean)})
    return metric_rows


def build_comparison_rows(runs: Runs, profiles: Sequence[str], resampling: Resampling) -> list[dict[str, Any]]:
    """Return paired comparisons of all models on all data sets of captions and foils.

    Decoders' answers about single texts are compared with encoders' predictions, choices between two texts with those
    of other decoders.

    Args:
        runs: Scored rows; data sets without pairs (CV-Probes, questions) and other settings are skipped.
    Returns:
        Rows of profile, setting (a key of `COMPARED_SETTINGS`) and the columns of `compare_models`.
    """
    comparisons = []
    for profile, setting, scored in _select_compared(runs, profiles):
        metrics = ("acc_r",) if setting.startswith(PAIRWISE) else COMPARED_METRICS
        comparisons += [
            {"profile": profile, "setting": setting, **row} for row in compare_models(scored, resampling, metrics)
        ]
    return comparisons


def build_detectable_rows(runs: Runs, profiles: Sequence[str], confidence: float) -> list[dict[str, Any]]:
    """Return the smallest differences that paired tests show, of all models on all data sets of captions and foils.

    Args:
        runs: As of `build_comparison_rows`.
        confidence: One minus the level of the tests.
    Returns:
        Rows of profile, setting (a key of `COMPARED_SETTINGS`) and the columns of `measure_detectable`.
    """
    return [
        {"profile": profile, "setting": setting, **row}
        for profile, setting, scored in _select_compared(runs, profiles)
        for row in measure_detectable(scored, 1 - confidence)
    ]


def _select_compared(
    runs: Runs, profiles: Sequence[str]
) -> Iterator[tuple[str, str, dict[tuple[str, str], ScoredPairs]]]:
    """Yield each profile and setting of `COMPARED_SETTINGS` with its scored items by model and data set."""
    for profile in profiles:
        for setting, compared_settings in COMPARED_SETTINGS.items():
            rows_by_run: dict[tuple[str, str], Sequence[Row]] = {}
            for key, rows in _select_of_profile(runs, profile).items():
                compared_rows = [row for row in rows if row["setting"] in compared_settings]
                if key[1] != cv_probes.CV_PROBES and (compared_rows or (not rows and setting == SINGLE)):
                    rows_by_run[key] = compared_rows
            pair_items = pair_choices if setting.startswith(PAIRWISE) else pair_scores
            yield profile, setting, {key: pair_items(rows, profile) for key, rows in rows_by_run.items()}


def _select_of_profile(runs: Runs, profile: str) -> dict[tuple[str, str], Sequence[Row]]:
    """Return the runs without those whose rows are all of other profiles, because their data set has others."""
    return {run: rows for run, rows in runs.items() if not rows or any(row["profile"] == profile for row in rows)}


def _average(parts: Sequence[Measure], expected: int) -> Measure:
    if len(parts) < expected:
        return Measure(None, 0, reason=f"not averaged: {expected - len(parts)} of {expected} data sets were not run")
    return average_measures(parts)


def _group_by_setting(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Group rows by setting, in order; without rows return one empty group without a name."""
    groups: dict[str, list[Row]] = {} if rows else {"": []}
    for row in rows:
        groups.setdefault(str(row["setting"]), []).append(row)
    return groups


def _compute_metrics(
    setting: str,
    rows: Sequence[Row],
    profile: str,
    dataset: str,
    resampling: Resampling,
    questions: Sequence[Row] | None,
) -> dict[str, Measure]:
    """Compute the metrics of the rows of one setting."""
    kind = setting.removesuffix(AFTER_COT)
    if questions is not None:
        return {"accuracy": compute_vqa_accuracy(questions, rows, profile, dataset, resampling)}
    profile_rows = [row for row in rows if row["profile"] == profile]
    if kind in (CHOICE, ANSWERING):
        return {"accuracy": compute_accuracy(profile_rows, dataset, resampling)}
    if kind == PAIRWISE:
        return {"acc_r": compute_accuracy(profile_rows, dataset, resampling)}
    return compute_pair_metrics(pair_scores(rows, profile), dataset, resampling)
