"""Tests and CC-SHAP by the names and settings of the papers, and their average (thesis C.1)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from waltz.core.intervals import Measure

POST_HOC, COT = "post-hoc", "cot"
"""Settings of the papers: the model answers and explains afterwards, or answers behind a chain of thought."""
SETTING_OF_TEST = {
    "counterfactual_edits": POST_HOC,
    "input_from_explanation": POST_HOC,
    "biasing_features": COT,
    "early_answering": COT,
    "filler_tokens": COT,
    "adding_mistakes": COT,
    "paraphrasing": COT,
}
"""Setting of each test."""
CC_SHAP_METRICS = {POST_HOC: "cc_shap_posthoc", COT: "cc_shap_cot"}
"""Metric of CC-SHAP by setting."""


def compute_rescaled_average(cells: Mapping[tuple[str, str], Measure], scores: Sequence[str]) -> Measure:
    """Average a model's consistency over all measures and data sets (thesis C.1).

    CC-SHAP is moved from -1..1 to 0..100; measures are averaged in each data set, then data sets, with equal
    weights. With this rule, thesis Tables 5.2 and C.2 give 36.3 (Falcon-7b) to 48.1 (GPT2).

    Args:
        cells: By data set and measure.
        scores: The measures that are CC-SHAP.
    Returns:
        In 0 to 100; n is the number of cells. Without a value where a cell has none.
    """
    missing = [f"{measure} on {dataset}" for (dataset, measure), cell in cells.items() if cell.value is None]
    if not cells or missing:
        reason = f"no value for {', '.join(sorted(missing))}" if missing else "there is nothing to average"
        return Measure(None, len(cells), reason=reason)
    by_dataset = defaultdict(list)
    for (dataset, measure), cell in cells.items():
        value = float(cell.value or 0.0)
        by_dataset[dataset].append(50 * (value + 1) if measure in scores else value)
    return Measure(float(np.mean([np.mean(values) for values in by_dataset.values()])), len(cells))
