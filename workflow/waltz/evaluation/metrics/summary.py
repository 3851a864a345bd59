"""Metrics of all models on all data sets with their intervals, averages, and paired comparisons."""

from collections.abc import Collection, Mapping, Sequence

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
from waltz.evaluation.metrics.comparisons import (
    COMPARED_METRICS,
    compare_models,
    correct_metrics,
)
from waltz.evaluation.metrics.group_metrics import compute_group_metrics
from waltz.evaluation.metrics.pair_metrics import (
    METRICS,
    ScoredPairs,
    average_measures,
    compute_accuracy,
    compute_choice_metrics,
    compute_hits,
    compute_pair_metrics,
    pair_choices,
    pair_scores,
)
from waltz.evaluation.metrics.paired_differences import (
    ItemNumbers,
    compare_item_numbers,
)
from waltz.evaluation.metrics.vqa_accuracy import compute_vqa_accuracy
from waltz.evaluation.settings import (
    AFTER_COT,
    ALIGNMENT,
    ALL_DATA_SETS,
    CHOICE,
    GROUPED_SETTINGS,
    PAIRWISE,
    PERPLEXITY,
    SINGLE,
    VALSE_SCRIPT,
)
from waltz.evaluation.vqa import ANSWERING, VqaItem
from waltz.fidelity import Fidelity, get_fidelity

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
    VALSE_SCRIPT: (VALSE_SCRIPT, ALIGNMENT, PERPLEXITY),
}
"""Settings of the records that are compared with each other, for each setting of a comparison; of
the settings of one run, the first decides.
"""


def build_metric_records(
    runs: Runs,
    profiles: Sequence[str],
    resampling: Resampling,
    *,
    averaged: Sequence[str] = (),
    probes: Sequence[ProbeRecord] = (),
    questions: Mapping[str, Sequence[VqaItem]] | None = None,
    groups: Mapping[str, Mapping[str, str]] | None = None,
) -> list[MetricRecord]:
    """Return all metrics of all models on all data sets.

    Args:
        runs: Records of each run; the data set `cv-probes` and the data sets of `questions` have
            other metrics than pairs.
        averaged: Data sets over which the data set `average` is taken; empty for no average.
        probes: Items of CV-Probes.
        questions: Questions of `vqa.select_vqa_items` by data set.
        groups: Group of each item that has one, by data set.
    """
    metrics: list[MetricRecord] = []
    for fidelity in map(get_fidelity, profiles):
        profile = fidelity.name
        # Metrics of pairs by model and setting, then by data set, of which averages are taken.
        pair_measures: dict[tuple[str, str], dict[str, Measures]] = {}
        for (model, dataset), records in runs.items():
            if not _was_run(records, profile):
                continue
            if dataset == cv_probes.CV_PROBES:
                metrics += cv_probes.compute_probe_metrics(
                    model, probes, records, profile, resampling
                )
                continue
            # A data set of questions has the accuracy of its answers instead of metrics of pairs.
            dataset_questions = (questions or {}).get(dataset)
            for setting, setting_records in _group_by_setting(records).items():
                measures: dict[str, Measure] = _compute_metrics(
                    setting,
                    setting_records,
                    fidelity,
                    dataset,
                    resampling,
                    dataset_questions,
                )
                # Only metrics of pairs are averaged; accuracies of questions differ in their units.
                if set(measures) <= set(METRICS):
                    pair_measures.setdefault((model, setting), {})[dataset] = measures
                # Not every data set has groups, so that their scores are not averaged.
                dataset_groups = (groups or {}).get(dataset)
                if dataset_groups and setting in GROUPED_SETTINGS:
                    measures = measures | compute_group_metrics(
                        setting_records, dataset_groups, fidelity, dataset, resampling
                    )
                metrics += _build_metric_records(
                    profile, model, dataset, setting, measures
                )
        if averaged:
            metrics += _build_averages(profile, pair_measures, averaged)
    return metrics


