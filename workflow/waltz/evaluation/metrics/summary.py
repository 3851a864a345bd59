"""Metrics of all models on all data sets with their intervals, averages, and paired comparisons."""

from collections.abc import Iterator, Mapping, Sequence

from waltz.core.files.group_files import Run
from waltz.core.intervals import Resampling
from waltz.core.measure import Measure
from waltz.core.schema import (
    ComparisonRecord,
    EvaluationRecord,
    MetricRecord,
    ProbeRecord,
)
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
from waltz.evaluation.vqa import ANSWERING, VqaItem

Runs = Mapping[Run, Sequence[EvaluationRecord]]
"""Records of each model and data set, in order."""
Measures = Mapping[str, Measure]
"""Measure of each metric."""

AVERAGE = "average"
"""Name of the data set of averages over data sets."""
COMPARED_SETTINGS = {
    SINGLE: (ALIGNMENT, PERPLEXITY, SINGLE),
    SINGLE + AFTER_COT: (SINGLE + AFTER_COT,),
    PAIRWISE: (PAIRWISE,),
    PAIRWISE + AFTER_COT: (PAIRWISE + AFTER_COT,),
}
"""Settings of the records that are compared with each other, for each setting of a comparison."""


def build_metric_records(
    runs: Runs,
    profiles: Sequence[str],
    resampling: Resampling,
    *,
    averaged: Sequence[str] = (),
    probes: Sequence[ProbeRecord] = (),
    questions: Mapping[str, Sequence[VqaItem]] | None = None,
) -> list[MetricRecord]:
    """Return all metrics of all models on all data sets.

    Args:
        runs: Records of each run; the data set `cv-probes` and the data sets of `questions` have
            other metrics than pairs.
        averaged: Data sets over which the data set `average` is taken; empty for no average.
        probes: Items of CV-Probes.
        questions: Questions of `vqa.select_questions` by data set.
    """
    metrics: list[MetricRecord] = []
    for profile in profiles:
        # Metrics of pairs by model and setting, then by data set, of which averages are taken.
        pair_measures: dict[tuple[str, str], dict[str, Measures]] = {}
        for (model, dataset), records in _select_of_profile(runs, profile).items():
            if dataset == cv_probes.CV_PROBES:
                metrics += cv_probes.compute_probe_metrics(
                    model, probes, records, profile, resampling
                )
                continue
            # A data set of questions has the accuracy of its answers instead of metrics of pairs.
            dataset_questions = (questions or {}).get(dataset)
            for setting, setting_records in _group_by_setting(records).items():
                measures = _compute_metrics(
                    setting,
                    setting_records,
                    profile,
                    dataset,
                    resampling,
                    dataset_questions,
                )
                # Only metrics of pairs are averaged; accuracies of questions have units of their
                # own.
                if set(measures) <= set(METRICS):
                    pair_measures.setdefault((model, setting), {})[dataset] = measures
                metrics += _build_metric_records(
                    profile, model, dataset, setting, measures
                )
        if averaged:
            metrics += _build_averages(profile, pair_measures, averaged)
    return metrics


def _build_metric_records(
    profile: str, model: str, dataset: str, setting: str, measures: Measures
) -> list[MetricRecord]:
    """Return one record for each metric."""
    return [
        MetricRecord(
            model=model,
            dataset=dataset,
            profile=profile,
            setting=setting,
            metric=metric,
            measure=measure,
        )
        for metric, measure in measures.items()
    ]


def _build_averages(
    profile: str,
    pair_measures: Mapping[tuple[str, str], Mapping[str, Measures]],
    averaged: Sequence[str],
) -> list[MetricRecord]:
    """Return records with the mean of each metric over data sets, for each model and setting."""
    records: list[MetricRecord] = []
    for (model, setting), measures_by_dataset in pair_measures.items():
        available = [name for name in averaged if name in measures_by_dataset]
        # All data sets of one setting have the same metrics.
        means = {}
        for metric in next(iter(measures_by_dataset.values())):
            parts = [measures_by_dataset[name][metric] for name in available]
            means[metric] = _average(parts, len(averaged))
        records += _build_metric_records(profile, model, AVERAGE, setting, means)
    return records


