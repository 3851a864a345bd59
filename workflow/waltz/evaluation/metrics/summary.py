"""Metrics of all models on all data sets with their intervals, averages, and paired comparisons."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from waltz.core.intervals import Resampling
from waltz.core.measure import Measure
from waltz.evaluation.metrics import cv_probes
from waltz.evaluation.metrics.comparisons import COMPARED_METRICS, compare_models
from waltz.evaluation.metrics.pair_metrics import (
    METRICS,
    ScoredPairs,
    average_measures,
    compute_accuracy,
    compute_choice_metrics,
    compute_pair_metrics,
    pair_choices,
    pair_scores,
)
from waltz.evaluation.metrics.vqa_accuracy import compute_vqa_accuracy
from waltz.evaluation.settings import (
    AFTER_COT,
    ALIGNMENT,
    CHOICE,
    PAIRWISE,
    PERPLEXITY,
    SINGLE,
)
from waltz.evaluation.vqa import ANSWERING

Row = Mapping[str, Any]
Runs = Mapping[tuple[str, str], Sequence[Row]]
"""Rows of the evaluation layout for each model and data set, in order."""

AVERAGE = "average"
"""Name of the data set of averages over data sets."""
COMPARED_SETTINGS = {
    SINGLE: (ALIGNMENT, PERPLEXITY, SINGLE),
    SINGLE + AFTER_COT: (SINGLE + AFTER_COT,),
    PAIRWISE: (PAIRWISE,),
    PAIRWISE + AFTER_COT: (PAIRWISE + AFTER_COT,),
}
"""Settings of the rows that are compared with each other, for each setting of a comparison."""


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
        runs: Scored rows; the data set `cv-probes` and the data sets of `questions` have other
            metrics than pairs.
        averaged: Data sets over which the row `average` is taken; empty for no such row.
        probes: Items of CV-Probes, of the layout `CONDITIONS`.
        questions: Rows of `vqa.select_questions` by data set.
    Returns:
        Rows of profile, model, dataset, setting (as in the scored rows, or the form of CV-Probes),
        metric and the fields of a measure.
    """
    metric_rows: list[dict[str, Any]] = []
    for profile in profiles:
        # Metrics of pairs by model and setting, then by data set; the row `average` is their mean.
        pair_measures: dict[tuple[str, str], dict[str, dict[str, Measure]]] = {}
        for (model, dataset), rows in _select_of_profile(runs, profile).items():
            names = {"profile": profile, "model": model}
            if dataset == cv_probes.CV_PROBES:
                for row in cv_probes.compute_probe_metrics(
                    probes, rows, profile, resampling
                ):
                    metric_rows.append({**names, **row})
                continue
            # A data set of questions has the accuracy of its answers instead of metrics of pairs.
            dataset_questions = (questions or {}).get(dataset)
            for setting, setting_rows in _group_by_setting(rows).items():
                measures = _compute_metrics(
                    setting,
                    setting_rows,
                    profile,
                    dataset,
                    resampling,
                    dataset_questions,
                )
                # Only metrics of pairs are averaged; accuracies of questions have units of their
                # own.
                if set(measures) <= set(METRICS):
                    pair_measures.setdefault((model, setting), {})[dataset] = measures
                metric_rows += _build_cells(
                    {**names, "dataset": dataset, "setting": setting}, measures
                )
        if averaged:
            metric_rows += _build_average_rows(profile, pair_measures, averaged)
    return metric_rows


def _build_cells(
    names: Mapping[str, str], measures: Mapping[str, Measure]
) -> list[dict[str, Any]]:
    """Return one row for each metric."""
    return [
        {**names, "metric": metric, **asdict(measure)}
        for metric, measure in measures.items()
    ]


def _build_average_rows(
    profile: str,
    pair_measures: Mapping[tuple[str, str], Mapping[str, Mapping[str, Measure]]],
    averaged: Sequence[str],
) -> list[dict[str, Any]]:
    """Return rows with the mean of each metric over data sets, for each model and setting."""
    metric_rows: list[dict[str, Any]] = []
    for (model, setting), measures_by_dataset in pair_measures.items():
        names = {
            "profile": profile,
            "model": model,
            "dataset": AVERAGE,
            "setting": setting,
        }
        # All data sets of one setting have the same metrics.
        metrics = next(iter(measures_by_dataset.values()))
        means = {}
        for metric in metrics:
            parts = [
                measures_by_dataset[name][metric]
                for name in averaged
                if name in measures_by_dataset
            ]
            means[metric] = _average(parts, len(averaged))
        metric_rows += _build_cells(names, means)
    return metric_rows