def _was_run(records: Sequence[EvaluationRecord], profile: str) -> bool:
    """Return whether a run has records of a profile, or no records at all; a data set may exclude
    some profiles.
    """
    if not records:
        return True
    return any(record.profile == profile for record in records)


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
        missing = len(averaged) - len(available)
        reason = f"not averaged: {missing} of {len(averaged)} data sets were not run"
        # All data sets of one setting have the same metrics.
        means = {}
        for metric in next(iter(measures_by_dataset.values())):
            means[metric] = Measure(None, 0, reason=reason)
            if not missing:
                means[metric] = average_measures(
                    [measures_by_dataset[name][metric] for name in available]
                )
        records += _build_metric_records(profile, model, AVERAGE, setting, means)
    return records


def build_comparison_records(
    runs: Runs,
    profiles: Sequence[str],
    resampling: Resampling,
    controls: Collection[str] = (),
    parts: Mapping[Run, str] | None = None,
) -> list[ComparisonRecord]:
    """Return paired comparisons of all models on all data sets of captions and foils.

    Answers of decoders about single texts are compared with the predictions of encoders. Choices of
    decoders between two texts are compared with the choices of other decoders. Scores by VALSE's
    script are compared with the scores of the models that it does not score.

    Args:
        runs: Records of each run; data sets without pairs (CV-Probes, questions) and other settings
            are skipped.
        controls: Models whose comparisons are corrected apart from those of other models.
        parts: Part of each run; models of the same part are not compared. None compares all models.
    Returns:
        Comparisons whose setting is a key of `COMPARED_SETTINGS`.
    """
    comparisons: list[ComparisonRecord] = []
    for fidelity in map(get_fidelity, profiles):
        for setting in COMPARED_SETTINGS:
            compared = _select_compared(runs, fidelity.name, setting)
            # Only LXMERT has scores by VALSE's script; it is compared with all models, these are
            # not compared with each other again.
            required: list[Run] = []
            if setting == VALSE_SCRIPT:
                required = _list_scripted_runs(compared)
                if not required:
                    continue
            # A choice gives no score to either text, so that only acc_r is defined.
            metrics = COMPARED_METRICS
            if setting.startswith(PAIRWISE):
                metrics = ("acc_r",)
            scored = _pair_records(compared, setting, fidelity)
            comparisons += compare_models(
                scored,
                fidelity.name,
                setting,
                resampling,
                metrics,
                controls,
                parts,
                required,
            )
    return comparisons


def build_overall_comparisons(
    comparisons: Sequence[ComparisonRecord],
    runs: Runs,
    resampling: Resampling,
    controls: Collection[str] = (),
) -> list[ComparisonRecord]:
    """Return the comparison of each pair of models in acc_r over all its data sets, all of the same
    weight.

    Args:
        comparisons: Comparisons on single data sets, of any metric and setting.
        runs: Records of each run that was compared.
        controls: Models whose comparisons are corrected apart from those of other models.
    Returns:
        Comparisons on `ALL_DATA_SETS` of the pairs that have several data sets, with Holm's
        correction over the pairs of one profile and setting.
    """
    # Data sets of each pair of models, by profile and setting.
    pairs_of_setting: dict[tuple[str, str], dict[tuple[str, str], list[str]]] = {}
    for record in comparisons:
        if record.metric == "acc_r":
            pairs = pairs_of_setting.setdefault((record.profile, record.setting), {})
            pair = (record.model_a, record.model_b)
            pairs.setdefault(pair, []).append(record.dataset)

    overall: list[ComparisonRecord] = []
    for (profile, setting), pairs in pairs_of_setting.items():
        # The hits are those of the comparisons on single data sets.
        compared = _select_compared(runs, profile, setting)
        hits = _list_hits(_pair_records(compared, setting, get_fidelity(profile)))
        of_setting = []
        for (model_a, model_b), datasets in pairs.items():
            if len(datasets) == 1:
                continue
            names = ComparisonRecord(
                profile=profile,
                dataset=ALL_DATA_SETS,
                setting=setting,
                metric="acc_r",
                model_a=model_a,
                model_b=model_b,
                n=0,
            )
            of_setting.append(compare_item_numbers(names, datasets, hits, resampling))
        overall += correct_metrics(of_setting, controls)
    return overall


