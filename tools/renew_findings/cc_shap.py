"""Findings about CC-SHAP and its excess: the numbers of docs/explanation/cc-shap.md."""

from tools.renew_findings.findings import CONSISTENCY, SMOLLM2, Source
from waltz.consistency.metrics import (
    CC_SHAP_METRICS,
    EXCESS,
    EXCESS_CENTERED,
    EXCESS_CONTENT,
    IDENTIFIED,
)

MISTRAL = "mistral-7b-chat"
COMVE, E_SNLI, DISAMBIGUATION = "comve", "e-snli", "disambiguation-qa"
RUNS = {
    "recorded": (MISTRAL, (COMVE, E_SNLI)),
    "small": (SMOLLM2, (COMVE, E_SNLI, DISAMBIGUATION)),
}
"""Model and data sets of the studies `recorded` and `excess`, by the first part of their numbers'
names.
"""
QUANTITIES = {
    "": 3,
    EXCESS: 3,
    EXCESS_CONTENT: 3,
    EXCESS_CENTERED: 3,
    IDENTIFIED: 0,
}
"""Decimals of the numbers that are given, by the ending of their metric."""
FINDINGS: dict[str, Source] = {
    f"{run}_{metric}_{dataset}{ending}": Source(
        CONSISTENCY, metric + ending, model, dataset=dataset, decimals=decimals
    )
    for run, (model, datasets) in RUNS.items()
    for metric in CC_SHAP_METRICS.values()
    for dataset in datasets
    for ending, decimals in QUANTITIES.items()
}
"""Numbers of the page by name."""
