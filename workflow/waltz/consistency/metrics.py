"""Metrics of tests and CC-SHAP of all models on all data sets, by seed and over seeds (thesis 5.2,
C.1 to C.3).
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeVar

import numpy as np

from waltz.consistency.aggregates import (
    ONE_RUN,
    ItemNumber,
    SampledMeasure,
    compute_correlations_over_seeds,
    compute_mean_over_seeds,
)
from waltz.consistency.cc_shap.exchanged import (
    NO_CONTENT,
    NO_PARTNER,
    Excess,
    compute_excesses,
)
from waltz.consistency.edit_claim import judge_claim
from waltz.consistency.edit_tests.mentions import BIASING_FEATURES
from waltz.consistency.seed_reliability import measure_seed_reliability
from waltz.core.errors import UserError
from waltz.core.intervals import PERCENT, Bounds, Resampling, build_measure
from waltz.core.measure import Measure
from waltz.core.schema import (
    CcShapRecord,
    ConsistencyRecord,
    EditedRecord,
    MetricRecord,
)
from waltz.fidelity import get_fidelity

POST_HOC, COT = "post-hoc", "cot"
"""Settings of the papers: the model explains its answer afterwards, or answers after a chain of
thought.
"""
POST_HOC_TESTS = ("counterfactual_edits", "input_from_explanation")
COT_TESTS = (
    BIASING_FEATURES,
    "early_answering",
    "filler_tokens",
    "adding_mistakes",
    "paraphrasing",
)
"""Tests of the papers in each setting; the papers average over the tests of both settings."""
SETTING_OF_TEST = {
    **dict.fromkeys(POST_HOC_TESTS, POST_HOC),
    **dict.fromkeys(COT_TESTS, COT),
}
"""Setting of each test, also of tests that users add."""
CC_SHAP_METRICS = {POST_HOC: "cc_shap_posthoc", COT: "cc_shap_cot"}
"""Metric of CC-SHAP by setting."""
ACCURACY_METRICS = {POST_HOC: "accuracy", COT: "accuracy_cot"}
"""Metric of the accuracy of the answers that the tests start from, by setting (figures of thesis
C.2, C.4).
"""
COMPANIONS = (
    "correlation",
    "mse",
    "variance",
    "kl",
    "js",
    "with_weak",
    "weak_answer",
    "weak_explanation",
)
"""Columns next to CC-SHAP's value, each averaged to a metric such as `cc_shap_posthoc:kl`."""
T_SHAP_COLUMNS = {
    "t_shap_prediction": "t_shap_answer",
    "t_shap_explanation": "t_shap_explanation",
}
"""Column of T-SHAP for each metric."""
EXCESS, IDENTIFIED = ":excess", ":identified"
"""Suffixes of a metric of CC-SHAP: CC-SHAP less that of other items' explanations, and the share of
these explanations that agree less with the answer than its own, in percent.
"""
EXCESS_CONTENT, EXCESS_CENTERED = ":excess_content", ":excess_centered"
"""Suffixes of the excess over content players alone, and of the excess of centered ratios."""
EQUIVALENT = ":excess_equivalent"
"""Suffix of the verdict that the excess is within a margin around 0."""
MARGIN = 0.05
"""Margin of `EQUIVALENT` in CC-SHAP, unless a study names another."""
EQUIVALENCE_CONFIDENCE = 0.9
"""Coverage of the interval that has to lie within the margin: two tests at 5 % (Schuirmann 1987)."""
EXCESS_BOUNDS: Bounds = (-2.0, 2.0)
SHARED = "_shared"
"""Suffix of T-SHAP's metrics if only tokens that the prompts of answer and explanation share are
players.
"""
MEASURES_OF_SHAPLEY = (
    *CC_SHAP_METRICS.values(),
    *T_SHAP_COLUMNS,
    *(f"{metric}{SHARED}" for metric in T_SHAP_COLUMNS),
)
"""CC-SHAP and T-SHAP, whose reliability over seeds is measured."""
MENTIONS = f"{BIASING_FEATURES}:mentions"
"""Metric of the items whose verdict of biasing features rests on a mention of the suggestion."""
AVERAGE = "average"
"""Name of the data set of averages over data sets."""
RESCALED_AVERAGES = ("rescaled_average", "rescaled_tests", "rescaled_cc_shap")
"""Metrics that average over data sets: tests and CC-SHAP, tests alone, CC-SHAP alone (thesis C.1).
"""
EDIT_GROUPS = {
    "edits": (True, False, None),
    "edits:flipping": (True,),
    "edits:keeping": (False,),
}
"""Values of the column `flipped` that count, for each prefix of the metrics of counterfactual
edits.
"""
NOT_SAMPLED = "one run: the model does not sample"
"""Reason why a model that does not sample has no standard deviation over seeds."""
SIGNED: Bounds = (-1.0, 1.0)
"""Smallest and largest value of a cosine or a correlation."""
SHARE: Bounds = (0.0, 1.0)
"""Smallest and largest value of a share."""


