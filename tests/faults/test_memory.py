"""A device whose memory runs out in a real run: batches are halved until they fit, and the numbers
are the same.
"""

from pathlib import Path

import pytest

from waltz.core.files import parquet
from waltz.core.schema import EVALUATION
from workflow_runs.checkout import TARGET

pytestmark = pytest.mark.faults

SCORED = "results/tiny/evaluation/tiny-gpt2/pairs.parquet"
SMALL_DEVICE = Path(__file__).parent / "small_device"
"""Holds the module that Python imports at its start."""


def scores(checkout):
    return [
        row["score"]
        for row in parquet.read_rows(
            checkout.folder / SCORED, EVALUATION.with_dataset()
        )
    ]


def test_a_device_of_little_memory_gives_the_same_scores(fresh, undisturbed):
    fresh.snakemake(TARGET, PYTHONPATH=str(SMALL_DEVICE))
    logs = "".join(
        file.read_text(encoding="utf-8") for file in fresh.folder.glob("logs/**/*.log")
    )
    assert "halving the batch" in logs
    assert scores(fresh) == pytest.approx(scores(undisturbed), rel=1e-6)