def _list_hits(scored_runs: Mapping[Run, ScoredPairs]) -> dict[Run, ItemNumbers]:
    """Return the contribution of each item to acc_r in percent, with its image."""
    hits: dict[Run, ItemNumbers] = {}
    for run, scored in scored_runs.items():
        percent = (100 * compute_hits(scored, "acc_r")).tolist()
        clustered = zip(scored.images, percent, strict=True)
        hits[run] = dict(zip(scored.items, clustered, strict=True))
    return hits


def _pair_records(
    compared: Runs, setting: str, fidelity: Fidelity
) -> dict[Run, ScoredPairs]:
    """Return the scored items of each run that a setting of `COMPARED_SETTINGS` compares."""
    # A choice between two texts has one record for each item, scores of single texts have two.
    pair_items = pair_scores
    if setting.startswith(PAIRWISE):
        pair_items = pair_choices
    return {run: pair_items(records, fidelity) for run, records in compared.items()}


def _select_compared(
    runs: Runs, profile: str, setting: str
) -> dict[Run, list[EvaluationRecord]]:
    """Return the records of each run that a setting of `COMPARED_SETTINGS` compares; runs without
    such records are absent.

    A run that has no records at all stays in the setting `single`, so that its comparisons report
    that nothing could be scored.
    """
    selected: dict[Run, list[EvaluationRecord]] = {}
    for run, records in runs.items():
        _, dataset = run
        if dataset == cv_probes.CV_PROBES or not _was_run(records, profile):
            continue
        # Of a run with several of the settings, the first one is compared.
        by_setting = _group_by_setting(records)
        of_settings = map(by_setting.get, COMPARED_SETTINGS[setting])
        compared = next(filter(None, of_settings), [])
        is_empty_run = not records and setting == SINGLE
        if compared or is_empty_run:
            selected[run] = compared
    return selected


def _list_scripted_runs(runs: Runs) -> list[Run]:
    """Return the runs with scores by VALSE's script."""
    scripted = []
    for run, records in runs.items():
        if records[0].setting == VALSE_SCRIPT:
            scripted.append(run)
    return scripted


def _group_by_setting(
    records: Sequence[EvaluationRecord],
) -> dict[str, list[EvaluationRecord]]:
    """Group records by setting, in order; without records return one empty group without a name."""
    if not records:
        return {"": []}
    groups: dict[str, list[EvaluationRecord]] = {}
    for record in records:
        groups.setdefault(record.setting, []).append(record)
    return groups


def _compute_metrics(
    setting: str,
    records: Sequence[EvaluationRecord],
    fidelity: Fidelity,
    dataset: str,
    resampling: Resampling,
    questions: Sequence[VqaItem] | None,
) -> dict[str, Measure]:
    """Compute the metrics of the records of one setting; the setting decides which metrics are
    defined.
    """
    if questions is not None:
        accuracy = compute_vqa_accuracy(
            questions, records, fidelity, dataset, resampling
        )
        return {"accuracy": accuracy}
    kind = setting.removesuffix(AFTER_COT)
    of_profile = [record for record in records if record.profile == fidelity.name]
    # Without pairs of caption and foil, the only metric is the share of right answers.
    if kind in (CHOICE, ANSWERING):
        return {"accuracy": compute_accuracy(of_profile, dataset, resampling)}
    if kind == PAIRWISE:
        return compute_choice_metrics(of_profile, fidelity, dataset, resampling)
    return compute_pair_metrics(pair_scores(of_profile, fidelity), dataset, resampling)
