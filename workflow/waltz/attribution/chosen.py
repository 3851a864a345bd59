"""Which items are attributed."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from waltz.attribution.published_sample import published_sample
from waltz.attribution.verbs import chosen
from waltz.core import parquet
from waltz.core.sampling import sample
from waltz.core.schema import BENCHMARK, CONDITIONS
from waltz.evaluation.items import select


def to_attribute(
    file: str | Path, profile: str, scored: str, scored_sample: int | None, n: int | None, seed: int
) -> list[dict[str, Any]]:
    """The items of a data set to attribute.

    In `equations` a seeded sample of the items that are scored; in `published` the draw of the released scripts, out of
    which the valid items are taken. Of CV-Probes, in both, whole groups of simplified captions.

    Args:
        file: Parquet of the benchmark or of CV-Probes.
        profile: `published` or `equations`.
        scored: `valid` or `all`, as in `evaluation.items`.
        scored_sample: Size of the sample that is scored, or None.
        n: Size of the sample (groups, of CV-Probes), or None for all that are scored.
        seed: Seed of both samples.
    """
    if "condition" in pq.read_schema(file).names:
        return [dict(row) for row in chosen(parquet.read(file, CONDITIONS).to_pylist(), n, seed)]
    benchmark = parquet.read(file, BENCHMARK)
    if profile == "published":
        rows = benchmark.to_pylist()
        ids = published_sample([row["item_id"] for row in rows], [row["valid"] is not False for row in rows], n)
    else:
        rows = select(benchmark, scored, scored_sample, seed).to_pylist()
        ids = sample([row["item_id"] for row in rows], None if n is None else min(n, len(rows)), seed)
    of_id = {row["item_id"]: row for row in rows}
    return [of_id[item_id] for item_id in ids]