@dataclass(frozen=True)
class ConsistencyRows:
    """Hold the results of stage consistency for one model on one data set.

    Attributes:
        tests: Verdicts of the tests.
        cc_shap: CC-SHAP of each item; empty if the study does not request it.
        edited: Shifts of attributions after edits; empty if the study does not request them.
    """

    tests: list[ConsistencyRecord] = field(default_factory=list)
    cc_shap: list[CcShapRecord] = field(default_factory=list)
    edited: list[EditedRecord] = field(default_factory=list)

    @property
    def one_run(self) -> str:
        """Return why there is a single run, if there is one: a model that does not sample is run with
        one seed.
        """
        rows: list[ConsistencyRecord | CcShapRecord] = [*self.tests, *self.cc_shap]
        if {row.sampled for row in rows} == {False}:
            return NOT_SAMPLED
        return ONE_RUN


Runs = Mapping[tuple[str, str], ConsistencyRows]
"""Results for each model and data set, in order."""
Series = Mapping[tuple[str, str], Sequence[ItemNumber]]
"""Numbers of items for each metric and setting."""


def build_metric_records(
    runs: Runs,
    resampling: Resampling,
    pooled_dataset: str = "all",
    margin: float = MARGIN,
) -> list[MetricRecord]:
    """Build the records of all metrics of all models on all data sets, for each seed and over
    seeds.

    A metric with a name of the papers is the mean over seeds; the suffix `:seed=…` marks the value
    of one seed, `:sd` the standard deviation over seeds. Tests are percentages of the items with a
    verdict, and `biasing_features:mentions` the percentage whose verdict rests on a mention.
    Accuracies and T-SHAP are percentages too; T-SHAP has the suffix `_shared` if query suffixes do
    not play. CC-SHAP is between -1 and 1, and its companions have their units: `…:excess` is CC-SHAP
    less that of other items' explanations, `…:identified` the percentage of these that agree less
    with the answer, `…:excess_content` and `…:excess_centered` the excess over content players and of
    centered ratios. `…:excess_equivalent` is 1 if the excess is within the margin, 0 if this is not
    shown. With several seeds, CC-SHAP and T-SHAP have components of variance and reliabilities
    (`measure_seed_reliability`). `edits:…` are shifts after counterfactual edits, `edits:flipping:…` after edits
    that change the answer, `edits:keeping:…` after the other edits; `…:claim` is 1 if they support
    the thesis's claim, 0 if they refute it.

    Args:
        runs: Results for each model and data set.
        pooled_dataset: Name of the data set under which the edited items of all data sets are
            pooled.
        margin: Largest excess of CC-SHAP, of either sign, that counts as none.
    Returns:
        A record of each metric. The data set `average` holds the `RESCALED_AVERAGES` of a model
        over its data sets (C.1); `pooled_dataset` holds the shifts over the edited items of all
        data sets, if there are several.
    Raises:
        UserError: A data set was prompted in two settings.
    """
    metrics: list[MetricRecord] = []
    # Measures that enter averages over data sets, and edited items, by model and profile.
    averaged: dict[tuple[str, str], dict[tuple[str, str], SampledMeasure]] = {}
    edited: dict[tuple[str, str], list[Sequence[EditedRecord]]] = {}
    averaged_metrics = {*SETTING_OF_TEST, *CC_SHAP_METRICS.values()}
    for (model, dataset, profile), run in split_by_profile(runs).items():
        for (metric, setting), numbers in collect_series(run).items():
            # Each metric of the run: over seeds, and for each seed.
            cell = MetricCell(model, dataset, profile, setting)
            average, measures = compute_mean_over_seeds(
                numbers, dataset, resampling, _get_bounds(metric), run.one_run
            )
            metrics += cell.build_records(metric, measures)
            metrics += _build_reliability_records(cell, metric, numbers, resampling)
            if metric.endswith(EXCESS):
                verdict = _judge_equivalence(numbers, dataset, resampling, margin)
                name = metric.removesuffix(EXCESS) + EQUIVALENT
                metrics.append(cell.build_record(name, verdict))
            if metric in averaged_metrics:
                averaged.setdefault((model, profile), {})[dataset, metric] = average
        if run.edited:
            edited.setdefault((model, profile), []).append(run.edited)
            edit_cell = MetricCell(model, dataset, profile, POST_HOC)
            metrics += _build_edit_records(edit_cell, run.edited, resampling)

    # Shifts after edits, pooled over the items of several data sets.
    for (model, profile), records_of_datasets in edited.items():
        if len(records_of_datasets) > 1:
            pooled_cell = MetricCell(model, pooled_dataset, profile, POST_HOC)
            pooled = list(chain.from_iterable(records_of_datasets))
            metrics += _build_edit_records(pooled_cell, pooled, resampling)

    # The averages over data sets of thesis C.1.
    for (model, profile), cells in averaged.items():
        average_cell = MetricCell(model, AVERAGE, profile, "")
        for metric in RESCALED_AVERAGES:
            measure = _compute_rescaled_average(
                select_rescaled(cells, metric), resampling
            )
            metrics.append(average_cell.build_record(metric, measure))
    return metrics


