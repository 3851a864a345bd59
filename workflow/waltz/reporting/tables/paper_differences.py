"""Differences of paper values, which tables of paired differences are compared with."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from waltz.attribution.differences import (
    CAPTION_LESS_FOIL,
    CAPTION_LESS_MISMATCHED,
)
from waltz.consistency.differences import (
    COT_LESS_POST_HOC,
    EXPLANATION_LESS_ANSWER,
)
from waltz.consistency.metrics import COT, POST_HOC
from waltz.evaluation.settings import ALL_DATA_SETS
from waltz.model_registry import find_base_models, load_registry
from waltz.reporting.tables.declaration import AVERAGE
from waltz.reporting.tables.paper_values import RANDOM, PaperKey, PaperValue

PaperValues = Mapping[PaperKey, PaperValue]
MISMATCHED_SETTING = "isa"
"""Setting of Table 4.1 in which foils are texts of other images."""
POINTS = "points"
"""Unit of a difference of percentages."""
P_METRICS = {
    EXPLANATION_LESS_ANSWER: "p_explanation_less_answer",
    COT_LESS_POST_HOC: "p_cot_less_post_hoc",
    CAPTION_LESS_FOIL: "p_caption_less_foil",
    CAPTION_LESS_MISMATCHED: "p_caption_less_mismatched",
    "cc_shap_posthoc": "p_cc_shap_posthoc",
    "cc_shap_cot": "p_cc_shap_cot",
}
"""Metric that tables show p of a difference under."""
NO_P = "not reported: the paper gives no test"
COMPUTED = "computed from the cells of the paper"
"""Note on a difference that no paper gives."""


def derive_explanation_differences(
    paper_values: PaperValues,
) -> dict[PaperKey, PaperValue]:
    """Return T-SHAP of answers and explanations in the papers' tables, with the differences of
    explanations and answers, and of chains of thought and post-hoc explanations.
    """
    derived: dict[PaperKey, PaperValue] = {}
    for key, explanation in _select_data_sets(paper_values, "t_shap_explanation"):
        answer_key = PaperKey("t_shap_prediction", key.model, key.dataset, POST_HOC)
        answer = paper_values[answer_key]
        derived[answer_key] = answer
        derived[key] = explanation
        # Both kinds of explanation are compared with the one printed answer.
        difference_key = key._replace(metric=EXPLANATION_LESS_ANSWER)
        _add_difference(derived, difference_key, explanation, answer)
        if key.setting == COT:
            post_hoc = paper_values[key._replace(setting=POST_HOC)]
            chain_key = key._replace(metric=COT_LESS_POST_HOC)
            _add_difference(derived, chain_key, explanation, post_hoc)
    return _add_pooled_and_p(derived)


def derive_foil_differences(paper_values: PaperValues) -> dict[PaperKey, PaperValue]:
    """Return the differences of T-SHAP of captions and of foils, or of texts of other images, in
    the papers' tables.
    """
    derived: dict[PaperKey, PaperValue] = {}
    for key, caption in _select_data_sets(paper_values, "t_shap_c"):
        foil = paper_values[key._replace(metric="t_shap_f")]
        # Table 4.1 prints both kinds of texts under the same metric.
        metric = CAPTION_LESS_FOIL
        if key.setting == MISMATCHED_SETTING:
            metric = CAPTION_LESS_MISMATCHED
        _add_difference(derived, key._replace(metric=metric), caption, foil)
    return _add_pooled_and_p(derived)


def derive_chat_differences(paper_values: PaperValues) -> dict[PaperKey, PaperValue]:
    """Return the differences of chat models and their base models in the papers' tables."""
    bases = find_base_models(load_registry())
    derived: dict[PaperKey, PaperValue] = {}
    for key, chat in paper_values.items():
        # Models of other families have no base model.
        base = None
        if key.model in bases:
            base = paper_values.get(key._replace(model=bases[key.model]))
        if base is not None:
            _add_difference(derived, key, chat, base)
    return _add_pooled_and_p(derived)


PAPER_DIFFERENCES = {
    "explanations": derive_explanation_differences,
    "foils": derive_foil_differences,
    "chat": derive_chat_differences,
}
"""Functions that derive differences of paper values, by the names in
`Declaration.paper_differences`.
"""


def _select_data_sets(
    paper_values: PaperValues, metric: str
) -> Iterable[tuple[PaperKey, PaperValue]]:
    """Return the paper values of a metric on single data sets, without averages."""
    return [
        (key, paper)
        for key, paper in paper_values.items()
        if key.metric == metric and key.dataset != AVERAGE and key.model != RANDOM
    ]


def _add_difference(
    derived: dict[PaperKey, PaperValue],
    key: PaperKey,
    first: PaperValue,
    second: PaperValue,
) -> None:
    """Add the difference of two paper values; none where a value is missing."""
    first_number, second_number = first.parse_number(), second.parse_number()
    if first_number is None or second_number is None:
        return
    # As many decimal places as the more exact of both values.
    decimals = max(_count_decimals(first.value), _count_decimals(second.value))
    unit = POINTS if first.unit == "percent" else first.unit
    derived[key] = PaperValue(
        key, f"{first_number - second_number:.{decimals}f}", unit, COMPUTED
    )


def _count_decimals(digits: str) -> int:
    return len(digits.partition(".")[2])


def _add_pooled_and_p(
    derived: dict[PaperKey, PaperValue],
) -> dict[PaperKey, PaperValue]:
    """Return paper values with their means over all data sets of a model, each with the same weight,
    and with an empty value for each p, which no paper gives.
    """
    # Values on all data sets of each metric, model and setting.
    values_of_pools: defaultdict[PaperKey, list[PaperValue]] = defaultdict(list)
    for key, paper in derived.items():
        values_of_pools[key._replace(dataset=ALL_DATA_SETS)].append(paper)
    pooled = dict(derived)
    for key, papers in values_of_pools.items():
        # One more decimal place than the cells, since a mean is more exact.
        mean = float(np.mean([float(paper.value) for paper in papers]))
        decimals = _count_decimals(papers[0].value) + 1
        unit = papers[0].unit
        pooled[key] = PaperValue(key, f"{mean:.{decimals}f}", unit, COMPUTED)
    for key in list(pooled):
        if key.metric in P_METRICS:
            p_key = key._replace(metric=P_METRICS[key.metric])
            pooled[p_key] = PaperValue(p_key, "", "ratio", NO_P)
    return pooled
