"""Paired differences: how much a number of the same items differs between two sides, such as T-SHAP
of an explanation and of its answer, with an interval and a test over images.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import NamedTuple

import numpy as np
import pandas as pd

from waltz.core.files.group_files import Run
from waltz.core.intervals import (
    PERCENT,
    Bounds,
    Resampling,
    add_common_error,
    bound_common_error,
    build_measure,
    compute_difference_p,
    resample,
)
from waltz.core.measure import Measure
from waltz.core.schema import ComparisonRecord, DifferenceRecord
from waltz.evaluation.metrics.comparisons import correct_families
from waltz.evaluation.settings import ALL_DATA_SETS


class ClusteredNumber(NamedTuple):
    """Hold the number of an item.

    Attributes:
        cluster: The image of the item, or the item if it has no image.
        value: The number.
        error: Standard error by an estimator that draws with the seed of the run, in the unit of the
            number; 0 for other numbers.
        draws: Name of the estimator's draws, which numbers with the same permutations share.
    """

    cluster: str
    value: float
    error: float = 0.0
    draws: str = ""


ItemNumbers = Mapping[str, ClusteredNumber]
"""Number of each item that has one, by the name of the item."""
FIRST, SECOND = ":first", ":second"
"""Endings of the names of the metrics that hold the mean of either side."""


@dataclass(frozen=True, slots=True)
class PairedItem:
    """Hold the numbers of one item on two sides.

    Attributes:
        item_id: Name of the item.
        dataset: Data set of the item.
        cluster: Unit that is resampled and whose sides are exchanged: the image, or the item if it
            has no image.
        first: Number on the first side; None where it is missing.
        second: Number on the second side; None where it is missing.
        first_error: Standard error of the first number, as of `ClusteredNumber`.
        second_error: Standard error of the second number.
        first_draws: Name of the draws of the first number, as of `ClusteredNumber`.
        second_draws: Name of the draws of the second number.
    """

    item_id: str
    dataset: str
    cluster: str
    first: float | None
    second: float | None
    first_error: float = 0.0
    second_error: float = 0.0
    first_draws: str = ""
    second_draws: str = ""


COLUMNS = [field.name for field in fields(PairedItem)]
"""Names of the fields of `PairedItem`."""


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Hold the means of two sides over the same items, and their difference.

    Attributes:
        first: Mean of the first side over the items that have both numbers.
        second: Mean of the second side over the same items.
        difference: Mean of first minus second.
        p: p value of `compute_difference_p`; None without a difference.
        unpaired: Number of items that are left out because a side has no number.
    """

    first: Measure
    second: Measure
    difference: Measure
    p: float | None
    unpaired: int


@dataclass(frozen=True, slots=True)
class DifferenceKey:
    """Name what is compared: the metric of one model in one profile and setting.

    Attributes:
        model: The model.
        profile: The fidelity.
        setting: The setting.
        metric: The metric of the difference.
        base_model: The model on the second side; empty if both sides are of `model`.
    """

    model: str
    profile: str
    setting: str
    metric: str
    base_model: str = ""


def compute_paired_difference(
    items: Sequence[PairedItem],
    label: str,
    resampling: Resampling,
    bounds: Bounds = PERCENT,
) -> PairedDifference:
    """Compute the mean difference of two sides over the items that have a number on both.

    Each data set has the same weight, whatever its number of items; with one data set this is the
    mean over items. The bootstrap draws clusters over all data sets, since data sets share images.
    Intervals and p hold a bound of the noise of a common seed, which resamples do not show.

    Args:
        items: Items of one or several data sets; an item with several seeds occurs once for each.
        label: Name of the data, which separates its bootstrap draws from other draws.
        resampling: Resamples, coverage, seed.
        bounds: Smallest and largest possible number of an item.
    """
    # Only items with both numbers count, so that both means are over the same items.
    numbers = pd.DataFrame(items, columns=COLUMNS).astype(
        {"first": float, "second": float}
    )
    pairs = numbers.dropna(subset=["first", "second"])
    n_items = _count_items(pairs)
    unpaired = _count_items(numbers) - n_items
    if pairs.empty:
        reason = f"none of {unpaired} items has a number on both sides"
        undefined = Measure(None, 0, reason=reason)
        return PairedDifference(undefined, undefined, undefined, None, unpaired)

    first = pairs["first"].to_numpy()  # (pairs,)
    second = pairs["second"].to_numpy()
    weights = _weigh_datasets(pairs["dataset"])
    resamples = resample(
        pairs["cluster"].tolist(),
        resamples=resampling.resamples,
        seed=resampling.seed,
        label=label,
    )
    # Sum of the weights in each resample, (resamples,), so that a mean of equal numbers is exact.
    weight_draws = resamples.compute_means(weights)

    def draw_means(values: np.ndarray, *columns: str) -> np.ndarray:
        means = resamples.compute_means(weights * values) / weight_draws
        # Both numbers of an item may have the same permutations, as those of other items.
        errors = []
        names = []
        for column in columns:
            errors.append(pairs[f"{column}_error"])
            names.append(pairs[f"{column}_draws"])
        common_error = bound_common_error(
            np.concatenate(errors), np.concatenate(names), np.tile(weights, len(errors))
        )
        return add_common_error(means, common_error, resamples.clusters)

    def measure_mean(
        values: np.ndarray, draws: np.ndarray, value_bounds: Bounds
    ) -> Measure:
        return build_measure(
            float(weights @ values),
            n_items,
            draws,
            resampling,
            resamples.clusters,
            value_bounds,
        )

    differences = first - second
    # A difference is largest where one side has the smallest number and the other the largest.
    span = bounds[1] - bounds[0]
    # Interval and p have the same draws.
    difference_draws = draw_means(differences, "first", "second")
    difference = measure_mean(differences, difference_draws, (-span, span))
    p = compute_difference_p(
        float(weights @ differences),
        difference_draws,
        resamples.clusters,
        (-span, span),
    )
    return PairedDifference(
        first=measure_mean(first, draw_means(first, "first"), bounds),
        second=measure_mean(second, draw_means(second, "second"), bounds),
        difference=difference,
        p=p,
        unpaired=unpaired,
    )