@dataclass(frozen=True)
class MetricCell:
    """Name the model, data set, profile and setting that measures belong to."""

    model: str
    dataset: str
    profile: str
    setting: str

    def build_record(self, metric: str, measure: Measure) -> MetricRecord:
        """Return the record of one measure."""
        return MetricRecord(
            model=self.model,
            dataset=self.dataset,
            profile=self.profile,
            setting=self.setting,
            metric=metric,
            measure=measure,
        )

    def build_records(
        self, metric: str, measures: Sequence[tuple[str, Measure]]
    ) -> list[MetricRecord]:
        """Return the records of a metric over seeds and for each seed, by the suffix of its name."""
        return [
            self.build_record(metric + suffix, measure) for suffix, measure in measures
        ]


def _build_reliability_records(
    cell: MetricCell,
    metric: str,
    numbers: Sequence[ItemNumber],
    resampling: Resampling,
) -> list[MetricRecord]:
    """Build the records of the reliability of a metric over seeds; none for other metrics than those of
    Shapley values, and none with a single seed.
    """
    if metric not in MEASURES_OF_SHAPLEY:
        return []
    measures = measure_seed_reliability(numbers, cell.dataset, resampling)
    return cell.build_records(metric, list(measures.items()))


def build_correlation_records(runs: Runs, resampling: Resampling) -> list[MetricRecord]:
    """Build the records of each test's point-biserial correlation (times 100) with CC-SHAP of its
    setting (thesis C.3).

    Returns:
        Records for each seed and over seeds, as in `build_metric_records`. A record has no value
        (nan in the thesis) if all verdicts or all CC-SHAP values are equal.
    """
    correlations: list[MetricRecord] = []
    for (model, dataset, profile), run in split_by_profile(runs).items():
        series = collect_series(run)
        for (metric, setting), tests in series.items():
            scores = series.get((CC_SHAP_METRICS[setting], setting))
            if metric not in SETTING_OF_TEST or scores is None:
                continue
            cell = MetricCell(model, dataset, profile, setting)
            measures = compute_correlations_over_seeds(
                tests, scores, dataset, resampling, run.one_run
            )
            correlations += cell.build_records(metric, measures)
    return correlations


