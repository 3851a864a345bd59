"""Paired differences of decoders over the same items: T-SHAP of explanations less that of answers
(thesis 5.6.2), and chat models less their base models (thesis 5.7).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

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
from waltz.model_registry import ModelSpec

EXPLANATION_LESS_ANSWER = "t_shap_explanation_less_answer"
"""T-SHAP of an explanation less T-SHAP of its answer, by kind of explanation."""
COT_LESS_POST_HOC = "t_shap_cot_less_post_hoc"
"""T-SHAP of a chain of thought less T-SHAP of the post-hoc explanation of the same item."""
READS_NO_IMAGE = (
    "reads no image: text's share is 100 % of an answer and of an explanation"
)
CHAT_SUFFIX = "-chat"
"""Ending by which the prompt family of a chat model differs from the family of its base model."""
CHAT_METRICS = (
    *ACCURACY_METRICS.values(),
    *SETTING_OF_TEST,
    *CC_SHAP_METRICS.values(),
)
"""Metrics in which chat models are compared with their base models."""

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
        # Explanation less answer, for each kind of explanation.
        for setting in (POST_HOC, COT):
            explanations = _select_t_shap(series, "t_shap_explanation", setting)
            answers = _select_t_shap(series, "t_shap_prediction", setting)
            if explanations:
                key = DifferenceKey(model, profile, setting, EXPLANATION_LESS_ANSWER)
                items[key][dataset] = pair_numbers(dataset, explanations, answers)
        # Chain of thought less post-hoc explanation.
        chains = _select_t_shap(series, "t_shap_explanation", COT)
        post_hoc = _select_t_shap(series, "t_shap_explanation", POST_HOC)
        if chains and post_hoc:
            key = DifferenceKey(model, profile, COT, COT_LESS_POST_HOC)
            items[key][dataset] = pair_numbers(dataset, chains, post_hoc)
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
    for name in (metric, metric + SHARED):
        if (name, setting) in series:
            return series[name, setting]
    return ()


def build_chat_differences(
    runs: Runs, bases: Mapping[str, str], resampling: Resampling
) -> list[DifferenceRecord]:
    """Build the records of chat models less their base models, over the same items and seeds.

    Args:
        runs: Results for each model and data set.
        bases: Base model of each chat model, as of `find_base_models`.
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
        base_model = bases.get(model)
        if base_model is None:
            continue
        # A base model that was not run on the data set has no series.
        base = series_of_runs.get((base_model, dataset, profile), {})
        for (metric, setting), numbers in chat.items():
            if metric in CHAT_METRICS and (metric, setting) in base:
                key = DifferenceKey(model, profile, setting, metric, base_model)
                items[key][dataset] = pair_numbers(
                    dataset, numbers, base[metric, setting]
                )
    bounds = dict.fromkeys(CC_SHAP_METRICS.values(), SIGNED)
    return build_difference_records(items, resampling, bounds)


def find_base_models(models: Mapping[str, ModelSpec]) -> dict[str, str]:
    """Return the base model of each chat model: the first model with as many parameters whose
    prompt family is the chat model's without `-chat`.

    Args:
        models: Entries of the models by name. Models without such a base model are no key of the
            result.
    """
    bases: dict[str, str] = {}
    for name, chat in models.items():
        if not chat.family.endswith(CHAT_SUFFIX):
            continue
        # `mistral-chat` is the family of chat models, `mistral` that of their base models.
        base_family = chat.family.removesuffix(CHAT_SUFFIX)
        for base_name, base in models.items():
            if base.family == base_family and base.parameters == chat.parameters:
                bases[name] = base_name
                break
    return bases


def pair_numbers(
    dataset: str, first: Sequence[ItemNumber], second: Sequence[ItemNumber]
) -> list[PairedItem]:
    """Return the numbers of each item and seed that occurs on a side, in the order of the first
    side.
    """
    pairs: dict[tuple[str, int], PairedItem] = {}
    # Items of the first side, with the second side still missing.
    for number in first:
        pairs[number.item_id, number.seed] = PairedItem(
            item_id=number.item_id,
            dataset=dataset,
            cluster=_name_cluster(dataset, number),
            first=number.value,
            second=None,
        )
    # Numbers of the second side, and items that only this side has.
    for number in second:
        key = (number.item_id, number.seed)
        pair = pairs.get(key)
        if pair is None:
            cluster = _name_cluster(dataset, number)
            pair = PairedItem(number.item_id, dataset, cluster, None, None)
        pairs[key] = replace(pair, second=number.value)
    return list(pairs.values())


def _name_cluster(dataset: str, number: ItemNumber) -> str:
    """Return the cluster of an item: its image, which data sets may share, or the item itself."""
    if number.cluster == number.item_id:
        return f"{dataset}:{number.item_id}"
    return number.cluster