def compare_item_numbers(
    comparison: ComparisonRecord,
    datasets: Sequence[str],
    numbers: Mapping[Run, ItemNumbers],
    resampling: Resampling,
) -> ComparisonRecord:
    """Return the comparison of the numbers of two models on the same items of some data sets.

    Args:
        comparison: Names of what is compared, without numbers; of several data sets the result is
            `ALL_DATA_SETS`.
        datasets: The data sets, which have the same weight.
        numbers: Numbers of each model on each data set, in percent.
    Returns:
        The comparison without Holm's correction. It has a reason instead of numbers if the models
        have no common item on a data set.
    """
    label = datasets[0]
    if len(datasets) > 1:
        label = ALL_DATA_SETS
    items: list[PairedItem] = []
    for dataset in datasets:
        numbers_a = numbers.get((comparison.model_a, dataset), {})
        numbers_b = numbers.get((comparison.model_b, dataset), {})
        # Sorted, so that equal items give equal draws.
        common = sorted(numbers_a.keys() & numbers_b.keys())
        # Without one of the data sets, the mean would be over others than the name says.
        if not common:
            reason = f"no item of {dataset} has a number of both models"
            return replace(comparison, dataset=label, reason=reason)
        for item_id in common:
            number_a, number_b = numbers_a[item_id], numbers_b[item_id]
            items.append(build_pair(item_id, dataset, number_a, number_b))
    result = compute_paired_difference(items, label, resampling)
    return replace(
        comparison,
        dataset=label,
        n=result.difference.n,
        difference=result.difference.value,
        ci_low=result.difference.ci_low,
        ci_high=result.difference.ci_high,
        p=result.p,
    )


def build_pair(
    item_id: str, dataset: str, first: ClusteredNumber, second: ClusteredNumber
) -> PairedItem:
    """Return the numbers of one item on two sides; the cluster is that of the first side."""
    return PairedItem(
        item_id,
        dataset,
        first.cluster,
        first.value,
        second.value,
        first.error,
        second.error,
        first.draws,
        second.draws,
    )


def _count_items(numbers: pd.DataFrame) -> int:
    """Return the number of items; an item with several seeds counts once."""
    return len(numbers.drop_duplicates(["dataset", "item_id"]))


def _weigh_datasets(datasets: "pd.Series[str]") -> np.ndarray:
    """Return the weight of each pair, float64 of shape (pairs,): all data sets have the same weight,
    and all weights sum to 1.

    Args:
        datasets: Data set of each pair.
    """
    # Number of pairs in the data set of each pair, (pairs,).
    sizes = datasets.map(datasets.value_counts()).to_numpy(np.float64)
    weights: np.ndarray = 1 / (datasets.nunique() * sizes)
    return weights


def build_difference_records(
    items_of_datasets: Mapping[DifferenceKey, Mapping[str, Sequence[PairedItem]]],
    resampling: Resampling,
    bounds: Mapping[str, Bounds],
) -> list[DifferenceRecord]:
    """Build the records of paired differences on each data set, and over all data sets of a model.

    Each difference has two more records, for the means of its sides (`FIRST`, `SECOND`).

    Args:
        items_of_datasets: Items of each comparison, by data set.
        resampling: Resamples, coverage, seed.
        bounds: Bounds of the numbers of a metric; those of a metric without an entry are percent.
    Returns:
        Records in which p is corrected by Holm over the models and data sets of one profile,
        setting and metric; pooled differences are corrected among themselves.
    """
    records: list[DifferenceRecord] = []
    for key, datasets in items_of_datasets.items():
        labeled_items = dict(datasets)
        if len(datasets) > 1:
            labeled_items[ALL_DATA_SETS] = list(chain.from_iterable(datasets.values()))
        for dataset, items in labeled_items.items():
            result = compute_paired_difference(
                items, dataset, resampling, bounds.get(key.metric, PERCENT)
            )
            records += _build_records(key, dataset, result)
    return correct_families(records, _name_family)


def _build_records(
    key: DifferenceKey, dataset: str, result: PairedDifference
) -> list[DifferenceRecord]:
    """Return the record of a difference, and the records of the means of both sides."""
    record = DifferenceRecord(
        model=key.model,
        base_model=key.base_model,
        dataset=dataset,
        profile=key.profile,
        setting=key.setting,
        metric=key.metric,
        measure=result.difference,
        p=result.p,
        unpaired=result.unpaired,
    )
    return [
        record,
        replace(record, metric=key.metric + FIRST, measure=result.first, p=None),
        replace(record, metric=key.metric + SECOND, measure=result.second, p=None),
    ]


def _name_family(record: DifferenceRecord) -> tuple[str, str, str, bool]:
    """Return what the records have in common whose p values are corrected together."""
    is_overall = record.dataset == ALL_DATA_SETS
    return record.profile, record.setting, record.metric, is_overall