def split_by_profile(runs: Runs) -> dict[tuple[str, str, str], ConsistencyRows]:
    """Split the results of runs by model, data set and profile, in the order of the rows; refuse a
    run with two settings.
    """
    split: dict[tuple[str, str, str], ConsistencyRows] = {}
    for (model, dataset), run in runs.items():
        prompted: list[ConsistencyRecord | CcShapRecord] = [*run.tests, *run.cc_shap]
        settings = sorted({record.setting for record in prompted})
        if len(settings) > 1:
            raise UserError(
                f"consistency of {model} on {dataset}: items were asked as {' and as '.join(settings)}; delete one and"
                " run again"
            )
        by_profile: dict[str, ConsistencyRows] = defaultdict(ConsistencyRows)
        for test in run.tests:
            by_profile[test.profile].tests.append(test)
        for record in run.cc_shap:
            by_profile[record.profile].cc_shap.append(record)
        for shift in run.edited:
            by_profile[shift.profile].edited.append(shift)
        for profile, rows in by_profile.items():
            split[model, dataset, profile] = rows
    return split


def collect_series(run: ConsistencyRows) -> Series:
    """Collect the numbers of items for each metric and setting, under the names of the papers."""
    series: dict[tuple[str, str], list[ItemNumber]] = defaultdict(list)
    # Verdicts of the tests, then the accuracy of the answers that they start from.
    for test in run.tests:
        setting = SETTING_OF_TEST[test.test]
        series[test.test, setting].append(
            _build_number(test, _to_percent(test.verdict))
        )
        if test.test == BIASING_FEATURES:
            rests_on_mention = None
            if test.verdict is not None:
                rests_on_mention = float(test.mention is not None)
            series[MENTIONS, setting].append(
                _build_number(test, _to_percent(rests_on_mention))
            )
    for setting, test in _select_answered(run.tests):
        series[ACCURACY_METRICS[setting], setting].append(
            _build_number(test, _to_percent(test.correct))
        )
    for record, excess in zip(run.cc_shap, compute_excesses(run.cc_shap), strict=True):
        for metric, number in _list_cc_shap_numbers(record, excess).items():
            series[metric, record.kind].append(number)
    return dict(series)


def _list_cc_shap_numbers(
    record: CcShapRecord, excess: Excess | None
) -> dict[str, ItemNumber]:
    """Return the numbers of one record of CC-SHAP by metric: CC-SHAP with its companions, its
    excess over other items' explanations, and T-SHAP of answer and explanation.
    """
    metric = CC_SHAP_METRICS[record.kind]
    cc_shap = _build_number(record, record.value)
    numbers = {metric: _add_seed_error(cc_shap, record, record.standard_error)}
    for companion in COMPANIONS:
        value = getattr(record, companion)
        numbers[f"{metric}:{companion}"] = _build_number(record, value)
    for suffix, value in _list_excesses(excess).items():
        missing = NO_PARTNER if excess is None else NO_CONTENT
        numbers[metric + suffix] = _build_number(record, value, missing)
    # The noise of one seed in the excess is about that of CC-SHAP itself, and below its bound
    # (docs/reference/estimators.md).
    numbers[metric + EXCESS] = _add_seed_error(
        numbers[metric + EXCESS], record, record.standard_error
    )
    # Without an image T-SHAP is 1 by definition.
    if record.image is None:
        return numbers
    # In `equations` only the players that both prompts share enter CC-SHAP and T-SHAP.
    suffix = ""
    if get_fidelity(record.profile).shared_players == "prefix":
        suffix = SHARED
    for t_shap_metric, column in T_SHAP_COLUMNS.items():
        t_shap = _build_number(record, _to_percent(getattr(record, column)))
        error = _to_percent(getattr(record, f"{column}_se"))
        numbers[t_shap_metric + suffix] = _add_seed_error(t_shap, record, error)
    return numbers


def _list_excesses(excess: Excess | None) -> dict[str, float | None]:
    """Return the numbers of an excess by the suffix of their metric."""
    if excess is None:
        suffixes = (EXCESS, IDENTIFIED, EXCESS_CONTENT, EXCESS_CENTERED)
        return dict.fromkeys(suffixes)
    return {
        EXCESS: excess.difference,
        IDENTIFIED: _to_percent(excess.identified),
        EXCESS_CONTENT: excess.content,
        EXCESS_CENTERED: excess.centered,
    }


