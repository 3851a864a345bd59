"""Paired differences of decoders over the same items: T-SHAP of explanations less that of answers
(thesis 5.6.2), and chat models less their base models (thesis 5.7).
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import mean

from waltz.consistency.aggregates import ItemNumber
from waltz.consistency.metrics import (
    ACCURACY_METRICS,
    CC_SHAP_METRICS,
    COT,
    POST_HOC,
    SETTING_OF_TEST,
    SHARED,
    SIGNED,
    ConsistencyRows,
    Runs,
    Series,
    collect_series,
    split_by_profile,
)
from waltz.core.intervals import Resampling
from waltz.core.measure import Measure
from waltz.core.schema import DifferenceRecord
from waltz.evaluation.metrics.paired_differences import (
    DifferenceKey,
    PairedItem,
    build_difference_records,
)

EXPLANATION_LESS_ANSWER = "t_shap_explanation_less_answer"
"""T-SHAP of an explanation less T-SHAP of its answer, by kind of explanation."""
COT_LESS_POST_HOC = "t_shap_cot_less_post_hoc"
"""T-SHAP of a chain of thought less T-SHAP of the post-hoc explanation of the same item."""
EXPLANATION, ANSWER = "t_shap_explanation", "t_shap_prediction"
"""Metrics of stage consistency that are compared."""
COMPARED = (
    (EXPLANATION_LESS_ANSWER, POST_HOC, (EXPLANATION, POST_HOC), (ANSWER, POST_HOC)),
    (EXPLANATION_LESS_ANSWER, COT, (EXPLANATION, COT), (ANSWER, COT)),
    (COT_LESS_POST_HOC, COT, (EXPLANATION, COT), (EXPLANATION, POST_HOC)),
)
"""Metric and setting of each difference, with metric and setting of its first and second side."""
READS_NO_IMAGE = (
    "reads no image: text's share is 100 % of an answer and of an explanation"
)
CHAT_METRICS = (
    *ACCURACY_METRICS.values(),
    *SETTING_OF_TEST,
    *CC_SHAP_METRICS.values(),
)
"""Metrics in which chat models are compared with their base models."""

ItemSeed = tuple[str, int]
"""Name of an item, and seed."""
ItemsOfDatasets = defaultdict[DifferenceKey, dict[str, list[PairedItem]]]


def build_explanation_differences(
    runs: Runs, resampling: Resampling
) -> list[DifferenceRecord]:
    """Build the records of T-SHAP of explanations less T-SHAP of answers, and of chains of thought
    less post-hoc explanations.

    An explanation is compared with the answer of its own row. Both have the same players in
    `equations`; in `published` all tokens of either prompt are players, so that the prompt of the
    explanation has more text players.

    Args:
        runs: Rows of CC-SHAP for each model and data set.
    Returns:
        Records as of `build_difference_records`. A model that reads no image has a record with the
        reason on each data set.
    """
    items: ItemsOfDatasets = defaultdict(dict)
    unmeasured: list[DifferenceRecord] = []
    for (model, dataset, profile), run in split_by_profile(runs).items():
        series = collect_series(run)
        # Models that read no image have no series of T-SHAP.
        if not any(metric.startswith("t_shap") for metric, _ in series):
            key = DifferenceKey(model, profile, POST_HOC, EXPLANATION_LESS_ANSWER)
            unmeasured.append(_explain_missing_images(key, dataset, run))
            continue
        for metric, setting, first_names, second_names in COMPARED:
            first = _select_t_shap(series, *first_names)
            second = _select_t_shap(series, *second_names)
            # A study may have one kind of explanation alone.
            if first and second:
                key = DifferenceKey(model, profile, setting, metric)
                items[key][dataset] = pair_numbers(dataset, first, second)
    return [*build_difference_records(items, resampling, bounds={}), *unmeasured]


def _explain_missing_images(
    key: DifferenceKey, dataset: str, run: ConsistencyRows
) -> DifferenceRecord:
    """Return the record of a model that reads no image."""
    n_items = len({record.item_id for record in run.cc_shap})
    return DifferenceRecord(
        model=key.model,
        dataset=dataset,
        profile=key.profile,
        setting=key.setting,
        metric=key.metric,
        measure=Measure(None, n_items, reason=READS_NO_IMAGE),
    )


def _select_t_shap(series: Series, metric: str, setting: str) -> Sequence[ItemNumber]:
    """Return T-SHAP of each item, over the players of its profile."""
    # A series has one of both names, by its profile.
    shared = series.get((metric + SHARED, setting), ())
    return series.get((metric, setting), shared)


def build_chat_differences(
    runs: Runs, bases: Mapping[str, str], resampling: Resampling
) -> list[DifferenceRecord]:
    """Build the records of chat models less their base models, over the same items.

    An item's numbers are averaged over its seeds on each side first, since one of both models may
    have run with a single seed.

    Args:
        runs: Results for each model and data set.
        bases: Base model of each chat model, as of `model_registry.find_base_models`.
    Returns:
        Records as of `build_difference_records`, under the names of the metrics of stage
        consistency.
    """
    # The series of each model, by data set and profile.
    series_of_runs = {
        names: collect_series(run) for names, run in split_by_profile(runs).items()
    }
    items: ItemsOfDatasets = defaultdict(dict)
    for (model, dataset, profile), chat in series_of_runs.items():
        base_model = bases.get(model, "")
        # A base model that was not run on the data set has no series.
        base = series_of_runs.get((base_model, dataset, profile), {})
        for (metric, setting), numbers in chat.items():
            if metric in CHAT_METRICS and (metric, setting) in base:
                key = DifferenceKey(model, profile, setting, metric, base_model)
                items[key][dataset] = pair_numbers(
                    dataset,
                    average_over_seeds(numbers),
                    average_over_seeds(base[metric, setting]),
                )
    bounds = dict.fromkeys(CC_SHAP_METRICS.values(), SIGNED)
    return build_difference_records(items, resampling, bounds)


def average_over_seeds(numbers: Sequence[ItemNumber]) -> list[ItemNumber]:
    """Return one number for each item, the mean over its seeds that have one, with seed 0."""
    numbers_of_items: dict[str, list[ItemNumber]] = {}
    for number in numbers:
        numbers_of_items.setdefault(number.item_id, []).append(number)
    averages = []
    for runs in numbers_of_items.values():
        average = None
        error = 0.0
        values = []
        errors = []
        for run in runs:
            if run.value is not None:
                values.append(run.value)
                errors.append(run.common_error)
        if values:
            average = mean(values)
            # The permutations of seeds are independent.
            error = math.hypot(*errors) / len(errors)
        averages.append(replace(runs[0], seed=0, value=average, common_error=error))
    return averages


def pair_numbers(
    dataset: str, first: Sequence[ItemNumber], second: Sequence[ItemNumber]
) -> list[PairedItem]:
    """Return the numbers of each item and seed that occurs on a side, in the order of the first
    side.
    """
    # Item and seed of each number; those of one side alone have no number on the other.
    first_numbers = _index_numbers(first)
    second_numbers = _index_numbers(second)
    pairs: dict[ItemSeed, PairedItem] = {}
    for number in (*first, *second):
        key = (number.item_id, number.seed)
        missing = replace(number, value=None)
        first_number = first_numbers.get(key, missing)
        second_number = second_numbers.get(key, missing)
        pairs[key] = PairedItem(
            item_id=number.item_id,
            dataset=dataset,
            cluster=_name_cluster(dataset, number),
            first=first_number.value,
            second=second_number.value,
            first_error=first_number.common_error,
            second_error=second_number.common_error,
            first_draws=_name_draws(first_number),
            second_draws=_name_draws(second_number),
        )
    return list(pairs.values())


def _index_numbers(numbers: Sequence[ItemNumber]) -> dict[ItemSeed, ItemNumber]:
    """Return the number of each item and seed."""
    return {(number.item_id, number.seed): number for number in numbers}


def _name_draws(number: ItemNumber) -> str:
    """Return the name of the permutations of a number, which others of as many players and the same
    seed share.
    """
    return f"{number.seed}:{number.players}"


def _name_cluster(dataset: str, number: ItemNumber) -> str:
    """Return the cluster of an item: its image, which data sets may share, or the item itself."""
    if number.cluster == number.item_id:
        return f"{dataset}:{number.item_id}"
    return number.cluster