def build_comparison_rows(
    runs: Runs,
    profiles: Sequence[str],
    resampling: Resampling,
    parts: Mapping[tuple[str, str], str] | None = None,
) -> list[dict[str, Any]]:
    """Return paired comparisons of all models on all data sets of captions and foils.

    Answers of decoders about single texts are compared with the predictions of encoders. Choices of
    decoders between two texts are compared with the choices of other decoders.

    Args:
        runs: Scored rows; data sets without pairs (CV-Probes, questions) and other settings are
            skipped.
        parts: Part of each run; models of the same part are not compared. None compares all models.
    Returns:
        Rows of profile, setting (a key of `COMPARED_SETTINGS`) and the columns of `compare_models`.
    """
    comparisons = []
    for profile, setting, scored in _select_compared(runs, profiles):
        # A choice gives no score to either text, so that only acc_r is defined.
        metrics = ("acc_r",) if setting.startswith(PAIRWISE) else COMPARED_METRICS
        for row in compare_models(scored, resampling, metrics, parts):
            comparisons.append({"profile": profile, "setting": setting, **row})
    return comparisons


def _select_compared(
    runs: Runs, profiles: Sequence[str]
) -> Iterator[tuple[str, str, dict[tuple[str, str], ScoredPairs]]]:
    """Yield each profile and setting of `COMPARED_SETTINGS` with its scored items by model and data
    set.
    """
    for profile in profiles:
        profile_runs = _select_of_profile(runs, profile)
        for setting in COMPARED_SETTINGS:
            # A choice between two texts has one row for each item, scores of single texts have two.
            pair_items = pair_choices if setting.startswith(PAIRWISE) else pair_scores
            scored = {}
            for run, rows in _select_runs_of_setting(profile_runs, setting).items():
                scored[run] = pair_items(rows, profile)
            yield profile, setting, scored


def _select_runs_of_setting(
    runs: Runs, setting: str
) -> dict[tuple[str, str], Sequence[Row]]:
    """Return the rows of each run that a setting of `COMPARED_SETTINGS` compares; runs without such
    rows are absent.

    A run that has no rows at all stays in the setting `single`, so that its comparisons report that
    nothing could be scored.
    """
    selected: dict[tuple[str, str], Sequence[Row]] = {}
    for (model, dataset), rows in runs.items():
        if dataset == cv_probes.CV_PROBES:
            continue
        compared_rows = [
            row for row in rows if row["setting"] in COMPARED_SETTINGS[setting]
        ]
        is_empty_run = not rows and setting == SINGLE
        if compared_rows or is_empty_run:
            selected[model, dataset] = compared_rows
    return selected


def _select_of_profile(
    runs: Runs, profile: str
) -> dict[tuple[str, str], Sequence[Row]]:
    """Return the runs that have rows of a profile, or no rows at all; a data set may exclude some
    profiles.
    """
    selected: dict[tuple[str, str], Sequence[Row]] = {}
    for run, rows in runs.items():
        if not rows or any(row["profile"] == profile for row in rows):
            selected[run] = rows
    return selected


def _average(parts: Sequence[Measure], expected: int) -> Measure:
    if len(parts) < expected:
        return Measure(
            None,
            0,
            reason=f"not averaged: {expected - len(parts)} of {expected} data sets were not run",
        )
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
    """Compute the metrics of the rows of one setting; the setting decides which metrics are
    defined.
    """
    if questions is not None:
        return {
            "accuracy": compute_vqa_accuracy(
                questions, rows, profile, dataset, resampling
            )
        }
    kind = setting.removesuffix(AFTER_COT)
    profile_rows = [row for row in rows if row["profile"] == profile]
    # Without pairs of caption and foil, the only metric is the share of right answers.
    if kind in (CHOICE, ANSWERING):
        return {"accuracy": compute_accuracy(profile_rows, dataset, resampling)}
    if kind == PAIRWISE:
        return compute_choice_metrics(profile_rows, dataset, resampling)
    return compute_pair_metrics(pair_scores(rows, profile), dataset, resampling)