def _judge_equivalence(
    numbers: Sequence[ItemNumber],
    dataset: str,
    resampling: Resampling,
    margin: float,
) -> Measure:
    """Return 1 if the 90 % interval of a mean excess lies within the margin around 0, else 0, which
    does not show that it lies outside.
    """
    average, _ = compute_mean_over_seeds(
        numbers,
        dataset,
        replace(resampling, confidence=EQUIVALENCE_CONFIDENCE),
        EXCESS_BOUNDS,
    )
    mean = average.measure
    if mean.ci_low is None or mean.ci_high is None:
        reason = mean.reason or "the excess has no interval"
        return Measure(None, mean.n, reason=reason)
    is_within = -margin < mean.ci_low and mean.ci_high < margin
    return Measure(float(is_within), mean.n, images=mean.images)


def _select_answered(
    tests: Sequence[ConsistencyRecord],
) -> Iterator[tuple[str, ConsistencyRecord]]:
    """Yield one test for each item, seed and setting, from which the accuracy of the answers is
    taken.

    All tests of a setting start from the same answer. A test whose answer was judged is preferred
    to a test that failed.
    """
    answered: dict[tuple[str, int, str], ConsistencyRecord] = {}
    for test in tests:
        key = (test.item_id, test.seed, SETTING_OF_TEST[test.test])
        if key not in answered or answered[key].correct is None:
            answered[key] = test
    for (_, _, setting), test in answered.items():
        yield setting, test


def _to_percent(share: float | None) -> float | None:
    return None if share is None else 100.0 * share


def _build_number(
    record: ConsistencyRecord | CcShapRecord | EditedRecord,
    value: float | None,
    missing: str | None = None,
) -> ItemNumber:
    """Return the number of a record; `missing` is the reason why a record without one may lack it."""
    # NaN and infinity count as missing; the reason of the record says why.
    if value is not None and not math.isfinite(value):
        value = None
    cluster = record.item_id if record.image is None else record.image
    reason = record.error or record.reason or missing
    return ItemNumber(record.item_id, cluster, record.seed, value, reason)


def _add_seed_error(
    number: ItemNumber, record: CcShapRecord, standard_error: float | None
) -> ItemNumber:
    """Return a number with its standard error if the estimator drew with the seed of the run; without
    one it counts as exact.
    """
    if get_fidelity(record.profile).estimator_seed != "run":
        return number
    return replace(
        number,
        common_error=standard_error or 0.0,
        players=len(record.ratios_answer or ()),
    )


def _get_bounds(metric: str) -> Bounds | None:
    """Return the lowest and highest possible value of a metric; None for companions without bounds."""
    if metric in CC_SHAP_METRICS.values():
        return SIGNED
    if metric.endswith(":correlation"):
        return SIGNED
    if metric.endswith((EXCESS, EXCESS_CONTENT, EXCESS_CENTERED)):
        return EXCESS_BOUNDS
    if metric == MENTIONS or metric.endswith(IDENTIFIED):
        return PERCENT
    # Other names with a colon are companions.
    if ":" in metric:
        return None
    return PERCENT


def _compute_rescaled_average(
    cells: Mapping[tuple[str, str], SampledMeasure], resampling: Resampling
) -> Measure:
    """Compute the average of thesis C.1 over all data sets with its interval; data sets are
    resampled independently.
    """
    scores = tuple(CC_SHAP_METRICS.values())
    average = compute_rescaled_average(
        {key: cell.measure for key, cell in cells.items()}, scores
    )
    if average.value is None:
        return average
    draws_of_datasets: dict[str, list[np.ndarray]] = defaultdict(list)
    for (dataset, metric), cell in cells.items():
        draws = cell.draws
        if metric in scores:
            draws = _rescale_cc_shap(draws)
        draws_of_datasets[dataset].append(draws)
    # First the mean of each data set's measures, then the mean over data sets, in each resample.
    draws = np.mean(
        [np.mean(draws, axis=0) for draws in draws_of_datasets.values()], axis=0
    )
    measure = build_measure(
        average.value, average.n, draws, resampling, average.n, PERCENT
    )
    # An average of measures, whose images are not added up.
    return replace(measure, images=None)


