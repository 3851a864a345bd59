"""Which items are attributed."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from waltz.core import parquet
from waltz.core.sampling import sample
from waltz.core.schema import BENCHMARK, CONDITIONS
from waltz.evaluation.items import select

FORM = "simplified"
"""Form of CV-Probes' captions that is attributed (CV-Probes, section on MM-SHAP)."""


def sampled(file: str | Path, scored: str, scored_sample: int | None, n: int | None, seed: int) -> list[dict[str, Any]]:
    """The items of a data set to attribute, a sample of those that are scored.

    Args:
        file: Parquet of the benchmark or of CV-Probes.
        scored: `valid` or `all`, as in `evaluation.items`.
        scored_sample: Size of the sample that is scored, or None.
        n: Size of the sample, or None for all that are scored.
        seed: Seed of both samples.
    """
    if "condition" in pq.read_schema(file).names:
        rows = [row for row in parquet.read(file, CONDITIONS).to_pylist() if row["form"] == FORM]
    else:
        rows = select(parquet.read(file, BENCHMARK), scored, scored_sample, seed).to_pylist()
    ids = [row["item_id"] for row in rows]
    picked = set(sample(ids, None if n is None else min(n, len(ids)), seed))
    return [row for row in rows if row["item_id"] in picked]