def build_comparison_records(
    runs: Runs,
    profiles: Sequence[str],
    resampling: Resampling,
    parts: Mapping[Run, str] | None = None,
) -> list[ComparisonRecord]:
    """Return paired comparisons of all models on all data sets of captions and foils.

    Answers of decoders about single texts are compared with the predictions of encoders. Choices of
    decoders between two texts are compared with the choices of other decoders.

    Args:
        runs: Records of each run; data sets without pairs (CV-Probes, questions) and other settings
            are skipped.
        parts: Part of each run; models of the same part are not compared. None compares all models.
    Returns:
        Comparisons whose setting is a key of `COMPARED_SETTINGS`.
    """
    comparisons: list[ComparisonRecord] = []
    for profile, setting, scored in _select_compared(runs, profiles):
        # A choice gives no score to either text, so that only acc_r is defined.
        metrics = ("acc_r",) if setting.startswith(PAIRWISE) else COMPARED_METRICS
        comparisons += compare_models(
            scored, profile, setting, resampling, metrics, parts
        )
    return comparisons


def _select_compared(
    runs: Runs, profiles: Sequence[str]
) -> Iterator[tuple[str, str, dict[Run, ScoredPairs]]]:
    """Yield each profile and setting of `COMPARED_SETTINGS` with its scored items by model and data
    set.
    """
    for profile in profiles:
        profile_runs = _select_of_profile(runs, profile)
        for setting in COMPARED_SETTINGS:
            # A choice between two texts has one record for each item, scores of single texts two.
            pair_items = pair_choices if setting.startswith(PAIRWISE) else pair_scores
            scored = {}
            for run, records in _select_runs_of_setting(profile_runs, setting).items():
                scored[run] = pair_items(records, profile)
            yield profile, setting, scored


def _select_runs_of_setting(
    runs: Runs, setting: str
) -> dict[Run, list[EvaluationRecord]]:
    """Return the records of each run that a setting of `COMPARED_SETTINGS` compares; runs without
    such records are absent.

    A run that has no records at all stays in the setting `single`, so that its comparisons report
    that nothing could be scored.
    """
    selected: dict[Run, list[EvaluationRecord]] = {}
    for (model, dataset), records in runs.items():
        if dataset == cv_probes.CV_PROBES:
            continue
        compared = [
            record for record in records if record.setting in COMPARED_SETTINGS[setting]
        ]
        is_empty_run = not records and setting == SINGLE
        if compared or is_empty_run:
            selected[model, dataset] = compared
    return selected


def _select_of_profile(
    runs: Runs, profile: str
) -> dict[Run, Sequence[EvaluationRecord]]:
    """Return the runs that have records of a profile, or no records at all; a data set may exclude
    some profiles.
    """
    selected: dict[Run, Sequence[EvaluationRecord]] = {}
    for run, records in runs.items():
        profiles = {record.profile for record in records}
        if not records or profile in profiles:
            selected[run] = records
    return selected


def _average(parts: Sequence[Measure], expected: int) -> Measure:
    if len(parts) < expected:
        return Measure(
            None,
            0,
            reason=f"not averaged: {expected - len(parts)} of {expected} data sets were not run",
        )
    return average_measures(parts)


def _group_by_setting(
    records: Sequence[EvaluationRecord],
) -> dict[str, list[EvaluationRecord]]:
    """Group records by setting, in order; without records return one empty group without a name."""
    groups: dict[str, list[EvaluationRecord]] = {} if records else {"": []}
    for record in records:
        groups.setdefault(record.setting, []).append(record)
    return groups


def _compute_metrics(
    setting: str,
    records: Sequence[EvaluationRecord],
    profile: str,
    dataset: str,
    resampling: Resampling,
    questions: Sequence[VqaItem] | None,
) -> Measures:
    """Compute the metrics of the records of one setting; the setting decides which metrics are
    defined.
    """
    if questions is not None:
        accuracy = compute_vqa_accuracy(
            questions, records, profile, dataset, resampling
        )
        return {"accuracy": accuracy}
    kind = setting.removesuffix(AFTER_COT)
    of_profile = [record for record in records if record.profile == profile]
    # Without pairs of caption and foil, the only metric is the share of right answers.
    if kind in (CHOICE, ANSWERING):
        return {"accuracy": compute_accuracy(of_profile, dataset, resampling)}
    if kind == PAIRWISE:
        return compute_choice_metrics(of_profile, dataset, resampling)
    return compute_pair_metrics(pair_scores(records, profile), dataset, resampling)