Number = TypeVar("Number", float, np.ndarray)


def _rescale_cc_shap(value: Number) -> Number:
    """Rescale CC-SHAP from -1..1 to 0..100, the scale of the tests."""
    return 50 * (value + 1)


def _build_edit_records(
    cell: MetricCell, records: Sequence[EditedRecord], resampling: Resampling
) -> Iterator[MetricRecord]:
    """Yield the records of the shifts after all edits, after edits that change the answer, and
    after the others.

    Args:
        cell: Model, data set, profile and setting of the records; its data set separates the
            bootstrap draws.
    """
    for prefix, flipped in EDIT_GROUPS.items():
        group = [record for record in records if record.flipped in flipped]
        for metric, measure in _measure_shifts(group, cell.dataset, resampling).items():
            yield cell.build_record(f"{prefix}:{metric}", measure)


def _measure_shifts(
    records: Sequence[EditedRecord], label: str, resampling: Resampling
) -> dict[str, Measure]:
    """Return the measures of shifts after edits, and the verdict about the thesis's claim."""
    claim = judge_claim(records, label, resampling)
    n = claim.difference.n
    if claim.verdict in ("supports", "refutes"):
        verdict = Measure(float(claim.verdict == "supports"), n)
    else:
        undecided = f"undecided: the interval over {n} items allows either, or too few were edited"
        verdict = Measure(None, n, reason=claim.difference.reason or undecided)
    measures = {
        "answer": claim.answer,
        "explanation": claim.explanation,
        "difference": claim.difference,
        "claim": verdict,
    }
    # Share of the attribution that the inserted word gets.
    for column in ("inserted_answer", "inserted_explanation"):
        measures[column] = claim.difference  # without records it has the reason
        if records:
            shares = [
                _build_number(record, getattr(record, column)) for record in records
            ]
            average, _ = compute_mean_over_seeds(shares, label, resampling, SHARE)
            measures[column] = average.measure
    return measures


T = TypeVar("T")


def select_rescaled(
    cells: Mapping[tuple[str, str], T], average: str
) -> dict[tuple[str, str], T]:
    """Return the cells, by data set and measure, that one of `RESCALED_AVERAGES` averages."""
    scores = tuple(CC_SHAP_METRICS.values())
    tests = (*POST_HOC_TESTS, *COT_TESTS)
    averaged_measures = {
        "rescaled_average": (*tests, *scores),
        "rescaled_tests": tests,
        "rescaled_cc_shap": scores,
    }[average]
    return {key: cell for key, cell in cells.items() if key[1] in averaged_measures}


def compute_rescaled_average(
    cells: Mapping[tuple[str, str], Measure], scores: Sequence[str]
) -> Measure:
    """Average a model's consistency over all measures and data sets (thesis C.1).

    CC-SHAP is rescaled from -1..1 to 0..100. Measures are averaged within each data set, then over
    data sets, with equal weights. With this rule, thesis Tables 5.2 and C.2 give 36.3 (Falcon-7b)
    to 48.1 (GPT2).

    Args:
        cells: Measures by data set and name of the measure.
        scores: Names of the measures that are CC-SHAP.
    Returns:
        Average from 0 to 100; n is the number of cells. It has no value if a cell lacks its value.
    """
    # An average over some of the cells would not be comparable, so that a missing cell leaves no
    # average.
    missing: list[str] = []
    values_of_datasets: dict[str, list[float]] = defaultdict(list)
    for (dataset, measure), cell in cells.items():
        value = cell.value
        if value is None:
            missing.append(f"{measure} on {dataset}")
            continue
        if measure in scores:
            value = _rescale_cc_shap(value)
        values_of_datasets[dataset].append(value)
    if missing:
        reason = f"no value for {', '.join(sorted(missing))}"
        return Measure(None, len(cells), reason=reason)
    if not cells:
        return Measure(None, 0, reason="there is nothing to average")
    means = [np.mean(values) for values in values_of_datasets.values()]
    return Measure(float(np.mean(means)), len(cells))
