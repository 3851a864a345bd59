"""Metrics of all models on all data sets with their intervals, averages, and paired comparisons."""

from collections.abc import Collection, Mapping, Sequence
from itertools import chain, product

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
    compare_over_datasets,
)
from waltz.evaluation.metrics.group_metrics import compute_group_metrics
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
ComparedRuns = dict[Run, tuple[str, ScoredPairs]]
"""Setting of the records of each run that is compared, and its scored items."""
Measures = Mapping[str, Measure]
"""Measure of each metric."""

PairMeasures = dict[tuple[str, str], dict[str, Measures]]
"""Measures of each model and setting, by data set."""

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
    # Each run is read once for all profiles, whose metrics come one after the other.
    fidelities = [get_fidelity(profile) for profile in profiles]
    metrics_of_profile: dict[str, list[MetricRecord]] = {name: [] for name in profiles}
    # Metrics of pairs by profile, by model and setting, then by data set, of which averages are
    # taken.
    pair_measures: dict[str, PairMeasures] = {name: {} for name in profiles}
    for (model, dataset), records in runs.items():
        for fidelity in fidelities:
            profile = fidelity.name
            metrics = metrics_of_profile[profile]
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
                    measures_by_dataset = pair_measures[profile].setdefault(
                        (model, setting), {}
                    )
                    measures_by_dataset[dataset] = measures
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
        for name, metrics in metrics_of_profile.items():
            metrics += _build_averages(name, pair_measures[name], averaged)
    return list(chain.from_iterable(metrics_of_profile.values()))


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
    if parts and len({parts.get(run) for run in runs}) == 1:
        return []
    compared_runs = _pair_runs(runs, profiles)
    comparisons: list[ComparisonRecord] = []
    for profile in profiles:
        for setting in COMPARED_SETTINGS:
            compared = compared_runs[profile, setting]
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
            comparisons += compare_models(
                {run: scored for run, (_, scored) in compared.items()},
                profile,
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
    for pairs in pairs_of_setting.values():
        for pair in [pair for pair, datasets in pairs.items() if len(datasets) == 1]:
            del pairs[pair]
    if not any(pairs_of_setting.values()):
        return []

    # The scores are those of the comparisons on single data sets.
    profiles = dict.fromkeys(profile for profile, _ in pairs_of_setting)
    compared_runs = _pair_runs(runs, list(profiles))
    overall: list[ComparisonRecord] = []
    for (profile, setting), pairs in pairs_of_setting.items():
        compared = compared_runs[profile, setting]
        overall += compare_over_datasets(
            {run: scored for run, (_, scored) in compared.items()},
            pairs,
            profile,
            setting,
            resampling,
            controls,
        )
    return overall


def _pair_runs(
    runs: Runs, profiles: Sequence[str]
) -> dict[tuple[str, str], ComparedRuns]:
    """Return the runs that each setting of `COMPARED_SETTINGS` compares, by profile and setting;
    runs without such records are absent.

    A run that has no records at all stays in the setting `single`, so that its comparisons report
    that nothing could be scored. The records of one run at a time are in memory.
    """
    compared_runs: dict[tuple[str, str], ComparedRuns] = {
        key: {} for key in product(profiles, COMPARED_SETTINGS)
    }
    # Models have the same items: their names are kept once.
    names: dict[tuple[str, ...], tuple[str, ...]] = {}
    for run, records in runs.items():
        _, dataset = run
        if dataset == cv_probes.CV_PROBES:
            continue
        by_setting = _group_by_setting(records)
        for profile in profiles:
            if not _was_run(records, profile):
                continue
            fidelity = get_fidelity(profile)
            scored_settings: dict[str, ScoredPairs] = {}
            for setting, candidates in COMPARED_SETTINGS.items():
                # Of a run with several of the settings, the first one is compared.
                stored = next((name for name in candidates if name in by_setting), None)
                if not records and setting == SINGLE:
                    stored = ""
                if stored is None:
                    continue
                if stored not in scored_settings:
                    scored = _pair_records(by_setting[stored], stored, fidelity)
                    scored_settings[stored] = scored.sort_items().share_names(names)
                compared_runs[profile, setting][run] = stored, scored_settings[stored]
    return compared_runs


def _pair_records(
    records: Sequence[EvaluationRecord], setting: str, fidelity: Fidelity
) -> ScoredPairs:
    """Return the scored items of a run in one setting."""
    # A choice between two texts has one record for each item, scores of single texts have two.
    if setting.startswith(PAIRWISE):
        return pair_choices(records, fidelity)
    return pair_scores(records, fidelity)


def _list_scripted_runs(compared: ComparedRuns) -> list[Run]:
    """Return the runs with scores by VALSE's script."""
    return [run for run, (setting, _) in compared.items() if setting == VALSE_SCRIPT]


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
