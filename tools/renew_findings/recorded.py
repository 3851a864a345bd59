"""Findings about the recorded run of a model of 7 billion parameters: the numbers of
docs/explanation/cc-shap.md.
"""

from tools.renew_findings.findings import RECORDED, Source
from waltz.consistency.metrics import (
    CC_SHAP_METRICS,
    EXCESS,
    EXCESS_CENTERED,
    EXCESS_CONTENT,
    IDENTIFIED,
)

MISTRAL = "mistral-7b-chat"
DATASETS = ("comve", "e-snli")
QUANTITIES = {
    "": 3,
    EXCESS: 3,
    EXCESS_CONTENT: 3,
    EXCESS_CENTERED: 3,
    IDENTIFIED: 0,
}
"""Decimals of the numbers that are given, by the ending of their metric."""
FINDINGS: dict[str, Source] = {
    f"recorded_{metric}_{dataset}{ending}": Source(
        RECORDED, metric + ending, MISTRAL, dataset=dataset, decimals=decimals
    )
    for metric in CC_SHAP_METRICS.values()
    for dataset in DATASETS
    for ending, decimals in QUANTITIES.items()
}
"""Numbers of the page by name."""
